"""A recovery of covariances as text: numbers and Hinton diagrams, true beside recovered."""

from collections.abc import Sequence

from numpy import float64
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from multirel.experiments import Recovery, TaskPair
from multirel.reports import hinton_legend, hinton_text

__all__ = ["print_recovery"]

TITLES = ("true", "recovered")
GAP = "     "
NUMBER_WIDTH = 4
POSITIVE_STYLE = "bright_blue"
NEGATIVE_STYLE = "dark_orange"


def print_recovery(console: Console, recovery: Recovery) -> None:
    """Print the task correlations, true and recovered, and how far apart they are."""
    ascii_only = not console.encoding.lower().startswith("utf")
    matrices = (recovery.true_correlations[0], recovery.recovered_correlations[0])
    numbers = [_number_lines(matrix) for matrix in matrices]
    squares = [hinton_text(m, scale=1.0, ascii_only=ascii_only).splitlines() for m in matrices]
    labels = [f"{number} {label}" for number, label in enumerate(recovery.labels[0], start=1)]

    console.print("Correlations between the tasks", style="bold")
    console.print(_beside(["", *labels], numbers, width=console.width))
    console.print()
    diagrams = _beside(labels, squares, width=console.width)
    diagrams.highlight_regex(r"[■▪#+]", POSITIVE_STYLE)
    diagrams.highlight_regex(r"[□▫=-]", NEGATIVE_STYLE)
    console.print(diagrams)
    console.print(hinton_legend(ascii_only=ascii_only), style="dim")
    console.print()
    _print_findings(console, recovery)


def _number_lines(matrix: NDArray[float64]) -> list[str]:
    """Return `matrix` as lines of numbers, the numbers of the columns first."""
    heading = [str(number) for number in range(1, matrix.shape[1] + 1)]
    rows = [heading, *([_number(value) for value in row] for row in matrix)]
    return [" ".join(f"{number:>{NUMBER_WIDTH}}" for number in row) for row in rows]


def _number(correlation: float) -> str:
    """Return a correlation with two decimals and, as is usual, no zero before the point."""
    # Adding 0.0 makes a rounded -0.0 positive.
    text = f"{round(correlation, 2) + 0.0:.2f}"
    return {"1.00": "1", "-1.00": "-1"}.get(text, text.replace("0.", ".", 1))


def _beside(labels: Sequence[str], blocks: Sequence[Sequence[str]], *, width: int) -> Text:
    """Return the true and the recovered block after `labels`, or one below the other if narrow."""
    margin = max(len(label) for label in labels)
    rows = [f"{label:<{margin}} " for label in ["", *labels]]
    columns = [
        [f"{title:<{len(block[0])}}", *block] for title, block in zip(TITLES, blocks, strict=True)
    ]
    if len(GAP.join([rows[0], *(column[0] for column in columns)])) <= width:
        lines = [row + GAP.join(cells) for row, *cells in zip(rows, *columns, strict=True)]
    else:
        lines = [row + cell for column in columns for row, cell in zip(rows, column, strict=True)]
    return Text("\n".join(line.rstrip() for line in lines))


def _print_findings(console: Console, recovery: Recovery) -> None:
    """Print which tasks are most alike, how far off the recovery is, and how long it took."""
    console.print(f"Most alike:   {_pair(recovery.most_alike)}")
    console.print(f"Most opposed: {_pair(recovery.most_opposed)}")
    console.print()
    console.print("How far off is that?", style="bold")
    console.print("Relative Frobenius error of each covariance, scaled to equal traces:")
    for name, relative_error in zip(recovery.mode_names, recovery.relative_errors, strict=True):
        console.print(f"  {name:<6} {relative_error:.3f}")
    worst = recovery.furthest_off
    console.print(
        f"Largest error of a task correlation: {worst.error:.3f} ({worst.first}, {worst.second})."
    )
    sweeps = "1 sweep" if recovery.n_iterations == 1 else f"{recovery.n_iterations} sweeps"
    settled = "settled after" if recovery.converged else "had not settled after"
    console.print(f"The estimate {settled} {sweeps} over the three covariances.")
    console.print()


def _pair(pair: TaskPair) -> str:
    """Return two tasks and their correlation in words."""
    recovered, true = _number(pair.recovered), _number(pair.true)
    return f"{pair.first} and {pair.second}, {recovered} (true: {true})"
