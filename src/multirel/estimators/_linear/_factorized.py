"""Problems whose weights are a product of factors that tasks share, with a ridge penalty on the product.

Yang, Hospedales: Deep multi-task representation learning, a tensor factorisation approach. ICLR 2017.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multirel.estimators._linear._design import Design
from multirel.estimators._linear._factorized_chart import Chart
from multirel.estimators._linear._factorized_form import FORMS, decompose, usable_ranks
from multirel.estimators._linear._factorized_newton import Step, newton_step
from multirel.estimators._linear._factorized_objective import FactorizedObjective
from multirel.estimators._linear._interruption import is_interrupted
from multirel.estimators._linear._last_intercepts import all_intercepts
from multirel.estimators._linear._problem import LinearProblem, LinearSolution
from multirel.estimators._linear._profiled_loss import ProfiledLoss
from multirel.estimators._linear._progress import tell
from multirel.estimators._linear._quadratic import SMALLEST_OBJECTIVE, solve_quadratic
from multirel.estimators._linear._quadratic_penalty import QuadraticPenalty
from multirel.networks._factorization import Factorization, largest_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Factorizing", "solve_factorized"]

MAX_STEPS = 500

PRODUCTS_PER_COORDINATE = 2
"""The most products with the Hessian for one step: without roundoff one per coordinate is enough."""

HIGHEST_ACCURACY = 1e-4
"""Of the equations of a step, in units of the gradient."""

FINAL_CHANGE = 1e-9
"""Of the weights, relatively: the last steps converge quadratically, so a few more make weights exact."""

ACCEPTED, GOOD, POOR = 0.05, 0.75, 0.25
"""Ratios of real to expected decrease: a step is taken; the region grows; it shrinks."""

ROUNDOFF = 1e-14
"""Differences of objectives that are smaller, relatively, mean nothing."""


@dataclass(frozen=True, kw_only=True)
class Factorizing:
    """What a factorization is to be."""

    form: Factorization
    """ "tucker", "tt" or "laf"."""

    ranks: tuple[int, ...] | None
    """The ranks; None takes them from the single-task weights."""

    relative_error: float
    """The largest relative error of the single-task weights, where ranks are not given."""


def solve_factorized(
    problem: LinearProblem,
    factorizing: Factorizing,
    *,
    ridge: float,
    tolerance: float,
    start: LinearSolution | None = None,
) -> LinearSolution:
    """A stationary point near the truncated single-task weights, or these where no rank is less than full.

    The problem is not convex: `gap` is NaN unless the ranks are full, and `residual_` among what is learned
    is what another Newton step could still take off the objective, relative to it. A task without rows has
    the average of the others' task factors, and so of their weights, with the average intercept.

    Args:
        problem: The problem.
        factorizing: The form and its ranks.
        ridge: μ = λ/N of the penalty (μ/2)‖Ŵ‖².
        tolerance: The largest residual.
        start: A solution at another strength.
    """
    has_rows = np.diff(problem.design.starts) > 0
    labelled = _of_tasks(problem, has_rows)
    found = _solve_labelled(
        labelled,
        factorizing,
        ridge=ridge,
        tolerance=tolerance,
        start=None if start is None else _solution_of_tasks(start, has_rows),
    )
    if has_rows.all():
        return found
    weights = np.broadcast_to(found.weights.mean(axis=0), problem.weight_shape).copy()
    intercepts = np.broadcast_to(found.intercepts.mean(axis=0), problem.weight_shape[:2]).copy()
    weights[has_rows], intercepts[has_rows] = found.weights, found.intercepts
    return replace(found, weights=weights, intercepts=intercepts)


def _solve_labelled(
    problem: LinearProblem,
    factorizing: Factorizing,
    *,
    ridge: float,
    tolerance: float,
    start: LinearSolution | None,
) -> LinearSolution:
    shape = problem.weight_shape
    single = solve_quadratic(
        problem, QuadraticPenalty.ridge(ridge), tolerance=tolerance, start=start
    )
    form, given = factorizing.form, factorizing.ranks
    if given is None:
        error = factorizing.relative_error
        given = ranks_of(decompose(single.weights, form, relative_error=error), form)
    ranks = usable_ranks(shape, form, given)
    if ranks == usable_ranks(shape, form, largest_ranks(shape, form)):
        return replace(single, learned={"ranks_": ranks, "residual_": single.gap})
    loss = ProfiledLoss(problem)
    begin = _begin(loss, single, form=form, ranks=ranks, ridge=ridge)
    if start is not None and start.learned.get("ranks_") == ranks:
        other = _begin(loss, start, form=form, ranks=ranks, ridge=ridge)
        begin = min(begin, other, key=lambda point: point.value)
    return _minimize(begin, tolerance=tolerance, ranks=ranks)


def _begin(
    loss: ProfiledLoss,
    solution: LinearSolution,
    *,
    form: Factorization,
    ranks: tuple[int, ...],
    ridge: float,
) -> FactorizedObjective:
    """The objective at the decomposition of weights."""
    if loss.problem.n_outputs == 1:
        # With one output all three are matrices of a rank, and LAF has the fewest factors.
        form, ranks = "laf", ranks[:1]
    chart = Chart(FORMS[form], decompose(solution.weights, form, ranks=ranks))
    return FactorizedObjective.at(loss, ridge, chart, near=solution.intercepts)


def _minimize(
    point: FactorizedObjective, *, tolerance: float, ranks: tuple[int, ...]
) -> LinearSolution:
    """A stationary point, by Newton steps in a trust region from one chart to the next."""
    radius = float(np.linalg.norm(point.chart.weights)) or 1.0
    first = float(np.linalg.norm(point.gradient()))
    smallest = _smallest_value(point)
    residual, n_steps, is_done = np.inf, 0, False
    while not is_done and n_steps < MAX_STEPS and not is_interrupted():
        n_steps += 1
        step = _step(point, first=first, radius=radius)
        size = max(point.value, smallest)
        residual = _residual(point, step, smallest)
        tell(partial(_words, n_steps, point.value, residual))
        is_done = _is_last(point, step, residual=residual, tolerance=tolerance)
        candidate = point.moved(step.z)
        decrease = point.value - candidate.value
        if is_done:
            point = candidate if decrease >= -ROUNDOFF * size else point
        elif decrease < POOR * step.decrease:
            radius = float(np.linalg.norm(step.z)) / 4
        elif decrease > GOOD * step.decrease and not step.is_inside:
            radius = 2 * radius
        if not is_done and decrease > ACCEPTED * step.decrease:
            point = candidate
    return _solution(point, residual, tolerance=tolerance, ranks=ranks, n_steps=n_steps)


def _words(step: int, objective: float, residual: float) -> str:
    return f"step {step}, objective {objective:.6g}, relative residual {residual:.1e}"


def _solution(
    point: FactorizedObjective,
    residual: float,
    *,
    tolerance: float,
    ranks: tuple[int, ...],
    n_steps: int,
) -> LinearSolution:
    """The solution at a point, with finite intercepts."""
    intercepts, added = all_intercepts(
        point.loss, point.products, point.intercepts, most_added=tolerance / 4 * point.value
    )
    residual += added / max(point.value, _smallest_value(point))
    return LinearSolution(
        weights=point.chart.weights,
        intercepts=intercepts,
        objective=point.value + added,
        gap=np.nan,
        n_iterations=n_steps,
        converged=residual <= tolerance,
        learned={"ranks_": ranks, "residual_": residual},
    )


def _smallest_value(point: FactorizedObjective) -> float:
    """What an objective of zero is by roundoff."""
    tiny = float(np.finfo(np.float64).tiny)
    return max(SMALLEST_OBJECTIVE * point.loss.value_at_zero, tiny)


def _residual(point: FactorizedObjective, step: Step, smallest: float) -> float:
    """What a step takes off the objective, relatively; infinite where the region ends it."""
    if point.value <= smallest:
        return 0.0
    return step.decrease / point.value if step.is_inside else np.inf


def _is_last(point: FactorizedObjective, step: Step, *, residual: float, tolerance: float) -> bool:
    """Whether no step after this one is needed."""
    is_exact = np.linalg.norm(step.z) <= FINAL_CHANGE * np.linalg.norm(point.chart.weights)
    return residual <= min(tolerance, ROUNDOFF) or (residual <= tolerance and bool(is_exact))


def _step(point: FactorizedObjective, *, first: float, radius: float) -> Step:
    gradient = point.gradient()
    accuracy = np.sqrt(np.linalg.norm(gradient) / first) if first > 0 else 1.0
    return newton_step(
        gradient,
        point.hessian_product,
        radius=radius,
        accuracy=max(float(accuracy), HIGHEST_ACCURACY),
        max_products=PRODUCTS_PER_COORDINATE * len(gradient),
    )


def ranks_of(factors: "Sequence[NDArray[np.float64]]", form: Factorization) -> tuple[int, ...]:
    """The ranks of factors."""
    if form == "tucker":
        return tuple(factors[0].shape)
    return tuple(factor.shape[-1] for factor in factors[:-1])


def _of_tasks(problem: LinearProblem, kept: "NDArray[np.bool_]") -> LinearProblem:
    """The problem without tasks that have no rows."""
    if kept.all():
        return problem
    ends = problem.design.starts[1:][kept]
    starts = np.concatenate([[0], ends])
    return replace(problem, design=Design(problem.design.x, starts))


def _solution_of_tasks(solution: LinearSolution, kept: "NDArray[np.bool_]") -> LinearSolution:
    return replace(solution, weights=solution.weights[kept], intercepts=solution.intercepts[kept])
