"""Indices of slices of one mode, checked."""

import operator
from collections.abc import Sequence

__all__ = ["slice_indices"]


def slice_indices(
    shape: Sequence[int], mode: int, index: int | Sequence[int]
) -> tuple[int, list[int]]:
    """The mode counted from 0, and the slices as a list of numbers counted from 0.

    Raises:
        ValueError: If the mode or a slice does not exist, or a slice is named twice or none is.
    """
    order = len(shape)
    if not -order <= mode < order:
        raise ValueError(
            f"`mode` must be one of the {order} modes: expected {-order} to {order - 1}, got {mode}."
        )
    axis = mode % order
    size = shape[axis]
    given = [*index] if hasattr(index, "__iter__") else [index]
    rows = [operator.index(row) for row in given]
    if not rows:
        raise ValueError(f"`index` must name at least one slice of mode {mode}: got none.")
    for row in rows:
        if not -size <= row < size:
            raise ValueError(
                f"`index` must name slices of mode {mode}: expected {-size} to {size - 1}, got {row}."
            )
    rows = [row % size for row in rows]
    if len(set(rows)) < len(rows):
        raise ValueError(f"`index` must name each slice of mode {mode} once: got {given}.")
    return axis, rows
