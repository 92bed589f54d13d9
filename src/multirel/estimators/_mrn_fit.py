"""How multilinear relationship networks are fitted: as linear models here, as networks by a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._linear._learned_prior_solver import solve_with_learned_prior
from multirel.estimators._linear._unlabeled_tasks import labeled_problem, with_unlabeled_tasks
from multirel.estimators._network_plan import NetworkPlan

__all__ = ["lies_in_span", "plan_network", "solve_linear"]

LAYERS = ("all", "output", "hidden")

PRIOR_SETTINGS = (
    "modes",
    "shrinkage",
    "shrinkage_target",
    "start",
    "n_updates",
    "mean",
    "mean_strength",
    "scale",
    "covariance_update",
    "inverse",
    "jitter",
    "rank",
)
"""Settings that `attach_prior` has under the same names."""


def solve_linear(
    estimator: Any,
    problem: LinearProblem,
    *,
    start: LinearSolution | None,
) -> LinearSolution:
    """Fits and covariance updates of a linear model, for the tasks that have rows; then the others."""
    _check_linear(estimator)
    settings = {name: getattr(estimator, name) for name in PRIOR_SETTINGS}
    # A mode's name alone is refused by the prior, which takes a sequence of names.
    settings["modes"] = estimator.modes if isinstance(estimator.modes, str) else (*estimator.modes,)
    full_start = estimator.start if _is_learned(estimator, "task") else 0.0
    labeled, has_rows = labeled_problem(problem)
    if np.ndim(estimator.start) > 0:
        _check_start(estimator.start, problem.n_tasks)
        settings["start"] = np.asarray(estimator.start)[np.ix_(has_rows, has_rows)]
    if start is not None and not has_rows.all():
        start = replace(
            start, weights=start.weights[has_rows], intercepts=start.intercepts[has_rows]
        )
    solution = solve_with_learned_prior(
        labeled,
        strength=estimator.strength,
        settings=settings,
        n_updates=estimator.n_updates,
        tolerance=estimator.tolerance,
        start=start,
    )
    relations = replace(solution.learned["relations_"], has_rows=has_rows)
    solution = replace(solution, learned={**solution.learned, "relations_": relations})
    return with_unlabeled_tasks(solution, has_rows, start=full_start, mean=estimator.mean)


def plan_network(estimator: Any) -> NetworkPlan:
    """The network: T copies of all layers with a prior, or of the last one behind shared hidden layers."""
    _check_layers(estimator)
    prior = {name: getattr(estimator, name) for name in PRIOR_SETTINGS}
    prior["share_task_covariance"] = estimator.share_task_covariance
    return NetworkPlan(
        sharing="hidden" if estimator.layers == "output" else "none",
        prior=prior,
        layers=estimator.layers,
    )


def _check_layers(estimator: Any) -> None:
    if estimator.layers not in LAYERS:
        known = ", ".join(map(repr, LAYERS))
        raise ValueError(f"`layers` must be one of {known}: got {estimator.layers!r}.")
    if not isinstance(estimator.share_task_covariance, bool):
        raise TypeError(
            f"`share_task_covariance` must be True or False: got {estimator.share_task_covariance!r}."
        )


def _check_linear(estimator: Any) -> None:
    _check_layers(estimator)
    if estimator.layers == "hidden":
        raise ValueError(
            "`layers` must be 'all' or 'output' for linear models, which have no hidden layer: got 'hidden'. "
            "Use `hidden_sizes=(256,)`."
        )
    if estimator.mean == "initial":
        raise ValueError(
            "`mean` must be 'zero' or 'task-average' for linear models, whose weights have no values before "
            "training: got 'initial'. Use `hidden_sizes=(256,)`."
        )


def _check_start(start: Any, n_tasks: int) -> None:
    if np.shape(start) != (n_tasks, n_tasks):
        raise ValueError(
            f"`start` must be a number or a matrix with a row per task: expected shape "
            f"{(n_tasks, n_tasks)}, got {np.shape(start)}."
        )


def lies_in_span(estimator: Any) -> bool:
    """Whether the weights of linear models lie in the span of the rows, whatever these are.

    Not where features have one correlation with one another, or where what is off the span costs nothing.
    """
    if not _is_learned(estimator, "input"):
        return True
    has_common_part = estimator.shrinkage_target == "constant-correlation"
    return not has_common_part and estimator.inverse == "ridge"


def _is_learned(estimator: Any, mode: str) -> bool:
    """Whether a mode has a covariance: not where it is left out or switched off."""
    modes, shrinkage = [*estimator.modes], estimator.shrinkage
    if mode not in modes:
        return False
    if isinstance(shrinkage, Mapping):
        return bool(shrinkage.get(mode, 0) != 1)
    if isinstance(shrinkage, Sequence):
        return len(shrinkage) != len(modes) or bool(shrinkage[modes.index(mode)] != 1)
    return bool(shrinkage != 1)
