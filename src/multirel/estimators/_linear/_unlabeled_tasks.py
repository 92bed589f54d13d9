"""Tasks without rows: their weights follow from those of the other tasks."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._linear._design import Design
from multirel.estimators._linear._problem import LinearProblem, LinearSolution

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["conditional_weights", "labeled_problem", "with_unlabeled_tasks"]


def labeled_problem(problem: LinearProblem) -> "tuple[LinearProblem, NDArray[np.bool_]]":
    """The problem of the tasks that have rows, and which these are."""
    starts = problem.design.starts
    has_rows = np.diff(starts) > 0
    if has_rows.all():
        return problem, has_rows
    kept = np.append(starts[:-1][has_rows], starts[-1])
    return replace(problem, design=Design(problem.design.x, kept)), has_rows


def with_unlabeled_tasks(
    solution: LinearSolution, has_rows: "NDArray[np.bool_]", *, start: Any, mean: str
) -> LinearSolution:
    """A solution for all tasks: those without rows have the prior's conditional mean.

    Their weights are the mean given the other tasks' weights at the task correlation of the first fit, their
    intercepts are the average of the others.

    Args:
        solution: The solution of the tasks that have rows.
        has_rows: Which tasks have rows.
        start: One correlation for all pairs of tasks, or a matrix.
        mean: What the prior pulls weights to, "zero" or "task-average".
    """
    if has_rows.all():
        return solution
    shape = (len(has_rows), *solution.weights.shape[1:])
    weights, intercepts = np.empty(shape), np.empty(shape[:2])
    weights[has_rows], intercepts[has_rows] = solution.weights, solution.intercepts
    weights[~has_rows] = conditional_weights(solution.weights, has_rows, start=start, mean=mean)
    intercepts[~has_rows] = solution.intercepts.mean(axis=0)
    return replace(solution, weights=weights, intercepts=intercepts)


def conditional_weights(
    weights: "NDArray[np.float64]", has_rows: "NDArray[np.bool_]", *, start: Any, mean: str
) -> "NDArray[np.float64]":
    """Weights of tasks without rows: the smallest penalty given the weights of the others."""
    n_others = len(weights)
    if np.ndim(start) == 0:
        # With one correlation ρ for all pairs: Σ_ul Σ_ll⁻¹ = ρ 1ᵀ / (1 + (T_l − 1) ρ).
        share = float(start) / (1 + (n_others - 1) * float(start))
        factor = share if mean == "zero" else 1 / n_others
        total: NDArray[np.float64] = factor * weights.sum(axis=0)
        return total
    matrix = np.asarray(start, dtype=np.float64)
    precision = np.linalg.solve(matrix, np.eye(len(matrix)))
    if mean == "task-average":
        precision = precision - precision.mean(axis=0)
        precision = precision - precision.mean(axis=1, keepdims=True)
    unknown = precision[np.ix_(~has_rows, ~has_rows)]
    right = np.tensordot(precision[np.ix_(~has_rows, has_rows)], weights, axes=1)
    found = np.linalg.solve(unknown, right.reshape(len(right), -1))
    return -found.reshape(right.shape)
