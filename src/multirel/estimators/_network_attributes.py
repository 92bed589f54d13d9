"""What users see of a trained network."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from multirel.estimators._linear._covariance_factors import CovarianceFactors
from multirel.estimators._linear._learned_prior_solver import LearnedRelations
from multirel.estimators._network_build import prefix_of, task_layers
from multirel.estimators._network_tasks import AllTasks
from multirel.estimators._network_training import Trained, Training
from multirel.networks import FactorizedTaskLinear
from multirel.priors import TensorNormalPrior

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["set_learned"]

LARGEST_MODE = 1000
"""Modes above this size are reported by the prior's own covariance, which has factors."""

MODES = ("task", "output", "input")


def set_learned(
    estimator: Any,
    trained: Trained,
    tasks: AllTasks,
    *,
    training: Training,
    network: nn.Module,
    layers: Sequence[str],
) -> None:
    """Set the learned attributes of an estimator, but for the model and the objective.

    Args:
        estimator: The estimator.
        trained: What training came to.
        tasks: All tasks; those without labels are NaN in correlations.
        training: How it was trained.
        network: The network of all tasks.
        layers: Names of the layers with a prior.
    """
    estimator.network_ = network
    estimator.history_ = trained.history
    estimator.prior_ = trained.prior
    estimator.n_iter_ = trained.n_steps
    estimator.converged_ = trained.is_complete
    if training.plan.relates_tasks:
        estimator.n_updates_ = 0 if trained.prior is None else trained.prior.n_updates
        _set_relations(estimator, trained, tasks, layers=layers)
    mine = task_layers(trained.network)
    if training.plan.factorization is not None and mine is not None:
        estimator.ranks_ = {
            name: layer.ranks
            for name, layer in mine.heads.items()
            if isinstance(layer, FactorizedTaskLinear)
        }


def _set_relations(
    estimator: Any, trained: Trained, tasks: AllTasks, *, layers: Sequence[str]
) -> None:
    """The relations of the last layer with a prior, and the task correlations of all of them.

    For hidden layers they are those of what training has changed, since these start equal in all tasks. The
    output layer starts from zero, and has the prior's own covariances.
    """
    has_rows = np.isin(np.arange(len(tasks.names)), tasks.labelled)
    prior, mine = trained.prior, task_layers(trained.network)
    if prior is None or mine is None:
        one = CovarianceFactors.identity(1)
        estimator.relations_ = LearnedRelations(task=one, output=one, input=one, has_rows=has_rows)
        estimator.correlations_ = {}
        return
    prefix = f"{prefix_of(trained.network)}heads."
    estimator.correlations_ = {}
    for name in layers:
        is_raw = name == [*mine.heads][-1]
        matrix = prior.correlations(prefix + name, raw=is_raw)
        estimator.correlations_[name] = _for_all(matrix, tasks)
        found = {mode: _factors(prior, prefix + name, mode, is_raw=is_raw) for mode in MODES}
        estimator.relations_ = LearnedRelations(**found, has_rows=has_rows)


def _factors(
    prior: TensorNormalPrior, pattern: str, mode: str, *, is_raw: bool
) -> CovarianceFactors:
    """The covariance of a mode, or the correlations of what training has changed."""
    stack = prior._prior_of(pattern)
    number = stack.stack.modes.index(mode)
    covariance = stack.covariances[number]
    if is_raw or covariance.size > LARGEST_MODE:
        covariance = covariance.to(device=torch.device("cpu"), dtype=torch.float64)
        return CovarianceFactors.from_covariance(covariance, covariance.size)
    matrix = np.nan_to_num(prior.correlations(pattern, mode))
    values, vectors = np.linalg.eigh(matrix)
    return CovarianceFactors(basis=vectors, inside=values, outside=0.0)


def _for_all(matrix: "NDArray[np.float64]", tasks: AllTasks) -> "NDArray[np.float64]":
    """The matrix with NaN for tasks without labels."""
    full = np.full((len(tasks.names),) * 2, np.nan)
    full[np.ix_(tasks.labelled, tasks.labelled)] = matrix
    return full
