"""Linear problems under a tensor normal prior whose covariances are learned."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._linear._covariance_factors import CovarianceFactors
from multirel.estimators._linear._first_fit import solve_once
from multirel.estimators._linear._interruption import is_interrupted
from multirel.estimators._linear._learned_prior import LearnedPrior
from multirel.estimators._linear._problem import LinearProblem, LinearSolution
from multirel.estimators._linear._progress import tell
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.exceptions import ConvergenceWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._coordinates import Coordinates

__all__ = ["LearnedRelations", "solve_with_learned_prior"]

SETTLED = 1e-6
"""Change of the weights between two fits, relative to their norm, at which updates have converged."""

SETTLED_ON_THE_WAY = 3e-6
"""The same before the jitter is made smaller, from as near the fixed point there as is worth while."""

MOST_UPDATES = 2000
"""Updates after which the search for a fixed point ends."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedRelations:
    """What a linear model has learned about its modes: a covariance for each, as factors."""

    task: CovarianceFactors
    """Σ_T of the tasks that have rows."""

    output: CovarianceFactors
    """Σ_O."""

    input: CovarianceFactors
    """Σ_I, of features as they were standardized."""

    has_rows: "NDArray[np.bool_]"
    """Which of the tasks have rows, "T"."""

    def in_features(self, coordinates: "Coordinates") -> "LearnedRelations":
        """The same, with the input mode in features where the problem was posed in the span of the rows."""
        if coordinates.basis is None:
            return self
        return replace(self, input=self.input.rotated(coordinates.basis))


def solve_with_learned_prior(
    problem: LinearProblem,
    *,
    strength: float,
    settings: Mapping[str, Any],
    n_updates: int | None,
    tolerance: float,
    start: LinearSolution | None = None,
) -> LinearSolution:
    """The weights under covariances that were estimated from weights fitted before.

    The first fit has the covariances that the prior starts with. After each of `n_updates` updates the
    weights are fitted again, to the smallest objective with the covariances held.

    Args:
        problem: The problem; all tasks have rows.
        strength: The multiplier λ of the prior.
        settings: Settings of `attach_prior` that say how covariances are estimated.
        n_updates: The number of updates; None means until the weights no longer change.
        tolerance: Largest relative gap of each fit.
        start: A solution that may be near the first fit.
    """
    levels = _jitters(settings["jitter"]) if _is_root(settings, n_updates) else [settings["jitter"]]
    prior = LearnedPrior(problem, strength=strength, settings=settings)
    solution = solve_once(problem, prior.penalty(), tolerance=tolerance, start=start)
    n_iterations, n_done, has_settled = solution.n_iterations, 0, n_updates is not None
    limit = MOST_UPDATES if n_updates is None else n_updates
    while n_done < limit and not is_interrupted():
        before = solution.weights
        prior.update(before)
        tell(partial("update {} of the covariances".format, n_done + 1))
        solution = solve_quadratic(problem, prior.penalty(), tolerance=tolerance, start=solution)
        n_iterations, n_done = n_iterations + solution.n_iterations, n_done + 1
        enough = SETTLED if len(levels) == 1 else SETTLED_ON_THE_WAY
        has_settled = has_settled or _has_settled(before, solution.weights, enough=enough)
        if n_updates is None and has_settled and len(levels) == 1:
            break
        if n_updates is None and has_settled:
            levels, has_settled = levels[1:], False
            finer = {**settings, "jitter": levels[0]}
            prior = LearnedPrior(problem, strength=strength, settings=finer)
    if not has_settled and not is_interrupted():
        _warn_of_updates()
    has_objective = n_updates == 0 or settings["scale"] != "trace"
    return replace(
        solution,
        # Only then do weights and covariances have a joint objective.
        objective=solution.objective + (prior.log_terms() if has_objective else 0.0),
        n_iterations=n_iterations,
        converged=solution.converged and has_settled,
        learned={"relations_": _relations(prior, problem.n_tasks), "n_updates_": n_done},
    )


def _relations(prior: LearnedPrior, n_tasks: int) -> LearnedRelations:
    return LearnedRelations(**prior.covariances(), has_rows=np.ones(n_tasks, dtype=bool))


def _is_root(settings: Mapping[str, Any], n_updates: int | None) -> bool:
    return n_updates is None and settings["covariance_update"] == "trace"


def _jitters(smallest: float) -> list[float]:
    """Falling jitters, down to the smallest.

    With that from the start, directions that vanish turn too slowly to be told from a fixed point.
    """
    larger = [10.0**-power for power in range(1, 13) if 10.0**-power > 2 * smallest]
    return [*larger, smallest]


def _warn_of_updates() -> None:
    warnings.warn(
        f"`n_updates=None` asks for a fixed point that {MOST_UPDATES} updates did not reach. Use a "
        f"number, or more shrinkage.",
        ConvergenceWarning,
        stacklevel=3,
    )


def _has_settled(
    before: "NDArray[np.float64]", after: "NDArray[np.float64]", *, enough: float
) -> bool:
    change = np.linalg.norm(after - before)
    return bool(change <= enough * np.linalg.norm(after))
