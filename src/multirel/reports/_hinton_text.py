"""Hinton diagrams made of characters, for terminals."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from multirel.reports._hinton import check_matrix, largest_strength

__all__ = ["hinton_legend", "hinton_text"]

NEAR_ZERO = 0.15
STRONG = 0.5

# Of a positive and of a negative entry: near zero, weak, strong.
_SQUARES = (("·", "▪", "■"), ("·", "▫", "□"))
_ASCII_SQUARES = ((".", "+", "#"), (".", "-", "="))
_UNKNOWN = "?"


def hinton_text(
    matrix: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    scale: float | None = None,
    ascii_only: bool = False,
) -> str:
    """Return `matrix` as lines of squares: size = absolute value, filled or hollow = sign.

    An entry that is NaN is a question mark.

    Args:
        matrix: Matrix to draw; row 0 is the first line.
        labels: Names of the rows, which then stand before the squares.
        scale: Absolute value that counts as 1. The largest one of `matrix` if None.
        ascii_only: Use characters that every terminal has.

    Raises:
        ValueError: If `matrix` is not a matrix, if `labels` and rows differ in number, or if
            `scale` is not above 0.

    Example:
        >>> print(hinton_text([[1.0, -0.3], [-0.3, 1.0]], labels=["cats", "dogs"]))
        cats ■ ▫
        dogs ▫ ■
    """
    entries = check_matrix(matrix, labels=labels, scale=scale)
    names = list(labels) if labels is not None else [""] * len(entries)
    width = max((len(name) for name in names), default=0)
    relative = entries / (largest_strength(entries) if scale is None else scale)
    lines = []
    for name, row in zip(names, relative, strict=True):
        squares = " ".join(_square(value, ascii_only=ascii_only) for value in row)
        lines.append(f"{name:<{width}} {squares}" if width else squares)
    return "\n".join(lines)


def hinton_legend(*, ascii_only: bool = False) -> str:
    """Return the line that explains the characters of `hinton_text`."""
    positive, negative = _ASCII_SQUARES if ascii_only else _SQUARES
    return (
        f"{positive[2]} strong, {positive[1]} weak, {positive[0]} near zero; "
        f"{negative[2]} and {negative[1]} are negative"
    )


def _square(value: float, *, ascii_only: bool) -> str:
    """Return the character for an entry relative to the scale."""
    if np.isnan(value):
        return _UNKNOWN
    sign = 0 if value >= 0 else 1
    size = 0 if abs(value) < NEAR_ZERO else 1 if abs(value) < STRONG else 2
    return (_ASCII_SQUARES if ascii_only else _SQUARES)[sign][size]
