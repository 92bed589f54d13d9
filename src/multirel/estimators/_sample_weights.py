"""What every row counts."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from multirel.estimators._columns import as_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_sample_weight"]


def read_sample_weight(sample_weight: Any, x: Any) -> "NDArray[np.float64]":
    """The weight of every row; 1 where none are given.

    Args:
        sample_weight: What the user gave.
        x: The features, which say how many rows there are.

    Raises:
        ValueError: If there is another number of weights, or one is negative or not finite.
    """
    weight = _check_sample_weight(as_array(sample_weight), x, dtype=np.float64)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(
            f"`sample_weight` must not be negative: got {weight[row]:g} in row {row}. Leave out rows that "
            f"shall not count, or give them 0."
        )
    return weight
