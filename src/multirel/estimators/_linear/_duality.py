"""How far an objective may be above its smallest value: Fenchel's dual problem."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.special import xlogy

from multirel.estimators._linear._profiled_loss import ProfiledLoss

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LossPoint", "loss_conjugate", "loss_point", "smallest_scale"]

SMALLEST_OBJECTIVE = 1e-9
"""Gaps are relative to the objective, or to this part of the loss without weights where that is more."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LossPoint:
    """A loss of one output at some weights, with its best intercepts."""

    products: "NDArray[np.float64]"
    """w_t x of every row, "n 1"."""

    intercepts: "NDArray[np.float64]"
    """ "T 1"."""

    value: float
    """The loss."""

    row_slopes: "NDArray[np.float64]"
    """Its derivative by the products, "n 1", balanced: with sum 0 in every task."""

    slopes: "NDArray[np.float64]"
    """What these make of its derivative by the weights, "T r"."""


def loss_point(
    loss: ProfiledLoss,
    weights: "NDArray[np.float64]",
    *,
    intercepts: "NDArray[np.float64] | None" = None,
) -> LossPoint:
    """A loss at weights "T r", from intercepts that may be near the best."""
    design = loss.problem.design
    products = design.products(weights[:, None, :])
    start = np.zeros((len(loss.groups), 1)) if intercepts is None else intercepts
    best = loss.intercepts(products, start)
    row_slopes = _balanced(loss.slopes(products, best), loss)
    return LossPoint(
        products=products,
        intercepts=best,
        value=loss.value(products, best),
        row_slopes=row_slopes,
        slopes=design.pull_back(row_slopes)[:, 0],
    )


def loss_conjugate(
    loss: ProfiledLoss, row_slopes: "NDArray[np.float64]", factors: "NDArray[np.float64]"
) -> float:
    """Σ c ℓ*(y, a/c) at slopes a of the rows, each multiplied by the factor of its task.

    Args:
        loss: The loss, "squared" or "binary".
        row_slopes: a, "n 1", with sum 0 in every task, in the domain of the conjugate.
        factors: One per task, from 0 to 1.
    """
    slopes = row_slopes * factors[loss.group, None]
    present = loss.c > 0
    c, y, slopes = loss.c[present], loss.y[present], slopes[present]
    if loss.kind == "squared":
        return float((slopes * (slopes / (4 * c) + y)).sum())
    wrong = np.clip(-slopes * y / c, 0.0, 1.0)
    return float((c * (xlogy(wrong, wrong) + xlogy(1 - wrong, 1 - wrong))).sum())


def smallest_scale(loss: ProfiledLoss) -> float:
    """What a gap is relative to where the objective is smaller."""
    nothing = np.zeros(loss.y.shape)
    constant = loss.value(nothing, loss.intercepts(nothing, np.zeros((len(loss.groups), 1))))
    # Intercepts alone fit tasks with one class, and constant numbers up to roundoff.
    constant = max(constant, SMALLEST_OBJECTIVE * loss.value_at_zero)
    return SMALLEST_OBJECTIVE * constant or 1.0


def _balanced(row_slopes: "NDArray[np.float64]", loss: ProfiledLoss) -> "NDArray[np.float64]":
    """Slopes with sum 0 in every task: the larger of the positive and the negative part is made smaller."""
    sums = loss.groups.sums
    above, below = sums(np.maximum(row_slopes, 0.0)), sums(np.maximum(-row_slopes, 0.0))
    both = np.minimum(above, below)
    shrink_above = np.divide(both, above, out=np.ones_like(both), where=above > 0)
    shrink_below = np.divide(both, below, out=np.ones_like(both), where=below > 0)
    return row_slopes * np.where(row_slopes > 0, shrink_above[loss.group], shrink_below[loss.group])
