"""Rows of tasks as the sampler of relations sees them: weighted least squares, one problem per draw."""

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.linalg import cho_factor, cho_solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from multirel.estimators._linear import Design

__all__ = ["WeightedRows"]

MOST_DENSE = 500
"""Unknowns per output up to which a system is factorized."""

SMALLEST_RESIDUAL = 1e-6
"""Residual of a draw's linear system, relative to its right side: far below the noise of the draw."""

MOST_ITERATIONS = 1000


@final
class WeightedRows:
    """Responses z of rows with weights h, whose intercepts are integrated out.

    Args:
        design: The features, sorted by task.
        response: z, "n C".
        weight: h > 0, "n C": the precision of each response.
        squared_norms: ‖x‖² of every row.
    """

    def __init__(
        self,
        design: "Design",
        response: "NDArray[np.float64]",
        weight: "NDArray[np.float64]",
        *,
        squared_norms: "NDArray[np.float64]",
    ) -> None:
        self._squared_norms = squared_norms
        self.design = design
        self.response = response
        self.weight = weight
        self.total = design.sums(weight)

    def draw_weights(
        self,
        precision: "NDArray[np.float64]",
        *,
        start: "NDArray[np.float64]",
        rng: np.random.Generator,
    ) -> "NDArray[np.float64]":
        """Weights "T C r" drawn from their distribution given the rows and N(0, Q⁻¹ ⊗ I).

        The solution of A w = Xᵀ H z + noise, where the noise has the covariance A = Xᵀ H X + Q ⊗ I, has
        the right mean and the right covariance.

        Args:
            precision: Q, "T T".
            start: Weights that may be near.
            rng: Source of the noise.
        """
        white = np.sqrt(self.weight) * rng.standard_normal(self.weight.shape)
        right = self.design.pull_back(self._centered(self.weight * self.response + white))
        factor = np.linalg.cholesky(precision)
        right += np.tensordot(factor, rng.standard_normal(right.shape), axes=1)
        if self.design.n_tasks * self.design.n_coordinates <= MOST_DENSE:
            return self._solve_dense(precision, right)
        inverse: NDArray[Any] = np.linalg.inv(precision + np.diag(self._mean_curvature()))
        return _conjugate_gradients(
            lambda w: self._curved(w) + np.tensordot(precision, w, axes=1),
            right,
            start=start,
            preconditioner=inverse,
        )

    def _solve_dense(
        self, precision: "NDArray[np.float64]", right: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """A⁻¹ right by a factorization of A for every output."""
        n_tasks, n_outputs, size = right.shape
        means = self.design.pull_back(self.weight)
        solution = np.empty_like(right)
        every = np.arange(n_tasks)
        identity = np.kron(precision, np.eye(size)).reshape(n_tasks, size, n_tasks, size)
        for c in range(n_outputs):
            grams = self.design.grams(self.weight[:, c])
            outer = means[:, c, :, None] * means[:, c, None, :]
            matrix = identity.copy()
            matrix[every, :, every] += grams - outer / self.total[:, c, None, None]
            flat = matrix.reshape(n_tasks * size, n_tasks * size)
            found = cho_solve(cho_factor(flat, lower=True), right[:, c].ravel())
            solution[:, c] = found.reshape(n_tasks, size)
        return solution

    def draw_intercepts(
        self, products: "NDArray[np.float64]", rng: np.random.Generator
    ) -> "NDArray[np.float64]":
        """Intercepts "T C" drawn given W x of every row, "n C"."""
        mean = self.design.sums(self.weight * (self.response - products)) / self.total
        return mean + rng.standard_normal(mean.shape) / np.sqrt(self.total)

    def _centered(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """What is left of weighted values when each task's best intercept is taken off."""
        mean = self.design.sums(values) / self.total
        return values - self.weight * mean[self.design.task]

    def _curved(self, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        products = self.design.products(weights)
        return self.design.pull_back(self._centered(self.weight * products))

    def _mean_curvature(self) -> "NDArray[np.float64]":
        """The mean eigenvalue of Xᵀ H X of every task, without the intercept."""
        squares = self.weight * self._squared_norms[:, None]
        means = np.square(self.design.pull_back(self.weight)).sum(axis=2) / self.total
        trace = (self.design.sums(squares) - means).sum(axis=1)
        n_entries = self.weight.shape[1] * self.design.n_coordinates
        return trace.clip(min=0) / n_entries


def _conjugate_gradients(
    product: "Callable[[NDArray[np.float64]], NDArray[np.float64]]",
    right: "NDArray[np.float64]",
    *,
    start: "NDArray[np.float64]",
    preconditioner: "NDArray[np.float64]",
) -> "NDArray[np.float64]":
    """The x with A x = `right`."""
    x = start.copy()
    residual = right - product(x)
    limit = SMALLEST_RESIDUAL * np.linalg.norm(right)
    direction = np.zeros_like(x)
    previous = 1.0
    for _ in range(MOST_ITERATIONS):
        if np.linalg.norm(residual) <= limit:
            break
        ahead = np.tensordot(preconditioner, residual, axes=1)
        current = float(np.vdot(residual, ahead))
        direction = ahead + (current / previous) * direction
        moved = product(direction)
        step = current / float(np.vdot(direction, moved))
        x += step * direction
        residual -= step * moved
        previous = current
    return x
