"""Approximate inverses of second derivatives: the interface, and the inverse of the penalty alone."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from multirel.estimators._linear._quadratic_penalty import QuadraticPenalty

__all__ = ["InverseHessian", "InversePenalty", "floored"]

RELATIVE_FLOOR = 1e-10
"""Eigenvalues of a singular precision, in units of its largest, are raised to this."""


class InverseHessian(ABC):
    """A symmetric positive definite map near the inverse of a second derivative."""

    @abstractmethod
    def apply(self, gradient: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The map times a gradient, "T C r"."""


@final
class InversePenalty(InverseHessian):
    """The inverse of what the penalty and a multiple of I for the loss have together.

    Args:
        penalty: The penalty.
        curvature: The multiple that stands for the loss; it counts only where the penalty is singular.
    """

    def __init__(self, penalty: "QuadraticPenalty", curvature: float) -> None:
        self._penalty = penalty
        largest = penalty.strength * float(np.prod([mode.largest for mode in penalty.modes]))
        self._scale = largest if largest > 0 else max(curvature, np.finfo(np.float64).tiny)

    def apply(self, gradient: "NDArray[np.float64]") -> "NDArray[np.float64]":
        result = gradient
        for axis, mode in enumerate(self._penalty.modes):
            largest = mode.largest
            if largest > 0:
                inverse = floored(largest, -1.0)
                result = largest * mode.apply(result, axis, inverse)
        return result / self._scale


def floored(largest: float, power: float) -> "Callable[[NDArray[np.float64]], NDArray[np.float64]]":
    """The function q ↦ max(q, floor)^power of eigenvalues."""
    return lambda eigenvalues: np.maximum(eigenvalues, RELATIVE_FLOOR * largest) ** power
