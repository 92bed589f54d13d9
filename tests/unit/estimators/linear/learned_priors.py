"""Problems with a squared loss for the tests of learned priors, and their dense solutions."""

from typing import Any

import numpy as np

from multirel.estimators._linear import Design, LinearProblem
from tests.reference.dense import Array, kronecker

SETTINGS: dict[str, Any] = {
    "modes": ("task", "output", "input"),
    "shrinkage": None,
    "shrinkage_target": "identity",
    "start": 0.5,
    "n_updates": 1,
    "mean": "zero",
    "mean_strength": 0.0,
    "scale": "trace",
    "covariance_update": "logdet",
    "inverse": "ridge",
    "jitter": 1e-6,
    "rank": "auto",
}
"""The settings of a prior that estimators hand on, at their defaults."""


def problem_of(
    n_tasks: int, n_outputs: int, n_features: int, *, n_rows: int = 12, seed: int = 0
) -> LinearProblem:
    """Rows of tasks that are alike, with a squared loss."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    x = rng.standard_normal((len(task), n_features))
    shared = rng.standard_normal((1, n_outputs, n_features))
    weights = shared + 0.5 * rng.standard_normal((n_tasks, n_outputs, n_features))
    y = np.einsum("nf,nof->no", x, weights[task]) / np.sqrt(n_features)
    y += 0.3 * rng.standard_normal(y.shape) + rng.standard_normal(n_tasks)[task, None]
    return LinearProblem(
        design=Design(x, np.arange(n_tasks + 1) * n_rows),
        targets=y,
        coefficients=np.full(len(task), 1 / len(task)),
        loss="squared",
        n_samples=float(len(task)),
        n_features=n_features,
    )


def dense_ridge(problem: LinearProblem, precisions: list[Array], *, strength: float) -> Array:
    """The weights that minimize the loss and (λ/N)·½⟨W, P W⟩, as one system of linear equations."""
    n_tasks, n_outputs, n_inputs = problem.weight_shape
    matrix = strength / problem.n_samples * kronecker(precisions)
    right = np.zeros(problem.weight_shape)
    starts = problem.design.starts
    for task in range(n_tasks):
        rows = slice(starts[task], starts[task + 1])
        weight = problem.coefficients[rows]
        share = weight / weight.sum()
        x, y = problem.design.x[rows], problem.targets[rows]
        x, y = x - share @ x, y - share @ y
        gram = 2 * (x.T * weight) @ x
        for output in range(n_outputs):
            first = (task * n_outputs + output) * n_inputs
            part = slice(first, first + n_inputs)
            matrix[part, part] += gram
            right[task, output] = 2 * (x.T * weight) @ y[:, output]
    return np.linalg.solve(matrix, right.ravel()).reshape(right.shape)


def dense_loss(problem: LinearProblem, weights: Array, intercepts: Array) -> float:
    """The mean loss."""
    task = problem.design.task
    outputs = np.einsum("nf,nof->no", problem.design.x, weights[task]) + intercepts[task]
    return float(problem.coefficients @ ((problem.targets - outputs) ** 2).sum(axis=1))
