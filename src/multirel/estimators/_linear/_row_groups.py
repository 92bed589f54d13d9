"""Sums over rows that follow one another."""

from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RowGroups"]


@final
class RowGroups:
    """Groups of rows that follow one another.

    Args:
        starts: Where the rows of every group start, and after them the number of rows: G + 1 numbers.
    """

    def __init__(self, starts: "NDArray[np.int64]") -> None:
        self.starts = starts
        self.counts = np.diff(starts)
        self.filled = self.counts > 0
        self.of_row = np.repeat(np.arange(len(self.counts)), self.counts)
        self._first = starts[:-1][self.filled]
        self._is_full = bool(self.filled.all()) and len(self._first) > 0

    def __len__(self) -> int:
        """The number of groups G."""
        return len(self.counts)

    def sums(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Σ of the rows of every group: "G C" for "n C"."""
        return self._reduce(np.add, values)

    def largest(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The largest of every group; 0 without rows."""
        return self._reduce(np.maximum, values)

    def smallest(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The smallest of every group; 0 without rows."""
        return self._reduce(np.minimum, values)

    def _reduce(self, function: np.ufunc, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        if self._is_full:
            return np.asarray(function.reduceat(values, self._first, axis=0))
        result = np.zeros((len(self), *values.shape[1:]))
        if len(self._first) > 0:
            result[self.filled] = function.reduceat(values, self._first, axis=0)
        return result
