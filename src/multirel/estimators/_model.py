"""What an estimator has learned, as something that gives scores."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LinearModel", "Model"]


class Model(ABC):
    """Gives scores for rows of tasks."""

    is_one_vs_rest: bool
    """Whether the scores of more than two classes come from one problem per class."""

    @abstractmethod
    def scores(self, x: Any, task: "NDArray[np.int64]") -> "NDArray[np.float64]":
        """Scores of rows, "n C"; columns that a task does not have are −∞.

        Args:
            x: Features, as the estimator read them.
            task: The number of each row's task.
        """


@final
class LinearModel(Model):
    """Linear functions of the features, one per task and output.

    Args:
        weights: Weights of every task, each "C F", in the user's units.
        intercepts: Intercepts of every task, each "C".
        is_one_vs_rest: Whether the outputs come from one problem per class.
    """

    def __init__(
        self,
        weights: "Sequence[NDArray[np.float64]] | NDArray[np.float64]",
        intercepts: "Sequence[NDArray[np.float64]] | NDArray[np.float64]",
        *,
        is_one_vs_rest: bool = False,
    ) -> None:
        self.weights = weights
        self.intercepts = intercepts
        self.is_one_vs_rest = is_one_vs_rest

    def scores(self, x: Any, task: "NDArray[np.int64]") -> "NDArray[np.float64]":
        width = max(len(intercept) for intercept in self.intercepts)
        scores = np.full((len(task), width), -np.inf)
        order = np.argsort(task, kind="stable")
        ends = np.cumsum(np.bincount(task, minlength=len(self.weights)))
        for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if end > start:
                mine = order[start:end]
                weight, intercept = self.weights[number], self.intercepts[number]
                scores[mine, : len(intercept)] = x[mine] @ weight.T + intercept
        return scores
