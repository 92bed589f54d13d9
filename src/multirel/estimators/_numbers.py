"""Labels of tasks that predict numbers."""

from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_numbers"]


def as_numbers(labels: "NDArray[Any]") -> "NDArray[np.float64]":
    """Labels as numbers.

    Raises:
        ValueError: If a label is no finite number.
    """
    if labels.dtype.kind not in "fiub":
        wrong = [label for label in labels.tolist() if not isinstance(label, Real | Decimal)]
        if wrong:
            raise ValueError(f"`y` must hold numbers for regression: got {wrong[0]!r}.")
    numbers = labels.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("`y` must hold finite numbers: got infinity. Input y contains infinity.")
    return numbers
