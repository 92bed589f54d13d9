"""Fitting a linear model: from rows to a problem, from its solution to what users see."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._linear import Coordinates, Design, LinearProblem, LinearSolution
from multirel.estimators._linear._coordinates import standardize_rows, standardized
from multirel.estimators._linear._interruption import interruptible, is_interrupted
from multirel.estimators._linear._progress import telling
from multirel.estimators._linear._span import is_reducible, reduce_to_span
from multirel.estimators._model import LinearModel
from multirel.estimators._task_rows import TaskRows
from multirel.exceptions import ConvergenceWarning, MultirelWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["build_problem", "fit_linear", "targets_of"]

N_BINARY = 2


def fit_linear(estimator: Any, rows: TaskRows) -> None:
    """Fit the linear model of an estimator, and set what it has learned.

    Raises:
        ValueError: If tasks have different classes or kinds, and the method relates tasks.
    """
    if rows.is_alike:
        problem, coordinates = build_problem(estimator, rows)
        with interruptible(), telling(_name_of(estimator)):
            solution = estimator._solve(problem)
            set_solution(estimator, solution, coordinates, n_classes=_n_classes(rows))
    elif getattr(estimator, "_solves_tasks_apart", False):
        with interruptible(), telling(_name_of(estimator)):
            fit_tasks_apart(estimator, rows)
    else:
        _refuse_different_tasks(estimator)


def _name_of(estimator: Any) -> str | None:
    return type(estimator).__name__ if estimator.verbose else None


def _refuse_different_tasks(estimator: Any) -> None:
    if hasattr(estimator, "hidden_sizes"):
        raise ValueError(
            "`hidden_sizes` must have a layer where tasks have different classes or kinds: linear models "
            "of such tasks have nothing to relate. Use `hidden_sizes=(256,)`."
        )
    raise ValueError(
        f"`classes` must be shared by all tasks in {type(estimator).__name__}, whose models are linear: got "
        f"tasks with classes of their own. Use an estimator with `hidden_sizes=(256,)`."
    )


def build_problem(estimator: Any, rows: TaskRows) -> tuple[LinearProblem, Coordinates]:
    """The problem of rows that all predict the same, and the coordinates it is posed in.

    Where there are fewer rows than features, these are coordinates in the span of the rows, unless the method
    says with `_uses_span = False` that its solution need not lie there.

    Args:
        estimator: The estimator, with `standardize`, `loss` and `multi_class`.
        rows: Labelled rows.
    """
    order = np.argsort(rows.task, kind="stable")
    weight = rows.weight[order]
    x, coordinates = _in_coordinates(estimator, rows.x, rows.source[order], weight=weight)
    loss, targets = targets_of(estimator, _n_classes(rows), rows.y[order])
    problem = LinearProblem(
        design=Design(x, np.concatenate([[0], np.cumsum(rows.counts)])),
        targets=targets,
        coefficients=weight / weight.sum(),
        loss=loss,
        n_samples=rows.n_samples,
        n_features=int(rows.x.shape[1]),
        objective_scale=rows.objective_scale,
    )
    return problem, coordinates


def fit_tasks_apart(estimator: Any, rows: TaskRows) -> None:
    """Fit tasks with different classes or kinds, which have nothing in common but scales and N.

    Tasks with as many outputs of the same kind share a problem.
    """
    order = np.argsort(rows.task, kind="stable")
    weight = rows.weight[order]
    x, coordinates = _in_coordinates(estimator, rows.x, rows.source[order], weight=weight)
    design = Design(x, np.concatenate([[0], np.cumsum(rows.counts)]))
    n_classes_of = [
        None if found is None else max(N_BINARY, len(found)) for found in rows.classes_of
    ]
    learned: list[Any] = [None] * rows.n_tasks
    solutions = []
    for n_classes in dict.fromkeys(n_classes_of):
        tasks = np.flatnonzero([other == n_classes for other in n_classes_of])
        mine = design.rows_of(tasks)
        loss, targets = targets_of(estimator, n_classes, rows.y[order][mine])
        problem = LinearProblem(
            design=design.of_tasks(tasks),
            targets=targets,
            coefficients=weight[mine] / weight.sum(),
            loss=loss,
            n_samples=rows.n_samples,
            n_features=int(rows.x.shape[1]),
            objective_scale=rows.objective_scale,
        )
        solutions.append(estimator._solve(problem))
        parts = coordinates.to_features(solutions[-1].weights, solutions[-1].intercepts)
        for task, *pair in zip(tasks.tolist(), *parts, strict=True):
            learned[task] = pair
    estimator.coef_, estimator.intercept_ = ([pair[k] for pair in learned] for k in range(2))
    estimator.model_ = LinearModel(estimator.coef_, estimator.intercept_)
    _set_convergence(estimator, _sum_of(solutions))


def set_solution(
    estimator: Any, solution: LinearSolution, coordinates: Coordinates, *, n_classes: int | None
) -> None:
    """Set the learned attributes of an estimator, in the user's units."""
    weights, intercepts = coordinates.to_features(solution.weights, solution.intercepts)
    is_one_vs_rest = (
        n_classes is not None and n_classes > N_BINARY and estimator.multi_class == "one-vs-rest"
    )
    estimator.model_ = LinearModel(weights, intercepts, is_one_vs_rest=is_one_vs_rest)
    estimator.coef_, estimator.intercept_ = weights, intercepts
    estimator.feature_mean_, estimator.feature_scale_ = coordinates.center, coordinates.scale
    for name, value in solution.learned.items():
        # What is known about the coordinates of a problem is wanted for the features.
        has_features = hasattr(value, "in_features")
        setattr(estimator, name, value.in_features(coordinates) if has_features else value)
    _set_convergence(estimator, solution)


def _set_convergence(estimator: Any, solution: LinearSolution) -> None:
    estimator.objective_ = solution.objective
    estimator.gap_ = solution.gap
    estimator.n_iter_ = solution.n_iterations
    estimator.converged_ = solution.converged and not is_interrupted()
    if is_interrupted():
        warnings.warn(
            f"{type(estimator).__name__} was interrupted: it keeps the weights that it had after "
            f"{solution.n_iterations} iterations, with a relative gap of {solution.gap:.1e}. Fit again to "
            f"go on.",
            MultirelWarning,
            stacklevel=2,
        )
    elif not solution.converged and not solution.gap <= estimator.tolerance:
        # Methods that are not convex have no gap, but a residual.
        is_convex = not np.isnan(solution.gap)
        found = (
            f"gap of {solution.gap:.1e}"
            if is_convex
            else (f"residual of {solution.learned['residual_']:.1e}")
        )
        warnings.warn(
            f"{type(estimator).__name__} stopped with a relative {found}, above `tolerance` "
            f"{estimator.tolerance:.1e}. Scale the features, or raise the strength.",
            ConvergenceWarning,
            stacklevel=2,
        )


def _sum_of(solutions: list[LinearSolution]) -> LinearSolution:
    """What problems without common weights reach together; weights and intercepts are those of the first."""
    objective = sum(solution.objective for solution in solutions)
    missing = sum(solution.gap * solution.objective for solution in solutions)
    return replace(
        solutions[0],
        objective=objective,
        gap=missing / objective if objective > 0 else 0.0,
        n_iterations=max(solution.n_iterations for solution in solutions),
        converged=all(solution.converged for solution in solutions),
    )


def _in_coordinates(
    estimator: Any, x: Any, index: "NDArray[np.int64]", *, weight: "NDArray[np.float64]"
) -> tuple[Any, Coordinates]:
    """Rows by their numbers, in the coordinates that they are solved in; at most one copy of them.

    Args:
        estimator: The estimator, with `standardize` and perhaps `_uses_span`.
        x: All rows.
        index: Which rows, in order; a row may occur several times.
        weight: What each of them counts.
    """
    n_features = x.shape[1]
    is_all = len(index) == x.shape[0] and bool((np.diff(index) == 1).all())
    center, scale = np.zeros(n_features), np.ones(n_features)
    if is_all and not estimator.standardize:
        rows = x
    else:
        rows = x.copy() if is_all else x[index]
    if estimator.standardize:
        center, scale = standardized(rows, weight)
        rows = standardize_rows(rows, center, scale)
    if not getattr(estimator, "_uses_span", True):
        return rows, Coordinates(center=center, scale=scale)
    first, place = _different(index, is_all=is_all)
    different = rows if first is None else rows[first]
    if not is_reducible(different):
        return rows, Coordinates(center=center, scale=scale)
    rows, basis = reduce_to_span(different)
    rows = rows if place is None else rows[place]
    return rows, Coordinates(center=center, scale=scale, basis=basis)


def _different(
    index: "NDArray[np.int64]", *, is_all: bool
) -> "tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]":
    """Where every row occurs first, and which of these each is; None where no row occurs twice."""
    if is_all:
        return None, None
    found, first, place = np.unique(index, return_index=True, return_inverse=True)
    return (None, None) if len(found) == len(index) else (first, place)


def _n_classes(rows: TaskRows) -> int | None:
    classes = rows.classes_of[0]
    return None if classes is None else len(classes)


def targets_of(
    estimator: Any, n_classes: int | None, y: "NDArray[np.float64]"
) -> "tuple[Any, NDArray[np.float64]]":
    """The loss by its name, and the targets that it compares outputs with."""
    if n_classes is None:
        return "squared", y[:, None]
    if n_classes <= N_BINARY:
        targets = 2 * y[:, None] - 1
    else:
        targets = (y[:, None] == np.arange(n_classes)) * 1.0
    if estimator.loss == "squared":
        return "squared", targets if n_classes <= N_BINARY else 2 * targets - 1
    if n_classes <= N_BINARY:
        return "binary", targets
    if estimator.multi_class == "one-vs-rest":
        return "binary", 2 * targets - 1
    return "softmax", targets
