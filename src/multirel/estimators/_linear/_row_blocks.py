"""Rows of tasks of similar sizes side by side, so that one product serves many small tasks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PaddedBlock", "chunks", "padded_blocks"]

LARGEST_SMALL_TASK = 256
"""A task with more rows has a product of its own: there is no overhead left to save."""

GROWTH = 1.25
"""Rows of the largest task of a block over those of the smallest."""

FEWEST_TASKS = 3
"""Fewer small tasks are multiplied one by one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PaddedBlock:
    """The rows of some tasks, each with rows of zeros up to a common number m."""

    tasks: "NDArray[np.int64]"
    """The numbers of the tasks, "B"."""

    x: "NDArray[np.float64]"
    """Their rows, "B m r"."""

    rows: "NDArray[np.int64]"
    """The numbers of their rows, one task after the other."""

    places: "NDArray[np.int64]"
    """Where these rows are among the B · m."""

    def read(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Values of the rows, "B m C", from those of all rows, "n C"."""
        shape = (*self.x.shape[:2], values.shape[1])
        if len(self.rows) == shape[0] * shape[1]:
            return values[self.rows].reshape(shape)
        padded = np.zeros((shape[0] * shape[1], shape[2]))
        padded[self.places] = values[self.rows]
        return padded.reshape(shape)

    def write(self, result: "NDArray[np.float64]", values: "NDArray[np.float64]") -> None:
        """Write values of the rows, "B m C", among those of all rows, "n C"."""
        result[self.rows] = values.reshape(-1, values.shape[2])[self.places]


def padded_blocks(
    x: "NDArray[np.float64]", starts: "NDArray[np.int64]", *, most_entries: int
) -> list[PaddedBlock]:
    """Blocks of tasks with about as many rows; none where they are few or take too much memory.

    Args:
        x: The rows of all tasks, "n r".
        starts: Where the rows of every task start, and after them the number of rows.
        most_entries: How many numbers the blocks may hold.
    """
    counts = np.diff(starts)
    small = np.flatnonzero((counts > 0) & (counts <= LARGEST_SMALL_TASK))
    n_entries = GROWTH * counts[small].sum() * x.shape[1]
    if len(small) < FEWEST_TASKS or n_entries > most_entries:
        return []
    level = np.ceil(np.log(counts[small]) / np.log(GROWTH)).astype(np.int64)
    return [_block(x, starts, small[level == which]) for which in np.unique(level).tolist()]


def chunks(rows: slice, size: int) -> Iterator[slice]:
    """A range of rows in pieces of `size`."""
    for start in range(rows.start, rows.stop, size):
        yield slice(start, min(start + size, rows.stop))


def _block(
    x: "NDArray[np.float64]", starts: "NDArray[np.int64]", tasks: "NDArray[np.int64]"
) -> PaddedBlock:
    counts = np.diff(starts)[tasks]
    most = int(counts.max())
    within = np.arange(most)
    is_row = within < counts[:, None]
    rows = (starts[:-1][tasks][:, None] + within)[is_row]
    places = np.flatnonzero(is_row)
    padded = np.zeros((len(tasks) * most, x.shape[1]))
    padded[places] = x[rows]
    return PaddedBlock(
        tasks=tasks, x=padded.reshape(len(tasks), most, -1), rows=rows, places=places
    )
