"""Features of several tasks, sorted by task, in the coordinates where problems are solved."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse

from multirel.estimators._linear._row_blocks import PaddedBlock, chunks, padded_blocks
from multirel.estimators._linear._row_groups import RowGroups

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Design"]

MOST_PADDED_ENTRIES = 2**24
"""Small tasks are copied side by side, so that one product serves many, up to that many numbers."""

MOST_CONVERTED_ENTRIES = 2**22
"""Rows of single precision up to that many numbers are converted once, and not with every product."""

CHUNK_ENTRIES = 2**20
"""Numbers that are converted at a time where rows stay in single precision."""

LARGEST_INDEX = np.iinfo(np.int32).max


@final
class Design:
    """Rows of all tasks, sorted by task, and the products that solvers need.

    Rows in single precision stay so; products are computed in double precision, by chunks.

    Args:
        x: Features, "n r": an array of floats, or a CSR array.
        starts: Where the rows of every task start, and after them the number of rows: T + 1 numbers.
    """

    def __init__(self, x: Any, starts: "NDArray[np.int64]") -> None:
        if not sparse.issparse(x) and x.size <= MOST_CONVERTED_ENTRIES:
            x = np.asarray(x, dtype=np.float64)
        self.x = x
        self.starts = starts
        self.groups = RowGroups(starts)
        self.task = self.groups.of_row
        self._known_products: dict[tuple[int, int], NDArray[np.float64]] = {}
        self.known_grams: dict[tuple[bytes, bytes], NDArray[np.float64]] = {}

    @property
    def n_tasks(self) -> int:
        """The number of tasks T."""
        return len(self.starts) - 1

    @property
    def n_rows(self) -> int:
        """The number of rows n."""
        return int(self.x.shape[0])

    @property
    def n_coordinates(self) -> int:
        """The number of coordinates r."""
        return int(self.x.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return bool(sparse.issparse(self.x))

    @property
    def counts(self) -> "NDArray[np.int64]":
        """The number of rows of every task, "T"."""
        return self.groups.counts

    def products(self, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """W_t x of every row, "n C", for weights "T C r"."""
        n_outputs = weights.shape[1]
        if self.is_sparse:
            flat = weights.transpose(0, 2, 1).reshape(-1, n_outputs)
            return np.asarray(self._by_task @ flat)
        if self.n_tasks == 1:
            return self._times(slice(0, self.n_rows), weights[0].T)
        result = np.empty((self.n_rows, n_outputs))
        for block in self._small:
            block.write(result, block.x @ weights[block.tasks].transpose(0, 2, 1))
        for task in self._large:
            rows = self._rows(task)
            result[rows] = self._times(rows, weights[task].T)
        return result

    def pull_back(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Σ over the rows of each task of values times features: "T C r" for values "n C"."""
        n_outputs = values.shape[1]
        if self.is_sparse:
            flat = np.asarray(self._by_task_transposed @ values)
            return np.ascontiguousarray(
                flat.reshape(self.n_tasks, self.n_coordinates, n_outputs).transpose(0, 2, 1)
            )
        result = np.zeros((self.n_tasks, n_outputs, self.n_coordinates))
        for block in self._small:
            result[block.tasks] = block.read(values).transpose(0, 2, 1) @ block.x
        for task in self._large:
            for rows in chunks(self._rows(task), self._chunk):
                result[task] += values[rows].T @ self._doubles(rows)
        return result

    def grams(self, factors: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Σ over the rows of each task of factor · x xᵀ: "T r r".

        Args:
            factors: "n", not negative.
        """
        size = self.n_coordinates
        result = np.zeros((self.n_tasks, size, size))
        for block in self._small:
            weighted = block.x * block.read(factors[:, None])
            result[block.tasks] = weighted.transpose(0, 2, 1) @ block.x
        root = np.sqrt(factors)[:, None]
        for task in self._large:
            for rows in chunks(self._rows(task), self._chunk):
                if self.is_sparse:
                    part = self.x[rows]
                    weighted = sparse.diags_array(factors[rows]) @ part
                    result[task] += (weighted.T @ part).toarray()
                else:
                    # A matrix times its own transpose costs half of another product.
                    part = self._doubles(rows) * root[rows]
                    result[task] += part.T @ part
        return result

    def row_products(self, rows: slice) -> "NDArray[np.float64]":
        """x xᵀ of some rows; it is kept, since logistic losses need it several times."""
        key = (rows.start, rows.stop)
        if key not in self._known_products:
            part = self._doubles(rows)
            products = part @ part.T
            self._known_products[key] = np.asarray(
                products.toarray() if self.is_sparse else products
            )
        return self._known_products[key]

    @cached_property
    def with_one_task(self) -> "Design":
        """The same rows as those of one task."""
        return Design(self.x, np.array([0, self.n_rows]))

    def of_tasks(self, tasks: "NDArray[np.int64]") -> "Design":
        """The rows of some tasks, numbered anew."""
        starts = np.concatenate([[0], np.cumsum(self.counts[tasks])])
        return Design(self.x[self.rows_of(tasks)], starts)

    def rows_of(self, tasks: "NDArray[np.int64]") -> "NDArray[np.int64]":
        """The positions of the rows of some tasks, in the order of these tasks."""
        pieces = [np.arange(self.starts[t], self.starts[t + 1]) for t in tasks.tolist()]
        return np.concatenate([np.empty(0, dtype=np.int64), *pieces])

    def sums(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Σ over the rows of each task: "T C" for values "n C"."""
        return self.groups.sums(values)

    def _rows(self, task: int) -> slice:
        return slice(int(self.starts[task]), int(self.starts[task + 1]))

    def _doubles(self, rows: slice) -> Any:
        part = self.x[rows]
        return part if part.dtype == np.float64 else part.astype(np.float64)

    def _times(self, rows: slice, matrix: "NDArray[np.float64]") -> "NDArray[np.float64]":
        if self.x.dtype == np.float64:
            return np.asarray(self.x[rows] @ matrix)
        parts = [self._doubles(part) @ matrix for part in chunks(rows, self._chunk)]
        return np.concatenate(parts) if parts else np.empty((0, matrix.shape[1]))

    @property
    def _chunk(self) -> int:
        """How many rows are converted to double precision at a time."""
        n_entries = min(CHUNK_ENTRIES, MOST_CONVERTED_ENTRIES)
        return max(1, n_entries // max(1, self.n_coordinates))

    @cached_property
    def _small(self) -> list[PaddedBlock]:
        """Tasks that share a product with others."""
        if self.is_sparse or self.n_tasks == 1:
            return []
        return padded_blocks(self.x, self.starts, most_entries=MOST_PADDED_ENTRIES)

    @cached_property
    def _large(self) -> list[int]:
        """Tasks with rows that have a product of their own."""
        small = {task for block in self._small for task in block.tasks.tolist()}
        return [t for t, n in enumerate(self.counts.tolist()) if n > 0 and t not in small]

    @cached_property
    def _by_task(self) -> Any:
        """The rows as a CSR array of T · r columns, with the features of task t in block t."""
        if self.n_tasks == 1:
            return self.x
        n_columns = self.n_tasks * self.n_coordinates
        kind = np.int32 if max(n_columns, self.x.nnz) <= LARGEST_INDEX else np.int64
        offset = np.repeat(self.task, np.diff(self.x.indptr)) * self.n_coordinates
        columns = (self.x.indices + offset).astype(kind)
        parts = (self.x.data, columns, self.x.indptr.astype(kind))
        return sparse.csr_array(parts, shape=(self.n_rows, n_columns))

    @cached_property
    def _by_task_transposed(self) -> Any:
        return self._by_task.T
