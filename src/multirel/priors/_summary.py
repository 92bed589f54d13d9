"""A table of what a prior acts on."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import final

__all__ = ["PriorSummary", "SummaryRow"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryRow:
    """One stack."""

    layer: str
    """The pattern that found it."""

    shape: str
    """Sizes of the modes."""

    modes: str
    """Modes whose covariance is learned, with the shrinkage of each."""

    rank: str
    """How many eigenvalues of each learned mode are kept apart."""

    condition: float
    """Condition number of the prior's precision."""

    strength: float
    """λ/N times the mean eigenvalue of the precision: the prior's pull on an average weight."""

    cost: str
    """Operations of one application, and how often it is made."""

    updates: str
    """Covariance updates made, and how many there will be."""

    correlations: str
    """What `correlations()` speaks of: the weights W − M, or their change W − W_initial."""


@final
class PriorSummary:
    """The rows of `prior.summary()`; prints as a table.

    Args:
        rows: One row per stack.
    """

    def __init__(self, rows: Sequence[SummaryRow]) -> None:
        self.rows = tuple(rows)

    def __str__(self) -> str:
        names = [field.name for field in fields(SummaryRow)]
        cells = [names] + [[_text(getattr(row, name)) for name in names] for row in self.rows]
        widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ]
        return "\n".join(lines)

    __repr__ = __str__


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
