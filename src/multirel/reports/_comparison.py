"""A figure of true matrices above recovered ones."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from multirel.reports._hinton import (
    BACKGROUND_COLOR,
    NEGATIVE_COLOR,
    POSITIVE_COLOR,
    hinton_diagram,
    square_side,
)

__all__ = ["comparison_figure"]

LEGEND_VALUES = (-1.0, -0.5, -0.1, 0.1, 0.5, 1.0)


def comparison_figure(
    true: Sequence[ArrayLike],
    recovered: Sequence[ArrayLike],
    *,
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    title: str,
) -> Figure:
    """Return a figure of correlations: a column per mode, the true ones above the recovered.

    Args:
        true: True correlation matrix of each mode.
        recovered: Recovered correlation matrix of each mode.
        names: Name of each mode.
        labels: Names of the entries of each mode.
        title: What the figure shows.

    Raises:
        ValueError: If the four sequences differ in length.
    """
    counts = [len(true), len(recovered), len(names), len(labels)]
    if len(set(counts)) != 1:
        raise ValueError(
            "`true`, `recovered`, `names` and `labels` must have one entry per mode: "
            f"got {counts[0]}, {counts[1]}, {counts[2]} and {counts[3]} entries."
        )
    # A figure of its own, without pyplot: no window system, no global state.
    figure = Figure(figsize=(3.6 * len(names) + 0.6, 8.6), layout="constrained")
    figure.suptitle(title, fontsize=14)
    diagrams, legend = figure.subfigures(2, 1, height_ratios=(8, 0.9), squeeze=False)[:, 0]
    axes = diagrams.subplots(2, len(names), squeeze=False)
    for row, (word, matrices) in enumerate((("true", true), ("recovered", recovered))):
        for ax, matrix, name, entries in zip(axes[row], matrices, names, labels, strict=True):
            hinton_diagram(ax, matrix, labels=entries, scale=1.0)
            ax.set_title(f"{name}s, {word}", fontsize=12)
            ax.tick_params(labelsize=9)
    _draw_legend(legend.subplots())
    return figure


def _draw_legend(ax: Axes) -> None:
    """Draw a square for a few values, and say what area and color mean."""
    for position, value in enumerate(LEGEND_VALUES):
        ax.add_patch(Rectangle((position - 0.5, -0.5), 1, 1, facecolor=BACKGROUND_COLOR))
        side = square_side(value, scale=1.0)
        color = POSITIVE_COLOR if value > 0 else NEGATIVE_COLOR
        ax.add_patch(Rectangle((position - side / 2, -side / 2), side, side, facecolor=color))
    ax.set_xticks(
        range(len(LEGEND_VALUES)), [f"{value:+.1f}" for value in LEGEND_VALUES], fontsize=9
    )
    ax.set_xlim(-0.5, len(LEGEND_VALUES) - 0.5)
    ax.set_ylim(0.5, -0.5)
    ax.set_yticks([])
    ax.set_aspect("equal")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title("size = strength of the correlation, color = its sign", fontsize=10)
