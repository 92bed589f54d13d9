"""How well the covariances of simulated weights are recovered from draws of the weights."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multirel.experiments._review_tasks import MODE_NAMES, REVIEW_LABELS, review_correlations
from multirel.tensor_normal import (
    Covariance,
    TensorNormal,
    correlation_matrix,
    fit_tensor_normal,
    normalize_covariances,
)

__all__ = ["Recovery", "TaskPair", "recover_covariances"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPair:
    """Two tasks and the correlation of their weights."""

    first: str
    """Name of one task."""

    second: str
    """Name of the other task."""

    true: float
    """Correlation in the distribution that was drawn from."""

    recovered: float
    """Correlation in the fitted distribution."""

    @property
    def error(self) -> float:
        """How far the recovered correlation is from the true one."""
        return abs(self.recovered - self.true)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """True and recovered correlations of every mode, task mode first, and how far apart they are."""

    n_samples: int
    """Number of weight arrays that the estimate saw."""

    mode_names: tuple[str, ...]
    """What the axes of the weights are."""

    labels: tuple[tuple[str, ...], ...]
    """Names of the entries of each mode."""

    true_correlations: tuple[NDArray[np.float64], ...]
    """Correlation matrix of each mode in the distribution that was drawn from."""

    recovered_correlations: tuple[NDArray[np.float64], ...]
    """Correlation matrix of each mode in the fitted distribution."""

    relative_errors: tuple[float, ...]
    """Frobenius norm of the error of each trace-normalized covariance over that of the true one."""

    n_iterations: int
    """Sweeps that the estimate took."""

    converged: bool
    """Whether the estimate settled."""

    @property
    def most_alike(self) -> TaskPair:
        """The two tasks with the largest recovered correlation."""
        return max(self._task_pairs(), key=lambda pair: pair.recovered)

    @property
    def most_opposed(self) -> TaskPair:
        """The two tasks with the smallest recovered correlation."""
        return min(self._task_pairs(), key=lambda pair: pair.recovered)

    @property
    def furthest_off(self) -> TaskPair:
        """The two tasks whose recovered correlation is furthest from the true one."""
        return max(self._task_pairs(), key=lambda pair: pair.error)

    def _task_pairs(self) -> list[TaskPair]:
        """Return all pairs of different tasks."""
        true, recovered = self.true_correlations[0], self.recovered_correlations[0]
        return [
            TaskPair(
                first=first, second=second, true=float(true[i, j]), recovered=float(recovered[i, j])
            )
            for (i, first), (j, second) in combinations(enumerate(self.labels[0]), 2)
        ]


def recover_covariances(*, n_samples: int = 20, seed: int = 0) -> Recovery:
    """Return what `fit_tensor_normal` recovers from draws of weights with known covariances.

    The global random state of torch is left as it was.

    Args:
        n_samples: Number of weight arrays (tasks x outputs x inputs) to draw.
        seed: Seed of the draws.

    Raises:
        ValueError: If `n_samples` is below 1.

    Example:
        >>> recovery = recover_covariances(n_samples=50, seed=0)
        >>> max(recovery.relative_errors) < 0.1
        True
    """
    if n_samples < 1:
        raise ValueError(f"`n_samples` must be at least 1: got {n_samples}. Draw more samples.")
    true = review_correlations()
    fit = fit_tensor_normal(_draw(true, n_samples=n_samples, seed=seed), mean="zero")
    recovered = _normalized(fit.distribution.covariances)
    return Recovery(
        n_samples=n_samples,
        mode_names=MODE_NAMES,
        labels=REVIEW_LABELS,
        true_correlations=true,
        recovered_correlations=tuple(_to_array(correlation_matrix(c)) for c in recovered),
        relative_errors=tuple(
            float(np.linalg.norm(_to_array(estimate.dense()) - truth) / np.linalg.norm(truth))
            for estimate, truth in zip(recovered, true, strict=True)
        ),
        n_iterations=fit.n_iterations,
        converged=fit.converged,
    )


def _draw(correlations: tuple[NDArray[np.float64], ...], *, n_samples: int, seed: int) -> Tensor:
    """Return `n_samples` weight arrays with these correlations, unit variances and mean zero."""
    covariances = [torch.from_numpy(matrix) for matrix in correlations]
    loc = torch.zeros([len(matrix) for matrix in correlations], dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TensorNormal(loc, covariances).rsample((n_samples,))


def _normalized(covariances: tuple[Covariance, ...]) -> tuple[Covariance, ...]:
    """Return the covariances with trace d_k: only up to scale are they determined."""
    return normalize_covariances(covariances)[0]


def _to_array(matrix: Tensor) -> NDArray[np.float64]:
    """Return `matrix` as a numpy array."""
    return matrix.numpy()
