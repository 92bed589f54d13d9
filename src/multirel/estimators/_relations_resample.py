"""The plain bootstrap of task correlations: rows drawn again within every task, and another fit."""

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._learned_matrices import as_correlations
from multirel.estimators._linear import Design, LinearProblem, LinearSolution

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["refitted_correlations", "resampled"]


def refitted_correlations(
    estimator: Any,
    problem: LinearProblem,
    *,
    start: LinearSolution,
    n_boot: int,
    seed: np.random.SeedSequence,
) -> "NDArray[np.float64]":
    """Task correlations of refits, "n T T"."""
    rng = np.random.default_rng(seed)
    found = [
        _task_correlation(estimator._solve(resampled(problem, rng), start=start))
        for _ in range(n_boot)
    ]
    n_tasks = problem.n_tasks
    return np.stack(found) if found else np.empty((0, n_tasks, n_tasks))


def resampled(problem: LinearProblem, rng: np.random.Generator) -> LinearProblem:
    """The problem of as many rows of every task, drawn with replacement."""
    starts = problem.design.starts
    index = np.concatenate(
        [rng.integers(first, end, size=end - first) for first, end in pairwise(starts.tolist())]
    )
    coefficients = problem.coefficients[index]
    return replace(
        problem,
        design=Design(problem.design.x[index], starts),
        targets=problem.targets[index],
        coefficients=coefficients / coefficients.sum(),
    )


def _task_correlation(solution: LinearSolution) -> "NDArray[np.float64]":
    relations = solution.learned.get("relations_")
    if relations is not None:
        return as_correlations(relations.task.dense())
    return as_correlations(solution.learned["task_covariance_"])
