"""One model from several: linear ones become a linear one, others answer together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.special import log_expit, log_softmax, logsumexp

from multirel.estimators._model import LinearModel, Model
from multirel.estimators._network_images import BackboneModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AveragedModel", "average_models"]

N_BINARY = 2


def average_models(models: Sequence[Model], *, sizes: Sequence[int], is_logistic: bool) -> Model:
    """The average of models of the same tasks.

    Args:
        models: The models.
        sizes: The number of classes of every task; 0 where numbers are predicted.
        is_logistic: Whether the scores of classes are those of the logistic loss.
    """
    behind = [model for model in models if isinstance(model, BackboneModel)]
    if behind and len(behind) == len(models):
        inner = average_models(
            [model.inner for model in behind], sizes=sizes, is_logistic=is_logistic
        )
        return BackboneModel(behind[0].backbone, inner, device=behind[0].device)
    linear = [model for model in models if isinstance(model, LinearModel)]
    if len(linear) < len(models):
        return AveragedModel(models, sizes=sizes, is_logistic=is_logistic)
    return LinearModel(
        _mean([model.weights for model in linear]),
        _mean([model.intercepts for model in linear]),
        is_one_vs_rest=linear[0].is_one_vs_rest,
    )


def _mean(values: Sequence[Any]) -> Any:
    """The mean of arrays, or of lists of arrays entry by entry."""
    if isinstance(values[0], np.ndarray):
        return np.mean(values, axis=0)
    return [np.mean(entries, axis=0) for entries in zip(*values, strict=True)]


@final
class AveragedModel(Model):
    """Gives the average of the probabilities of several models, or of their numbers.

    Args:
        models: The models.
        sizes: The number of classes of every task; 0 where numbers are predicted.
        is_logistic: Whether the scores of classes are those of the logistic loss; if not, scores are
            averaged.
    """

    is_one_vs_rest = False

    def __init__(self, models: Sequence[Model], *, sizes: Sequence[int], is_logistic: bool) -> None:
        self.models = list(models)
        self.sizes = [int(size) for size in sizes]
        self.is_logistic = is_logistic

    def scores(self, x: Any, task: "NDArray[np.int64]") -> "NDArray[np.float64]":
        every = [model.scores(x, task) for model in self.models]
        full = np.full((len(every), len(task), max(s.shape[1] for s in every)), -np.inf)
        for position, scores in enumerate(every):
            full[position, :, : scores.shape[1]] = scores
        size = np.array(self.sizes)[task]
        combined = full.mean(axis=0)
        if self.is_logistic:
            pair, several = (size > 0) & (size <= N_BINARY), size > N_BINARY
            combined[pair, 0] = _pooled_log_odds(full[:, pair, 0])
            combined[several] = _pooled_log_probabilities(full[:, several])
        return combined


def _pooled_log_odds(scores: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """ln(p̄/(1 − p̄)) of mean probabilities p̄, "n", from the log-odds of every model, "m n"."""
    pooled: NDArray[np.float64] = logsumexp(log_expit(scores), axis=0) - logsumexp(
        log_expit(-scores), axis=0
    )
    return pooled


def _pooled_log_probabilities(scores: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """ln p̄, "n C", from the scores of every model, "m n C"; classes that do not exist stay at −∞."""
    pooled: NDArray[np.float64] = logsumexp(log_softmax(scores, axis=2), axis=0)
    return pooled - np.log(len(scores))
