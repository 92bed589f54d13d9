"""Problems with a quadratic penalty."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multirel.estimators._linear._conjugate_gradients import solve_by_conjugate_gradients
from multirel.estimators._linear._interruption import is_interrupted
from multirel.estimators._linear._inverse_hessian import InverseHessian, InversePenalty
from multirel.estimators._linear._last_intercepts import all_intercepts
from multirel.estimators._linear._problem import LinearProblem, LinearSolution
from multirel.estimators._linear._profiled_loss import Curvature, ProfiledLoss
from multirel.estimators._linear._progress import tell
from multirel.estimators._linear._quadratic_penalty import QuadraticPenalty
from multirel.estimators._linear._second_derivative import SecondDerivative, inverse_hessian

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SMALLEST_OBJECTIVE", "solve_quadratic"]

MOST_STEPS = 100
MOST_PRODUCTS = 2000
MOST_HALVINGS = 40

POLISH = 0.01
"""Steps go on to this share of the square of the tolerance: weights are as exact as the root of the gap."""

FORCING = 0.1
"""Residual of a Newton step in units of the gradient, at most: both in the norm of the certificate."""

DESCENT = 1e-4
"""Share of the predicted decrease that a step must bring."""

SMALLEST_OBJECTIVE = 1e-12
"""A gap is relative to the objective, or to this share of that of zero outputs, whichever is larger."""

FEW_PRODUCTS = 3
"""An inverse that makes steps of so few products is kept."""


def solve_quadratic(
    problem: LinearProblem,
    penalty: QuadraticPenalty,
    *,
    tolerance: float,
    start: LinearSolution | None = None,
) -> LinearSolution:
    r"""The minimizer of the loss plus a quadratic penalty, by Newton steps.

    The objective φ(W), with the best intercepts for every W, less s/2 ⟨W, P W⟩ is convex. So, for
    g = ∇φ(W), which is computed from the rows in double precision,

    $$\varphi(W)-\min\varphi \le \tfrac{1}{2s}\langle g, P^{-1}g\rangle,$$

    which is also the duality gap of the dual point of W. Where P has zeros, or s = 0, the part g₀ of g there
    adds ⟨g₀, H⁻¹ g₀⟩ with the approximate inverse H⁻¹ of the second derivative, and the bound on the other
    part is doubled: this is exact for the squared loss as far as the inverse is, and for the others near the
    minimum. Steps go on below the square of the tolerance, as far as roundoff lets them, so that not only the
    objective is exact but also the weights.

    Args:
        problem: The problem.
        penalty: The penalty; parts of it, or all, may be 0.
        tolerance: Largest relative gap that counts as solved.
        start: Weights and intercepts to begin with.
    """
    return _Newton(problem, penalty, tolerance).solve(start)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    weights: "NDArray[np.float64]"
    products: "NDArray[np.float64]"
    intercepts: "NDArray[np.float64]"
    objective: float


def _words(step: int, objective: float, gap: float) -> str:
    return f"step {step}, objective {objective:.6g}, relative gap {gap:.1e}"


class _Newton:
    """Newton steps with an inexact inverse."""

    def __init__(self, problem: LinearProblem, penalty: QuadraticPenalty, tolerance: float) -> None:
        self.problem, self.penalty, self.tolerance = problem, penalty, tolerance
        self.loss = ProfiledLoss(problem)
        # The first step makes a better one.
        self.inverse: InverseHessian = InversePenalty(penalty, 1.0)
        self.is_new, self.is_outdated = False, True
        self.grams: NDArray[np.float64] | None = None
        self.n_products = self.most_products = 0
        zeros = np.zeros((problem.design.n_rows, problem.n_outputs))
        b = self.loss.intercepts(zeros, np.zeros((len(self.loss.groups), problem.n_outputs)))
        self.origin = _Point(
            weights=np.zeros(problem.weight_shape),
            products=zeros,
            intercepts=b,
            objective=self.loss.value(zeros, b),
        )
        self.floor = SMALLEST_OBJECTIVE * max(self.loss.value_at_zero, self.origin.objective)
        # All targets are 0.
        self.floor = self.floor if self.floor > 0 else np.finfo(np.float64).tiny

    def solve(self, start: LinearSolution | None) -> LinearSolution:
        point = self.origin
        if start is not None:
            products = self.problem.design.products(start.weights)
            near = self.point(start.weights, products, start.intercepts)
            point = near if near.objective < point.objective else point
        goal = POLISH * self.tolerance**2
        best, best_gap, last_gap = point, np.inf, np.inf
        for step in range(MOST_STEPS + 1):
            curvature = self.loss.curvature(point.products, point.intercepts)
            gradient = self.gradient(point)
            self.renew(curvature)
            gap = self.bound(gradient) / max(point.objective, self.floor)
            if gap < best_gap:
                best, best_gap = point, gap
            tell(partial(_words, step, point.objective, gap))
            is_stuck = best_gap <= self.tolerance and gap > last_gap / 2
            if gap <= goal or is_stuck or step == MOST_STEPS or is_interrupted():
                break
            last_gap = gap
            new = self.step(point, gradient, curvature)
            if new is None and self.is_new:
                break
            if new is None:
                # The inverse of an earlier point may be to blame.
                self.is_outdated = True
            else:
                point = new
        return self.solution(best, best_gap, step)

    def point(
        self,
        weights: "NDArray[np.float64]",
        products: "NDArray[np.float64]",
        intercepts: "NDArray[np.float64]",
    ) -> _Point:
        b = self.loss.intercepts(products, intercepts)
        objective = self.loss.value(products, b) + self.penalty.value(weights)
        return _Point(weights=weights, products=products, intercepts=b, objective=objective)

    def gradient(self, point: _Point) -> "NDArray[np.float64]":
        slopes = self.loss.slopes(point.products, point.intercepts)
        return self.problem.design.pull_back(slopes) + self.penalty.product(point.weights)

    def renew(self, curvature: Curvature) -> None:
        """Make the inverse anew where the last one no longer fits."""
        is_constant = self.problem.loss == "squared"
        self.is_new = self.is_outdated or (not is_constant and self.n_products > self.most_products)
        if self.is_new:
            made = inverse_hessian(self.problem, curvature, self.penalty)
            self.inverse, self.grams, self.is_outdated = made.inverse, made.grams, False
            # It is worth as many products as it costs.
            self.most_products = max(FEW_PRODUCTS, made.n_products)

    def bound(self, gradient: "NDArray[np.float64]") -> float:
        """How far the objective may be above the smallest one."""
        penalty = self.penalty
        if penalty.strength == 0:
            return float(np.vdot(gradient, self.inverse.apply(gradient))) / 2
        inner = penalty.power_product(gradient, -1.0)
        bound = float(np.vdot(gradient, inner)) / (2 * penalty.strength)
        if not penalty.is_singular:
            return bound
        free = gradient - penalty.power_product(inner, 1.0)
        return 2 * bound + float(np.vdot(free, self.inverse.apply(free)))

    def step(
        self, point: _Point, gradient: "NDArray[np.float64]", curvature: Curvature
    ) -> _Point | None:
        """The next point; None where roundoff leaves none."""
        hessian = SecondDerivative(self.problem, curvature, penalty=self.penalty, grams=self.grams)
        start = self.bound(gradient)
        goal = POLISH * self.tolerance**2 * max(point.objective, self.floor) / 4
        forcing = FORCING
        if self.problem.loss == "squared":
            forcing = 0.0
        else:
            # The residual may be as small as what the next Newton step brings anyway.
            forcing = min(FORCING, float(np.sqrt(start / max(point.objective, self.floor))))
        limit = max(goal, forcing**2 * start)
        direction, self.n_products = solve_by_conjugate_gradients(
            hessian.product,
            -gradient,
            precondition=self.inverse.apply,
            is_small=lambda residual: self.bound(residual) <= limit,
            most_iterations=MOST_PRODUCTS,
        )
        return self.search(point, direction, slope=float(np.vdot(direction, gradient)))

    def search(
        self, point: _Point, direction: "NDArray[np.float64]", *, slope: float
    ) -> _Point | None:
        images = self.problem.design.products(direction)
        roundoff = 10 * np.finfo(np.float64).eps * abs(point.objective)
        length = 1.0
        for _ in range(MOST_HALVINGS):
            weights = point.weights + length * direction
            new = self.point(weights, point.products + length * images, point.intercepts)
            if new.objective <= point.objective + DESCENT * length * slope + roundoff:
                return new
            length /= 2
        return None

    def solution(self, point: _Point, gap: float, n_iterations: int) -> LinearSolution:
        allowed = self.tolerance / 4 * max(point.objective, self.floor)
        intercepts, added = all_intercepts(
            self.loss, point.products, point.intercepts, most_added=allowed
        )
        objective = point.objective + added
        gap = (gap * max(point.objective, self.floor) + added) / max(objective, self.floor)
        return LinearSolution(
            weights=point.weights,
            intercepts=intercepts,
            objective=objective,
            gap=gap,
            n_iterations=n_iterations,
            converged=bool(gap <= self.tolerance),
        )
