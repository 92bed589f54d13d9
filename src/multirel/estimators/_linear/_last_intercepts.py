"""Intercepts that rows do not decide: those at infinity, and those without rows."""

from typing import TYPE_CHECKING

import numpy as np

from multirel.estimators._linear._intercepts import log_sum, masked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._profiled_loss import ProfiledLoss

__all__ = ["all_intercepts"]


def all_intercepts(
    loss: "ProfiledLoss",
    products: "NDArray[np.float64]",
    intercepts: "NDArray[np.float64]",
    *,
    most_added: float,
) -> "tuple[NDArray[np.float64], float]":
    """Finite intercepts for all tasks and outputs, and by how much they are worse than infinite ones.

    Where an intercept belongs at infinity, it is so far out that no more than `most_added` is lost by all of
    them. Where there are no rows, it is the average of the others of the output.

    Args:
        loss: The loss.
        products: Products of weights and features of the rows.
        intercepts: The best intercepts, "G C"; 0 where they are infinite.
        most_added: The largest sum of losses.
    """
    result = intercepts.copy()
    is_empty = ~loss.groups.filled
    added = 0.0
    infinite = ~loss.is_finite
    n_infinite = int(infinite.sum())
    if n_infinite:
        share = most_added / n_infinite
        outputs = products + intercepts[loss.group]
        if loss.kind == "softmax":
            base = log_sum(masked(outputs, loss.is_finite, loss.group))
            # Every excluded class adds at most Σ c exp(p + b − base).
            margins = base[:, None] - products
        else:
            margins = loss.y * products
        for group, output in zip(*np.nonzero(infinite), strict=True):
            rows = slice(int(loss.groups.starts[group]), int(loss.groups.starts[group + 1]))
            weight = float(loss.problem.coefficients[rows].sum())
            distance = float(np.log(weight / share))
            smallest = float(margins[rows, output].min())
            if loss.kind == "softmax":
                result[group, output] = smallest - max(distance, 0.0)
            else:
                side = float(loss.y[rows.start, output])
                result[group, output] = side * (max(distance, 0.0) - smallest)
        added = most_added
    known = loss.is_finite & ~is_empty[:, None]
    count = known.sum(axis=0)
    means = np.where(known, result, 0.0).sum(axis=0) / np.maximum(count, 1)
    # An output that is infinite everywhere has no other average.
    filled = ~is_empty
    if filled.any():
        means = np.where(count > 0, means, result[filled].mean(axis=0))
    result[is_empty] = means
    return result, added
