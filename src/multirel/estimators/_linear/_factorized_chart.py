r"""Coordinates of all stacks near one with given factors.

$$\hat W(z) = \text{compose}(Q_j + Z_j M_j),\qquad Q_j^\top Z_j = 0$$

The columns of every factor but one are orthonormal, and change only orthogonally to themselves: what
factors can be without changing their product is left out. M_j = (Gram matrix of the slices that the
columns stand for)^{-1/2}, so that ‖dŴ‖ = ‖dz‖ at z = 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._factorized_form import Form

__all__ = ["Chart", "Direction"]

SMALLEST_SCALE = 1e-4
"""Columns whose slices are smaller, beside the largest, are treated as of this size."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Direction:
    """First-order changes along a direction of a chart."""

    factors: "Sequence[NDArray[np.float64]]"
    """Of the factors."""

    products: "Sequence[NDArray[np.float64]]"
    """Of their products, the last of which is the stack."""

    @property
    def weights(self) -> "NDArray[np.float64]":
        """Of the stack, "T C r"."""
        return self.products[-1]


@final
class Chart:
    """Coordinates z, one vector for all factors, around factors where z = 0.

    Args:
        form: How the factors are multiplied.
        factors: Any factors.
    """

    def __init__(self, form: "Form", factors: "Sequence[NDArray[np.float64]]") -> None:
        self.form = form
        self.factors = form.orthonormalized(factors)
        self._made = form.chain(self.factors)
        self._column_scales = {
            number: _inverse_root(form.column_gram(self.factors, number))
            for number in form.scaled_by
        }
        self._ends = np.cumsum([factor.size for factor in self.factors])

    @property
    def weights(self) -> "NDArray[np.float64]":
        """The stack at z = 0."""
        return self._made[-1]

    def move(self, z: "NDArray[np.float64]") -> "list[NDArray[np.float64]]":
        """The factors at z."""
        pairs = zip(self.factors, self._changes(z), strict=True)
        return [factor + change for factor, change in pairs]

    def direction(self, z: "NDArray[np.float64]") -> Direction:
        """How the stack changes along z, to first order."""
        changes = self._changes(z)
        products = self.form.chain_change(self.factors, self._made, changes)
        return Direction(factors=changes, products=products)

    def gradient(self, slope: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The gradient by z at 0, from that by the stack."""
        return self._coordinates(self.form.pull_back(slope, self.factors, self._made))

    def gradient_change(
        self, along: Direction, slope: "tuple[NDArray[np.float64], NDArray[np.float64]]"
    ) -> "NDArray[np.float64]":
        """The Hessian by z at 0, times a direction.

        Args:
            along: The direction.
            slope: The gradient by the stack, and its change along the direction.
        """
        parts = self.form.pull_back_change(
            slope, (self.factors, along.factors), (self._made, along.products)
        )
        return self._coordinates(parts)

    def _changes(self, z: "NDArray[np.float64]") -> "list[NDArray[np.float64]]":
        changes = []
        parts = np.split(z, self._ends[:-1])
        for number, (part, factor) in enumerate(zip(parts, self.factors, strict=True)):
            change = part.reshape(factor.shape)
            if number in self._column_scales:
                change = self._tangent(number, change) @ self._column_scales[number]
            changes.append(change)
        return changes

    def _coordinates(self, parts: "Sequence[NDArray[np.float64]]") -> "NDArray[np.float64]":
        """The transpose of `_changes`."""
        result = []
        for number, part in enumerate(parts):
            scaled = part
            if number in self._column_scales:
                scaled = self._tangent(number, part @ self._column_scales[number])
            result.append(scaled.ravel())
        return np.concatenate(result)

    def _tangent(self, number: int, change: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """What is orthogonal to the columns of a factor."""
        columns = self.factors[number].reshape(-1, change.shape[-1])
        flat = change.reshape(columns.shape)
        return (flat - columns @ (columns.T @ flat)).reshape(change.shape)


def _inverse_root(gram: "NDArray[np.float64]") -> "NDArray[np.float64]":
    values, vectors = np.linalg.eigh(gram)
    largest = max(float(values[-1]), 0.0)
    if largest == 0:
        return np.eye(len(gram))
    sizes = np.sqrt(np.maximum(values, largest * SMALLEST_SCALE**2))
    inverse: NDArray[np.float64] = (vectors / sizes) @ vectors.T
    return inverse
