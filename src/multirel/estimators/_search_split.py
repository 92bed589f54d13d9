"""Fitting candidates to the training rows of a split, and scoring them on those held out."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._class_weights import class_factors
from multirel.estimators._fit_input import weigh_tasks
from multirel.estimators._fit_linear import build_problem, set_solution
from multirel.estimators._linear import Coordinates, Design, LinearSolution
from multirel.estimators._linear._coordinates import standardize_rows
from multirel.estimators._network_images import BackboneModel
from multirel.estimators._network_plan import uses_network
from multirel.estimators._relations import remember_rows
from multirel.estimators._search_scores import (
    HeldOut,
    Metric,
    loss_of_rows,
    mean_over_tasks,
    variances_of_tasks,
)
from multirel.estimators._task_rows import TaskRows
from multirel.exceptions import MultirelWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Group", "Outcome", "fit_all", "run_split", "solve_path", "train_rows"]

UserScore = Callable[[Any, "NDArray[np.int64]"], float]
"""Gives the score of a fitted estimator on rows of X."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Candidates that see the same rows in the same way, so that linear ones have one problem in common."""

    numbers: Sequence[int]
    """Where each is among all candidates."""

    estimators: Sequence[Any]
    """Each with its settings and what reading the rows has set; in an order in which near ones follow."""

    rows: TaskRows
    """All labelled rows, with features in the place of images if a frozen backbone has made them."""

    place: "NDArray[np.int64]"
    """The row of X that each of them stands for."""

    n_rows: int
    """The number of rows of X."""

    backbone: Any
    """The backbone that has made the features of linear candidates, or None."""

    weight: "NDArray[np.float64]"
    """What each of them counts before classes and tasks are weighed."""

    metric: Metric | None
    """The metric; None where users score."""

    @property
    def is_linear(self) -> bool:
        """Whether the candidates are solved as linear problems."""
        has_features = self.backbone is not None or not uses_network(self.estimators[0])
        return self.rows.is_alike and has_features

    @property
    def is_logistic(self) -> bool:
        """Whether outputs of classes are those of the logistic loss."""
        return bool(getattr(self.estimators[0], "loss", "squared") == "logistic")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a candidate has done on a split."""

    number: int
    """Which candidate."""

    score: float
    """The mean over the tasks; NaN where none has a score."""

    loss: float
    """Log-loss, or squared error where there are no probabilities: the mean over the tasks."""

    n_undefined: int
    """Tasks with held-out rows that have no score."""

    seconds: float
    """Time of the fit."""

    converged: bool
    """Whether the fit came down to its tolerance."""


SEARCH_TOLERANCE = 1e-4
"""Relative gap at which linear candidates are compared: the scores differ by far more from split to split."""


def run_split(
    groups: Sequence[Group],
    split: "tuple[NDArray[np.int64], NDArray[np.int64]]",
    *,
    user_score: UserScore | None = None,
) -> list[Outcome]:
    """How all candidates do on a split.

    Args:
        groups: The candidates.
        split: Numbers of the rows of X that train, and of those that are held out.
        user_score: Scores in the place of the metrics of the groups.
    """
    with warnings.catch_warnings():
        # What candidates have to say is written down, and said again by the one that is chosen.
        warnings.simplefilter("ignore", MultirelWarning)
        return [outcome for group in groups for outcome in _run_group(group, split, user_score)]


def _run_group(
    group: Group,
    split: "tuple[NDArray[np.int64], NDArray[np.int64]]",
    user_score: UserScore | None,
) -> Iterator[Outcome]:
    train = train_rows(group, split[0])
    held, x = _held_out(group, split[1])
    fits = _linear_fits(group, train, x, held) if group.is_linear else _fits(group, train, x, held)
    for number, fitted in zip(group.numbers, fits, strict=True):
        if user_score is None:
            scores = group.metric(held, fitted.outputs) if group.metric else np.empty(0)
        else:
            scores = np.array([user_score(fitted.estimator(), split[1])])
        tested = np.bincount(held.task, minlength=held.n_tasks) > 0
        undefined = np.isnan(scores) & tested if user_score is None else np.isnan(scores)
        yield Outcome(
            number=number,
            score=mean_over_tasks(scores),
            loss=mean_over_tasks(held.means(loss_of_rows(held, fitted.outputs))),
            n_undefined=int(np.count_nonzero(undefined)),
            seconds=fitted.seconds,
            converged=fitted.converged,
        )


def solve_path(estimators: Sequence[Any], problem: Any) -> Iterator[tuple[LinearSolution, float]]:
    """The solutions of a problem for one estimator after the other, with the seconds that each took.

    Each starts from the last. Where a path begins anew, with a larger strength than the last, it starts from
    the beginning of the last path, which is near if other settings have changed little.

    Args:
        estimators: In an order in which strengths fall.
        problem: The problem that all have in common.
    """
    first = last = None
    strength = np.inf
    for estimator in estimators:
        begins = estimator.strength > strength
        begin = perf_counter()
        last = estimator._solve(problem, start=first if begins else last)
        seconds = perf_counter() - begin
        if first is None or begins:
            first = last
        strength = estimator.strength
        yield last, seconds


@dataclass(frozen=True, kw_only=True, eq=False)
class _Fitted:
    """A candidate that has been fitted, and what it makes of the held-out rows."""

    outputs: "NDArray[np.float64]"
    seconds: float
    converged: bool
    estimator: Callable[[], Any]


def _linear_fits(group: Group, train: TaskRows, x: Any, held: HeldOut) -> Iterator[_Fitted]:
    """Fits to one problem, scored in its coordinates."""
    begin = perf_counter()
    problem, coordinates = build_problem(group.estimators[0], train)
    seconds = perf_counter() - begin
    starts = np.searchsorted(held.task, np.arange(held.n_tasks + 1))
    design = Design(_in_coordinates(x, coordinates), starts)
    path = solve_path([_loosened(estimator) for estimator in group.estimators], problem)
    for estimator, (solution, spent) in zip(group.estimators, path, strict=True):
        yield _Fitted(
            outputs=design.products(solution.weights) + solution.intercepts[held.task],
            seconds=seconds + spent,
            converged=solution.converged,
            estimator=partial(_with_solution, group, estimator, solution, coordinates),
        )
        seconds = 0.0


def _fits(group: Group, train: TaskRows, x: Any, held: HeldOut) -> Iterator[_Fitted]:
    for estimator in group.estimators:
        begin = perf_counter()
        fitted = _fit(estimator, train)
        converged = bool(getattr(fitted, "converged_", True))
        if uses_network(estimator) and not converged:
            # Training keeps an interrupt to itself, and the search must know of it.
            raise KeyboardInterrupt
        yield _Fitted(
            seconds=perf_counter() - begin,
            outputs=fitted.model_.scores(x, held.task),
            converged=converged,
            estimator=partial(copy, fitted),
        )


def _fit(estimator: Any, rows: TaskRows) -> Any:
    """A copy of the estimator, fitted."""
    fitted = copy(estimator)
    fitted._fit_rows(rows)
    return fitted


def _loosened(estimator: Any) -> Any:
    """A copy of the estimator that is content with what a search needs."""
    loosened = copy(estimator)
    loosened.tolerance = max(estimator.tolerance, SEARCH_TOLERANCE)
    return loosened


def _with_solution(
    group: Group, estimator: Any, solution: LinearSolution, coordinates: Coordinates
) -> Any:
    """A copy of the estimator with the solution of its problem."""
    fitted = copy(estimator)
    classes = group.rows.classes_of[0]
    n_classes = None if classes is None else len(classes)
    set_solution(fitted, solution, coordinates, n_classes=n_classes)
    if group.backbone is not None:
        fitted.model_ = BackboneModel(group.backbone, fitted.model_, device=estimator.device)
    return fitted


def fit_all(group: Group, chosen: Sequence[int]) -> dict[int, Any]:
    """Estimators fitted to all rows, by their numbers among all candidates.

    Args:
        group: Candidates.
        chosen: The numbers of those that are wanted.
    """
    wanted = {n: e for n, e in zip(group.numbers, group.estimators, strict=True) if n in chosen}
    if not wanted or not group.is_linear:
        return {number: _fit(estimator, group.rows) for number, estimator in wanted.items()}
    problem, coordinates = build_problem(group.estimators[0], group.rows)
    path = solve_path(list(wanted.values()), problem)
    fitted = {
        number: _with_solution(group, estimator, solution, coordinates)
        for (number, estimator), (solution, _) in zip(wanted.items(), path, strict=True)
    }
    for estimator in fitted.values():
        if hasattr(estimator, "relation_intervals"):
            remember_rows(estimator, group.rows)
    return fitted


def _in_coordinates(x: Any, coordinates: Coordinates) -> Any:
    """Rows, which are overwritten, in the coordinates of a problem."""
    x = standardize_rows(x, coordinates.center, coordinates.scale)
    return x if coordinates.basis is None else x @ coordinates.basis


def train_rows(group: Group, numbers: "NDArray[np.int64]") -> TaskRows:
    """The labelled rows among some rows of X, weighed as if there were no others.

    Args:
        group: The candidates and all labelled rows.
        numbers: Numbers of rows of X.
    """
    rows, estimator = group.rows, group.estimators[0]
    mine = _among(group, numbers)
    task, y, weight = rows.task[mine], rows.y[mine], group.weight[mine].copy()
    if getattr(estimator, "class_weight", None) is not None:
        for index, classes in _classes_of_rows(rows, task):
            weight[index] *= class_factors(
                estimator.class_weight, classes, y[index], weight=weight[index]
            )
    weight, scale = weigh_tasks(weight, task, estimator.task_weighting)
    return replace(
        rows, source=rows.source[mine], task=task, y=y, weight=weight, objective_scale=scale
    )


def _classes_of_rows(
    rows: TaskRows, task: "NDArray[np.int64]"
) -> "Iterator[tuple[NDArray[np.bool_], NDArray[Any]]]":
    """Rows whose classes are weighed together, and the classes."""
    has_classes = [t for t, classes in enumerate(rows.classes_of) if classes is not None]
    together = [[t] for t in has_classes] if rows.has_own_classes else [has_classes]
    for group in together:
        classes = rows.classes_of[group[0]]
        index = np.isin(task, group)
        if classes is not None and index.any():
            yield index, classes


def _held_out(group: Group, numbers: "NDArray[np.int64]") -> tuple[HeldOut, Any]:
    """What outputs are compared with, and the features."""
    rows, estimator = group.rows, group.estimators[0]
    mine = np.flatnonzero(_among(group, numbers))
    mine = mine[np.argsort(rows.task[mine], kind="stable")]
    n_classes = [0 if classes is None else len(classes) for classes in rows.classes_of]
    held = HeldOut(
        task=rows.task[mine],
        y=rows.y[mine],
        weight=group.weight[mine],
        sizes=np.array(n_classes),
        variance=variances_of_tasks(rows.y, rows.task, weight=group.weight, n_tasks=rows.n_tasks),
        is_logistic=group.is_logistic,
        is_one_vs_rest=group.is_linear and estimator.multi_class == "one-vs-rest",
    )
    return held, rows.x[rows.source[mine]]


def _among(group: Group, numbers: "NDArray[np.int64]") -> "NDArray[np.bool_]":
    """Which labelled rows are among some rows of X."""
    chosen = np.zeros(group.n_rows, dtype=bool)
    chosen[numbers] = True
    return chosen[group.place]
