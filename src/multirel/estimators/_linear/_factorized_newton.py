"""Newton's method in a trust region, for functions that need not be convex."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Product = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]

__all__ = ["Step", "newton_step"]

LARGEST_RESIDUAL = 0.1
"""Of the gradient, what the equations of a step may leave over, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """A step, and what the quadratic model says about it."""

    z: "NDArray[np.float64]"
    """The step."""

    decrease: float
    """By how much the model is smaller there."""

    is_inside: bool
    """Whether it is the model's minimizer, not where the region ends."""

    n_products: int
    """Products with the Hessian that it took."""


def newton_step(
    gradient: "NDArray[np.float64]",
    product: "Product",
    *,
    radius: float,
    accuracy: float,
    max_products: int,
) -> Step:
    """The step of conjugate gradients to the model's minimizer, or to the end of the region.

    Steihaug: The conjugate gradient method and trust regions in large scale optimization. SIAM J. Numer.
    Anal. 20, 1983.

    Args:
        gradient: The gradient g of the model.
        product: The Hessian H times a vector.
        radius: The largest norm of the step.
        accuracy: The largest ‖Hz + g‖ / ‖g‖.
        max_products: The most products with the Hessian.
    """
    z, image = np.zeros_like(gradient), np.zeros_like(gradient)
    residual = gradient.copy()
    direction = -residual
    squared = float(residual @ residual)
    goal = (min(accuracy, LARGEST_RESIDUAL) ** 2) * squared
    n_products, is_inside = 0, True
    while squared > goal and n_products < max_products:
        along = product(direction)
        n_products += 1
        curvature = float(direction @ along)
        length = squared / curvature if curvature > 0 else np.inf
        if curvature <= 0 or np.linalg.norm(z + length * direction) >= radius:
            length, is_inside = _to_end(z, direction, radius), False
        z = z + length * direction
        image = image + length * along
        if not is_inside:
            break
        residual = residual + length * along
        before, squared = squared, float(residual @ residual)
        direction = (squared / before) * direction - residual
    decrease = -float(gradient @ z + z @ image / 2)
    return Step(z=z, decrease=decrease, is_inside=is_inside, n_products=n_products)


def _to_end(z: "NDArray[np.float64]", direction: "NDArray[np.float64]", radius: float) -> float:
    """How far from z the region ends in a direction."""
    a, b = float(direction @ direction), float(z @ direction)
    c = float(z @ z) - radius**2
    return (-b + np.sqrt(max(b * b - a * c, 0.0))) / a
