"""Hinton diagrams on matplotlib axes: a square per entry, its area the strength."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "BACKGROUND_COLOR",
    "NEGATIVE_COLOR",
    "POSITIVE_COLOR",
    "check_matrix",
    "hinton_diagram",
    "largest_strength",
    "square_side",
]

# Okabe and Ito's blue and orange: told apart by color-blind people, and dark against light in print.
POSITIVE_COLOR = "#0072B2"
NEGATIVE_COLOR = "#E69F00"
BACKGROUND_COLOR = "#F2F2F2"
MATRIX_DIMENSIONS = 2
LARGEST_SIDE = 0.94


def hinton_diagram(
    ax: Axes,
    matrix: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    column_labels: Sequence[str] | None = None,
    scale: float | None = None,
) -> None:
    """Draw `matrix` on `ax` as squares: area = absolute value, color = sign.

    Entries that are NaN stay empty.

    Args:
        ax: Axes to draw on. Its limits, ticks and background are set.
        matrix: Matrix to draw; row 0 is on top.
        labels: Names of the rows.
        column_labels: Names of the columns. `labels` if those are given and the matrix is square.
        scale: Absolute value whose square fills its cell. The largest one of `matrix` if None.

    Raises:
        ValueError: If `matrix` is not a matrix, if names and entries differ in number, or if
            `scale` is not above 0.

    Example:
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()
        >>> hinton_diagram(ax, [[1.0, -0.5], [-0.5, 1.0]], labels=["cats", "dogs"])
        >>> len(ax.patches)
        4
    """
    entries = check_matrix(matrix, labels=labels, scale=scale)
    if column_labels is None and entries.shape[0] == entries.shape[1]:
        column_labels = labels
    if column_labels is not None and len(column_labels) != entries.shape[1]:
        raise ValueError(
            "`column_labels` must name every column of `matrix`: "
            f"expected {entries.shape[1]} names, got {len(column_labels)}."
        )
    for (row, column), value in np.ndenumerate(entries):
        side = square_side(value, scale=largest_strength(entries) if scale is None else scale)
        if side > 0:
            corner = (column - side / 2, row - side / 2)
            color = POSITIVE_COLOR if value > 0 else NEGATIVE_COLOR
            ax.add_patch(Rectangle(corner, side, side, facecolor=color, linewidth=0))
    _set_up_axes(ax, entries.shape, labels=labels, column_labels=column_labels)


def square_side(value: float, *, scale: float) -> float:
    """Return the side of the square for `value` in a cell of side 1, 0 if it is NaN."""
    if np.isnan(value):
        return 0.0
    return LARGEST_SIDE * float(np.sqrt(min(abs(value) / scale, 1.0)))


def largest_strength(entries: NDArray[np.float64]) -> float:
    """Return the largest absolute value, leaving out NaN, or 1 if there is none above 0."""
    strengths = np.abs(entries[~np.isnan(entries)])
    return float(strengths.max(initial=0.0)) or 1.0


def check_matrix(
    matrix: ArrayLike, *, labels: Sequence[str] | None, scale: float | None
) -> NDArray[np.float64]:
    """Return `matrix` as an array, after checking what all Hinton diagrams ask of it."""
    entries = np.asarray(matrix, dtype=np.float64)
    if entries.ndim != MATRIX_DIMENSIONS:
        raise ValueError(
            f"`matrix` must be a matrix: expected {MATRIX_DIMENSIONS} dimensions, "
            f"got {entries.ndim}. "
            "Draw one matrix at a time."
        )
    if labels is not None and len(labels) != entries.shape[0]:
        raise ValueError(
            "`labels` must name every row of `matrix`: "
            f"expected {entries.shape[0]} names, got {len(labels)}."
        )
    if scale is not None and not scale > 0:
        raise ValueError(
            f"`scale` must be above 0: got {scale}. Leave it out for the largest entry."
        )
    return entries


def _set_up_axes(
    ax: Axes,
    shape: tuple[int, ...],
    *,
    labels: Sequence[str] | None,
    column_labels: Sequence[str] | None,
) -> None:
    """Give `ax` one cell per entry, row 0 on top, and its names."""
    n_rows, n_columns = shape
    ax.set_xlim(-0.5, n_columns - 0.5)
    ax.set_ylim(n_rows - 0.5, -0.5)
    ax.set_aspect("equal")
    ax.set_facecolor(BACKGROUND_COLOR)
    ax.set_xticks([], minor=False)
    ax.set_yticks([], minor=False)
    if labels is not None:
        ax.set_yticks(range(n_rows), labels)
    if column_labels is not None:
        ax.set_xticks(
            range(n_columns), column_labels, rotation=45, ha="right", rotation_mode="anchor"
        )
    # White lines between the cells make rows and columns easy to follow.
    ax.set_xticks(np.arange(0.5, n_columns - 1), minor=True)
    ax.set_yticks(np.arange(0.5, n_rows - 1), minor=True)
    ax.grid(which="minor", color="white", linewidth=1.0)
    ax.set_axisbelow(True)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
