"""What every method knows about the weights of one more task, with all else fixed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._linear._covariance_factors import CovarianceFactors
from multirel.estimators._linear._unlabeled_tasks import conditional_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "KnownTasks",
    "Rule",
    "TaskPrior",
    "average",
    "factors",
    "features",
    "multilinear",
    "own",
    "pooled",
    "relationships",
    "robust",
]

EDGE = 1e-6
"""Shares below this stand for none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownTasks:
    """The tasks that were fitted with labels, in the coordinates where the penalty acts."""

    weights: "NDArray[np.float64]"
    """ "T C F", of features as they were standardized; C = 1 for each of the problems of one-vs-rest."""

    total_weight: float
    """What a penalty beside the mean loss is multiplied by where the new rows' losses are summed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskPrior:
    r"""The penalty $\tfrac{\lambda}{2}\langle w-m,(K_O\otimes K_I)^{-1}(w-m)\rangle$ + constant."""

    mean: "NDArray[np.float64]"
    """m, "C F"."""

    strength: float
    """λ, beside the sum of the new rows' losses."""

    input: CovarianceFactors
    """K_I."""

    output: CovarianceFactors | None = None
    """K_O; None is the identity."""

    basis: "NDArray[np.float64] | None" = None
    """Orthonormal directions "k C F" that w − m lies in, instead of both."""

    constant: float = 0.0
    """What the penalty has beside."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """The prior, which may depend on a number between 0 and 1 that is learned with the weights."""

    prior: Callable[[float], TaskPrior]
    """The prior for such a number."""

    is_searched: bool = False
    """Whether it depends on it."""

    has_intercept: bool = True
    """Whether the task has an intercept of its own."""

    learned: "Callable[[float, NDArray[np.float64]], NDArray[np.float64]] | None" = None
    """What else follows from the number and the weights "F" of an output."""


def own(estimator: Any, known: KnownTasks) -> Rule:
    """A ridge penalty alone: the task's own fit."""
    return _always(_ridge(known, estimator.strength))


def pooled(estimator: Any, known: KnownTasks) -> Rule:
    """The weights of all tasks, and an intercept where tasks have their own."""
    nothing = CovarianceFactors(
        basis=np.zeros((known.weights.shape[2], 0)), inside=np.zeros(0), outside=0.0
    )
    prior = TaskPrior(mean=known.weights[0], strength=1.0, input=nothing)
    return Rule(prior=lambda _: prior, has_intercept=estimator.task_intercepts)


def average(estimator: Any, known: KnownTasks) -> Rule:
    """λ₁ Σ ‖w − w̄‖² + λ₂ ‖w‖² with an average w̄ that the task takes part in."""
    n_tasks = len(known.weights)
    # Σ ‖w_t − w̄‖² of T + 1 tasks grows by T/(T+1) ‖w − the others' average‖².
    to_average = estimator.strength * n_tasks / (n_tasks + 1)
    both = to_average + estimator.ridge
    share = to_average / both if both > 0 else 0.0
    prior = TaskPrior(
        mean=share * known.weights.mean(axis=0),
        strength=2 * both * known.total_weight,
        input=CovarianceFactors.identity(known.weights.shape[2]),
    )
    return _always(prior)


def features(estimator: Any, known: KnownTasks) -> Rule:
    """γ wᵀ D⁺ w with the features D that were learned: the task's weights lie in their span."""
    basis, values, _ = _singular_vectors(known)
    total = values.sum()
    learned = CovarianceFactors(
        basis=basis, inside=values / total if total > 0 else values, outside=0.0
    )
    return _always(_around_zero(known, 2 * estimator.strength * known.total_weight, learned))


def relationships(estimator: Any, known: KnownTasks) -> Rule:
    r"""The row and column of Ω that belong to the task are learned with its weights; its block is fixed.

    For a share b of the trace, after minimizing over the row, with W = U S Vᵀ and τ = ‖W‖_*:

    $$\tfrac{\lambda_1}2\lVert w\rVert^2+\tfrac{\lambda_2}2\big(\tau^2/b+w^\top K^{-1}w\big),
    \qquad K=\tfrac b\tau USU^\top+(1-b)I$$
    """
    basis, values, right = _singular_vectors(known)
    total = values.sum()

    def prior(share: float) -> TaskPrior:
        inside = share * values / total + 1 - share if total > 0 else 1 - share + values
        relations = CovarianceFactors(
            basis=basis,
            inside=1 / (estimator.strength / inside + estimator.ridge),
            outside=1 / (estimator.strength / (1 - share) + estimator.ridge),
        )
        constant = estimator.strength / 2 * total**2 / share * known.total_weight
        return _around_zero(known, known.total_weight, relations, constant=constant)

    def covariance(share: float, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Ω of all tasks, the new one last."""
        block = (right.T * values) @ right / total
        row = right.T @ ((basis.T @ weights) / (values + (1 - share) * total / share))
        # The variance of the others, and what of the new task they explain.
        others = share / (1 + row @ block @ row)
        corner = 1 - share + others * (row @ block @ row)
        column = others * block @ row
        return np.block([[others * block, column[:, None]], [column, corner]])

    is_searched = estimator.strength > 0 and bool(total > 0)
    return Rule(prior=prior, is_searched=is_searched, learned=covariance if is_searched else None)


def robust(estimator: Any, known: KnownTasks) -> Rule:
    r"""A part in the space that the tasks share, and a part of the task's own if it pays.

    With the shared space fixed at Δ = (L Lᵀ)^½, and a length η of the own part that is learned:

    $$\tfrac12w^\top K^{-1}w+\tfrac{\rho_2}2\eta,\qquad K=\Delta/\rho_1+(\eta/\rho_2)I$$
    """
    basis, values, _ = _singular_vectors(known)

    def prior(share: float) -> TaskPrior:
        length = share / (1 - share)
        rest = length / estimator.outlier_strength
        parts = CovarianceFactors(
            basis=basis, inside=values / estimator.strength + rest, outside=rest
        )
        constant = estimator.outlier_strength / 2 * length * known.total_weight
        return _around_zero(known, known.total_weight, parts, constant=constant)

    def shared(share: float, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The part in the space that the tasks share."""
        if share < EDGE:
            return weights
        among = values / estimator.strength
        rest = share / (1 - share) / estimator.outlier_strength
        return basis @ ((among / (among + rest)) * (basis.T @ weights))

    return Rule(prior=prior, is_searched=True, learned=shared)


def factors(estimator: Any, known: KnownTasks) -> Rule:
    """Coefficients of the factors that the tasks share."""
    shape = known.weights.shape
    _, values, basis = np.linalg.svd(known.weights.reshape(shape[0], -1), full_matrices=False)
    inside = values > values.max(initial=0.0) * shape[0] * np.finfo(np.float64).eps
    prior = TaskPrior(
        mean=np.zeros(shape[1:]),
        strength=estimator.strength,
        input=CovarianceFactors.identity(shape[2]),
        basis=basis[inside].reshape(-1, *shape[1:]),
    )
    return _always(prior)


def multilinear(estimator: Any, known: KnownTasks) -> Rule:
    """The prior given the other tasks' weights, at the task correlation of the first fit.

    Covariances of outputs and inputs are those that were learned.
    """
    n_tasks = len(known.weights)
    correlation = _start_correlation(estimator) if "task" in estimator.modes else 0.0
    has_rows = np.arange(n_tasks + 1) < n_tasks
    if estimator.mean == "zero":
        explained = n_tasks * correlation**2 / (1 + (n_tasks - 1) * correlation)
        precision = 1 / (1 - explained)
    else:
        precision = n_tasks / ((n_tasks + 1) * (1 - correlation))
    mean = conditional_weights(known.weights, has_rows, start=correlation, mean=estimator.mean)
    prior = TaskPrior(
        mean=mean,
        strength=estimator.strength * precision,
        input=estimator.relations_.input,
        output=estimator.relations_.output,
    )
    return _always(prior)


def _start_correlation(estimator: Any) -> float:
    """The correlation of the start, or the average one of a matrix."""
    if np.ndim(estimator.start) == 0:
        return float(estimator.start)
    matrix = np.asarray(estimator.start, dtype=np.float64)
    deviation = np.sqrt(np.diagonal(matrix))
    correlations = matrix / deviation / deviation[:, None]
    return float(correlations[~np.eye(len(matrix), dtype=bool)].mean()) if len(matrix) > 1 else 0.0


def _always(prior: TaskPrior) -> Rule:
    return Rule(prior=lambda _: prior)


def _ridge(known: KnownTasks, strength: float) -> TaskPrior:
    return _around_zero(known, strength, CovarianceFactors.identity(known.weights.shape[2]))


def _around_zero(
    known: KnownTasks, strength: float, inputs: CovarianceFactors, *, constant: float = 0.0
) -> TaskPrior:
    mean = np.zeros(known.weights.shape[1:])
    return TaskPrior(mean=mean, strength=strength, input=inputs, constant=constant)


def _singular_vectors(
    known: KnownTasks,
) -> "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]":
    """U "F k", S "k" and Vᵀ "k T" of W = U S Vᵀ, with a column of W per task."""
    basis, values, right = np.linalg.svd(known.weights[:, 0].T, full_matrices=False)
    inside = values > values.max(initial=0.0) * len(basis) * np.finfo(np.float64).eps
    return basis[:, inside], values[inside], right[inside]
