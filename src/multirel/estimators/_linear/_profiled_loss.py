"""Losses as functions of the weights alone: the intercepts are always the best ones."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, softmax

from multirel.estimators._linear._intercepts import (
    best_binary,
    best_softmax,
    inverse_curvature_of_softmax,
    log_sum,
    masked,
)
from multirel.estimators._linear._losses import row_losses
from multirel.estimators._linear._row_groups import RowGroups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._problem import LinearProblem

__all__ = ["Curvature", "ProfiledLoss"]


class ProfiledLoss:
    """min over b of Σ c ℓ(y, p + b), as a function of the products p = W x of the rows.

    An output for which all labels of an intercept agree has its best intercept at infinity, where it adds
    nothing to the loss: such outputs are left out.

    Args:
        problem: The problem.
    """

    def __init__(self, problem: "LinearProblem") -> None:
        self.problem = problem
        self.kind = problem.loss
        is_per_task = problem.intercept_starts is None
        self.groups = problem.design.groups if is_per_task else RowGroups(problem.group_starts)
        self.group = self.groups.of_row
        self.y = problem.targets
        self.is_finite = self._finite()
        self.c = problem.coefficients[:, None] * np.ones((1, problem.n_outputs))
        if self.kind == "binary":
            self.c = self.c * self.is_finite[self.group]
        self.totals = self.groups.sums(self.c)

    @cached_property
    def value_at_zero(self) -> float:
        """The loss of zero weights and intercepts, of all outputs."""
        zeros = np.zeros(self.y.shape)
        return float(self.problem.coefficients @ row_losses(self.problem, zeros))

    def intercepts(
        self, products: "NDArray[np.float64]", start: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """The best intercepts, "G C"; 0 where it is at infinity or there are no rows."""
        if self.kind == "squared":
            residuals = self.c * (self.y - products)
            return self.groups.sums(residuals) / _positive(self.totals)
        if self.kind == "binary":
            return best_binary(self, products, start)
        return best_softmax(self, products, start)

    def value(self, products: "NDArray[np.float64]", intercepts: "NDArray[np.float64]") -> float:
        """The loss."""
        return float(self.group_values(products, intercepts).sum())

    def group_values(
        self, products: "NDArray[np.float64]", intercepts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """The loss of the rows of every intercept, "G"."""
        outputs = products + intercepts[self.group]
        if self.kind == "squared":
            losses = (self.c * np.square(self.y - outputs)).sum(axis=1)
        elif self.kind == "binary":
            losses = (self.c * np.logaddexp(0, -self.y * outputs)).sum(axis=1)
        else:
            labelled = (self.y * outputs).sum(axis=1)
            losses = self.c[:, 0] * (log_sum(self._masked(outputs)) - labelled)
        return self.groups.sums(losses)

    def slopes(
        self, products: "NDArray[np.float64]", intercepts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """The derivative by the products, "n C"."""
        outputs = products + intercepts[self.group]
        if self.kind == "squared":
            return 2 * self.c * (outputs - self.y)
        if self.kind == "binary":
            return -self.c * self.y * expit(-self.y * outputs)
        return self.c * (softmax(self._masked(outputs), axis=1) - self.y)

    def curvature(
        self, products: "NDArray[np.float64]", intercepts: "NDArray[np.float64]"
    ) -> "Curvature":
        """The second derivative by the products."""
        outputs = products + intercepts[self.group]
        if self.kind == "squared":
            return Curvature(loss=self, diagonal=2 * self.c, probabilities=None)
        if self.kind == "binary":
            likely = expit(outputs)
            diagonal = self.c * likely * expit(-outputs)
            return Curvature(loss=self, diagonal=diagonal, probabilities=None)
        likely = softmax(self._masked(outputs), axis=1)
        return Curvature(loss=self, diagonal=self.c * likely * (1 - likely), probabilities=likely)

    def _masked(self, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
        return masked(outputs, self.is_finite, self.group)

    def _finite(self) -> "NDArray[np.bool_]":
        """Where the best intercept is finite, "G C"; true where there are no rows."""
        if self.kind == "squared":
            return np.ones((len(self.groups), self.problem.n_outputs), dtype=bool)
        has_positive = self.groups.sums((self.y > 0).astype(np.float64)) > 0
        is_empty = ~self.groups.filled[:, None]
        if self.kind == "softmax":
            return has_positive | is_empty
        has_negative = self.groups.sums((self.y < 0).astype(np.float64)) > 0
        return (has_positive & has_negative) | is_empty


@dataclass(frozen=True, kw_only=True, eq=False)
class Curvature:
    """The second derivative of a loss with its best intercepts, at some outputs."""

    loss: ProfiledLoss
    """The loss."""

    diagonal: "NDArray[np.float64]"
    """The second derivative of every row's loss by each of its outputs, "n C"."""

    probabilities: "NDArray[np.float64] | None"
    """Those of the classes, "n C", where outputs are coupled."""

    def product(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The second derivative times values of the rows, "n C"."""
        groups = self.loss.groups
        mine = groups.sums(self._by_row(values))
        if self.probabilities is None:
            shift = mine / self._sums
        else:
            shift = (self._inverses @ mine[:, :, None])[:, :, 0]
        return self._by_row(values - shift[groups.of_row])

    @cached_property
    def _sums(self) -> "NDArray[np.float64]":
        return _positive(self.loss.groups.sums(self.diagonal))

    @cached_property
    def _inverses(self) -> "NDArray[np.float64]":
        """Inverses of the second derivatives by the intercepts, "G C C"."""
        return inverse_curvature_of_softmax(self.loss, self._likely)

    @property
    def _likely(self) -> "NDArray[np.float64]":
        return np.empty(0) if self.probabilities is None else self.probabilities

    def _by_row(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        if self.probabilities is None:
            return self.diagonal * values
        weighted = self.probabilities * values
        return self.loss.c * (weighted - self.probabilities * weighted.sum(axis=1, keepdims=True))


def _positive(values: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Values that can be divided by: 1 for 0."""
    return np.where(values > 0, values, 1.0)
