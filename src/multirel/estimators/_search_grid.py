"""The settings that a search tries where the user names none."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._linear import LinearProblem
from multirel.estimators._linear._losses import loss_gradient, row_losses
from multirel.estimators._task_rows import TaskRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Grid",
    "LinearGrid",
    "depths",
    "dmtl_grid",
    "iter_settings",
    "mean_regularized_grid",
    "mrn_grid",
    "mtfl_grid",
    "mtrl_grid",
    "network_grid",
    "pooled_grid",
    "prior_grid",
    "rmtl_grid",
]

Grid = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A sequence of values by setting, of which all combinations are tried; or several such mappings."""

LinearGrid = Callable[[Any, LinearProblem], Grid]
"""Gives the settings to try of a linear estimator for a problem."""

HALF_DECADES = np.logspace(-2, 3, 11).tolist()
"""Strengths λ of penalties that count λ/N, where rows count 1."""

NETWORK_STRENGTHS = np.logspace(-2, 2, 5).tolist()
"""Fewer, since every value costs a training."""

STARTS = (0.3, 0.6)
FIXED_CORRELATIONS = (0.3, 0.6, 0.9)
TASK_SHRINKAGES = (0.03, 0.1, 0.3)

SMALLEST_LOSS_SHARE = 0.01
"""The strongest squared trace norm leaves about this share of the loss to be learned."""

SQUARED_TRACE_NORM_DECADES = 6
TRACE_NORM_DECADES = 3
OUTLIER_SHARES = (1.0, 0.3, 0.1, 0.03)
"""Of the smallest outlier strength that lets no task be one."""

RELATIVE_ERRORS = (0.1, 0.3, 0.6)

MEAN_STRENGTHS = np.logspace(-1, 4, 6).tolist()
MEAN_RIDGES = np.logspace(-2, 2, 5).tolist()
MTRL_RIDGES = (0.0, 1e-3, 1e-2, 1e-1)
"""The values of the literature, for a sum of the tasks' mean losses."""


def prior_grid(estimator: Any, problem: LinearProblem) -> Grid:
    """Strengths of a prior."""
    return {"strength": _in_units(problem, HALF_DECADES)}


def dmtl_grid(estimator: Any, problem: LinearProblem) -> Grid:
    """Strengths, and how far the weights that ranks are taken from may be cut, where ranks are not given."""
    ranks = {"relative_error": RELATIVE_ERRORS} if estimator.ranks is None else {}
    return {"strength": HALF_DECADES, **ranks}


def pooled_grid(estimator: Any, problem: LinearProblem) -> Grid:
    """Strengths, with one intercept and with one per task."""
    return {"strength": _in_units(problem, HALF_DECADES), "task_intercepts": (False, True)}


def mrn_grid(estimator: Any, problem: LinearProblem) -> Grid:
    """Strengths, with correlations that are held, and with task covariances estimated once."""
    strengths = _in_units(problem, HALF_DECADES)
    held: dict[str, Any] = {
        "strength": strengths,
        "start": FIXED_CORRELATIONS,
        "n_updates": (0,),
    }
    learned: dict[str, Any] = {"strength": strengths, "start": STARTS, "n_updates": (1,)}
    # Without shrinkage, or a task covariance, there is no shrinkage of it to choose.
    if "task" in estimator.modes and estimator.scale != "free":
        learned["shrinkage"] = tuple({"task": value} for value in TASK_SHRINKAGES)
    return [held, learned] if estimator.n_updates == 1 else [learned]


def mean_regularized_grid(estimator: Any, problem: LinearProblem) -> Grid:
    """Strengths of the distance to the mean and of the ridge, in units of a prior's λ."""
    unit = problem.objective_scale / (2 * problem.n_samples)
    return {
        "strength": [unit * value for value in _in_units(problem, MEAN_STRENGTHS)],
        "ridge": [unit * value for value in _in_units(problem, MEAN_RIDGES)],
    }


def mtfl_grid(estimator: Any, problem: LinearProblem) -> Grid:
    """Strengths down from the one that leaves next to nothing to be learned."""
    return {"strength": _squared_trace_norm_strengths(problem)}


def mtrl_grid(estimator: Any, problem: LinearProblem) -> Grid:
    """Strengths of the relations as for MTFL, and ridges of the literature in the units of the loss."""
    unit = problem.objective_scale / problem.n_tasks
    return {
        "strength": [2 * value for value in _squared_trace_norm_strengths(problem)],
        "ridge": [unit * value for value in MTRL_RIDGES],
    }


def rmtl_grid(estimator: Any, problem: LinearProblem) -> Grid:
    """Strengths down from the smallest ones with which all weights are zero."""
    slope, _ = _at_zero(problem)
    low_rank = problem.objective_scale * _largest_singular_value(slope)
    outlier = problem.objective_scale * float(np.linalg.norm(slope, axis=2).max())
    n_values = 2 * TRACE_NORM_DECADES + 1
    return {
        "strength": np.geomspace(low_rank, low_rank * 10**-TRACE_NORM_DECADES, n_values).tolist(),
        "outlier_strength": [share * outlier for share in OUTLIER_SHARES],
    }


def network_grid(estimator: Any, rows: TaskRows) -> Grid:
    """Strengths of networks; the literal ones of mean regularization in units of a prior's λ.

    Args:
        estimator: The estimator.
        rows: Labelled rows.
    """
    has_ridge = any(field.name == "ridge" for field in fields(estimator))
    unit = rows.n_samples / len(rows)
    if has_ridge:
        unit *= rows.objective_scale / (2 * rows.n_samples)
    return {"strength": [unit * value for value in NETWORK_STRENGTHS]}


def _in_units(problem: LinearProblem, strengths: Sequence[float]) -> list[float]:
    """Strengths λ as many times as large as rows count on average: N is the sum of what they count."""
    unit = problem.n_samples / max(1, problem.design.n_rows)
    return [unit * strength for strength in strengths]


def depths(hidden_sizes: Any) -> list[Any] | None:
    """Several `hidden_sizes` to try, or None where the setting is one."""
    is_sequence = isinstance(hidden_sizes, Sequence | np.ndarray) and not isinstance(
        hidden_sizes, str
    )
    if is_sequence and len(hidden_sizes) > 0:
        several = list(hidden_sizes)
        if all(isinstance(sizes, Sequence | np.ndarray) for sizes in several):
            return several
    return None


def iter_settings(
    grids: Sequence[Mapping[str, Any]], *, known: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Every combination of the values of each grid.

    Args:
        grids: Values by setting.
        known: The settings of the estimator.

    Raises:
        ValueError: If a setting is unknown or has no values.
    """
    for one in grids:
        for name, values in one.items():
            _check_values(name, values, known)
        for combination in product(*[list(values) for values in one.values()]):
            yield dict(zip(one, combination, strict=True))


def _check_values(name: str, values: Any, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(
            f"`grid` must name settings of the estimator: expected some of {', '.join(known)}, got {name!r}."
        )
    is_sequence = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    if not is_sequence or len(values) == 0:
        raise ValueError(
            f"`grid` must have a sequence of values for every setting: got {values!r} for {name!r}. "
            f"Write [{values!r}] for one value."
        )


def _squared_trace_norm_strengths(problem: LinearProblem) -> list[float]:
    """γ in half decades: −½ of the slope at zero over γ is how far the penalty γ‖W‖_*² lets W go."""
    slope, loss = _at_zero(problem)
    drop = _largest_singular_value(slope) ** 2 / 4
    largest = problem.objective_scale * drop / max(SMALLEST_LOSS_SHARE * loss, np.finfo(float).tiny)
    decades = SQUARED_TRACE_NORM_DECADES
    return np.geomspace(largest, largest * 10**-decades, 2 * decades + 1).tolist()


def _largest_singular_value(slope: "NDArray[np.float64]") -> float:
    """Of the outputs' matrices "T r", the largest; 1 where features say nothing at all."""
    values = [np.linalg.norm(slope[:, output], ord=2) for output in range(slope.shape[1])]
    return float(max(values)) or 1.0


def _at_zero(problem: LinearProblem) -> "tuple[NDArray[np.float64], float]":
    """The slope "T C r" of the mean loss at zero weights, and the loss, where intercepts do what they can."""
    design, coefficients = problem.design, problem.coefficients[:, None]
    total = design.sums(np.broadcast_to(coefficients, problem.targets.shape).copy())
    mean = design.sums(coefficients * problem.targets) / np.where(total > 0, total, 1)
    if problem.loss == "squared":
        intercepts = mean
    else:
        # A class that a task lacks, or has alone, would have an infinite intercept.
        lowest = 1 / (1 + design.n_rows)
        share = mean if problem.loss == "softmax" else (1 + mean) / 2
        share = np.clip(share, lowest, 1 - lowest)
        intercepts = np.log(share) if problem.loss == "softmax" else np.log(share / (1 - share))
    outputs = intercepts[design.task]
    loss = float(problem.coefficients @ row_losses(problem, outputs))
    return design.pull_back(coefficients * loss_gradient(problem, outputs)), loss
