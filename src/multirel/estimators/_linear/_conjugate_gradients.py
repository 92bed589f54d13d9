"""Linear systems by preconditioned conjugate gradients."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from multirel.estimators._linear._interruption import is_interrupted

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["solve_by_conjugate_gradients"]

Map = "Callable[[NDArray[np.float64]], NDArray[np.float64]]"


def solve_by_conjugate_gradients(
    product: "Callable[[NDArray[np.float64]], NDArray[np.float64]]",
    target: "NDArray[np.float64]",
    *,
    precondition: "Callable[[NDArray[np.float64]], NDArray[np.float64]]",
    is_small: "Callable[[NDArray[np.float64]], bool]",
    most_iterations: int,
) -> "tuple[NDArray[np.float64], int]":
    """x with H x near `target`, and the number of products with H.

    Args:
        product: H times an array, positive semidefinite.
        target: The right-hand side.
        precondition: A map near the inverse of H.
        is_small: Whether a residual is small enough.
        most_iterations: The most products with H.
    """
    x = np.zeros_like(target)
    residual = target.copy()
    smooth = precondition(residual)
    direction = smooth
    decrease = np.vdot(residual, smooth)
    for iteration in range(1, most_iterations + 1):
        image = product(direction)
        curvature = np.vdot(direction, image)
        if not curvature > 0:
            return (x if iteration > 1 else smooth), iteration
        length = decrease / curvature
        x += length * direction
        residual -= length * image
        if is_small(residual) or is_interrupted():
            return x, iteration
        smooth = precondition(residual)
        previous, decrease = decrease, np.vdot(residual, smooth)
        if not decrease > 0:
            return x, iteration
        direction = smooth + (decrease / previous) * direction
    return x, most_iterations
