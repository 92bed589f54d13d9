"""The rows of a mixed-task batch, grouped by task, without a copy of any row.

One sort gives the order of the rows; a product then takes them block by block, where a block is one
task, or several tasks with nearly the same number of rows. Blocks pad the shorter tasks, by a quarter
of their rows at most unless the caller allows more, also where one task has most of the batch.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from multirel._annotations import Int

__all__ = ["Block", "RowsByTask", "as_rows_by_task", "group_rows"]

MAX_PADDED_SHARE = 1.25
"""Rows of a block, padding included, over rows that it has."""

LEADING_BITS = 3
"""Bits that the sizes of groups in one block share: seven and eight eighths of a power of two differ,
and what is rounded up to such sizes grows by less than a quarter."""

INDEX_DTYPES = (torch.int64, torch.int32, torch.int16)


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Some tasks, each with the same number of rows: a batched product."""

    tasks: slice | Tensor
    """The tasks, by range where they are neighbors."""

    rows: slice | Tensor
    """The rows of these tasks, task after task; shorter tasks repeat their last row."""

    targets: slice | Tensor
    """Where results go: `rows`, with the number of rows of the batch in place of repetitions."""

    n_tasks: int

    rows_per_task: int

    is_padding: Tensor | None
    """Which of `rows` are repetitions; None if there are none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsByTask:
    """The rows of a batch in the order of their tasks, made once and used by every layer.

    `group_rows` makes one from the task of each row.
    """

    n_rows: int
    """Rows of the batch."""

    n_tasks: int
    """Tasks that there are, with or without rows in this batch."""

    order: Tensor | None
    """Row numbers, sorted by task; None if the rows come in the order of their tasks."""

    tasks: np.ndarray
    """The tasks that have rows in this batch, ascending."""

    starts: np.ndarray
    """Where the rows of each of `tasks` start in `order`."""

    counts: np.ndarray
    """How many rows each of `tasks` has."""

    _blocks: dict[tuple[torch.device, int, float], tuple[Block, ...]] = field(
        default_factory=dict, repr=False
    )
    """Blocks that were asked for: the products of a backward pass take those of the forward pass."""

    def to(self, device: torch.device) -> "RowsByTask":
        """The same rows for tensors on `device`."""
        if self.order is None or self.order.device == device:
            return self
        return replace(self, order=self.order.to(device, non_blocking=True))

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """The rows of every task that has some."""
        ordered = x if self.order is None else x.index_select(0, self.order)
        parts: tuple[Tensor, ...] = ordered.split(self.counts.tolist())
        return parts

    def join(self, parts: Iterable[Tensor]) -> Tensor:
        """The rows of every task that has some, put back where they were in the batch.

        Parts that an iterator makes are held no longer than it takes to put them side by side.
        """
        if len(self.counts) == 1:
            return next(iter(parts))
        ordered = torch.cat(list(parts))
        if self.order is None:
            return ordered
        positions = torch.arange(self.n_rows, device=self.order.device)
        return ordered.index_select(
            0, torch.empty_like(positions).scatter_(0, self.order, positions)
        )

    def blocks(
        self, device: torch.device, *, max_copied: int, max_padded: float = MAX_PADDED_SHARE
    ) -> tuple[Block, ...]:
        """Blocks that together hold every row once.

        Args:
            device: Where indices are put.
            max_copied: Tasks that are not neighbors come in blocks of at most this many, since their
                weights have to be copied together.
            max_padded: All tasks come in one block if that takes at most this many times their rows.
        """
        key = (device, max_copied, max_padded)
        if key not in self._blocks:
            parts = []
            for members in _alike(self.counts, max_padded):
                step = len(members) if _are_neighbors(self.tasks[members]) else max(1, max_copied)
                parts += [members[at : at + step] for at in range(0, len(members), step)]
            self._blocks[key] = tuple(self._block(members, device) for members in parts)
        return self._blocks[key]

    def _rows(self, positions: slice | Tensor) -> slice | Tensor:
        return positions if self.order is None else self.order[positions]

    def _targets(self, rows: slice | Tensor, is_padding: Tensor | None) -> slice | Tensor:
        if isinstance(rows, slice) or is_padding is None:
            return rows
        return rows.masked_fill(is_padding, self.n_rows)

    def _block(self, members: np.ndarray, device: torch.device) -> Block:
        """The block of the tasks at `members` of `tasks`."""
        tasks, starts, counts = self.tasks[members], self.starts[members], self.counts[members]
        n_rows, size = int(counts.sum()), int(counts.max())
        has_padding = len(tasks) * size > n_rows
        is_padding = None
        positions: slice | Tensor
        if not has_padding and int(starts[-1]) + size - int(starts[0]) == n_rows:
            positions = slice(int(starts[0]), int(starts[0]) + n_rows)
        else:
            offsets = np.arange(size)
            in_task = np.minimum(offsets, counts[:, None] - 1)
            positions = _on(device, (starts[:, None] + in_task).ravel())
            if has_padding:
                is_padding = _on(device, (offsets >= counts[:, None]).ravel())
        rows = self._rows(positions)
        is_range = _are_neighbors(tasks)
        return Block(
            tasks=slice(int(tasks[0]), int(tasks[-1]) + 1) if is_range else _on(device, tasks),
            rows=rows,
            targets=self._targets(rows, is_padding),
            n_tasks=len(tasks),
            rows_per_task=size,
            is_padding=is_padding,
        )


def _on(device: torch.device, values: np.ndarray) -> Tensor:
    return torch.from_numpy(values).to(device, non_blocking=True)


def _are_neighbors(tasks: np.ndarray) -> bool:
    return int(tasks[-1] - tasks[0]) + 1 == len(tasks)


def _alike(counts: np.ndarray, max_padded: float) -> Iterator[np.ndarray]:
    """Yield positions in `counts` whose counts are so near that padding all to the largest is cheap."""
    if not len(counts):
        return
    if len(counts) * counts.max() <= max_padded * counts.sum():
        yield np.arange(len(counts))
        return
    exponents = np.maximum(np.frexp(counts)[1] - LEADING_BITS, 0)
    sizes = -(-counts >> exponents) << exponents
    for size in np.unique(sizes):
        yield np.flatnonzero(sizes == size)


def group_rows(task: Int[Tensor, "n"], n_tasks: int) -> RowsByTask:
    """Group the rows of a batch by task, for layers that take a task per row.

    Every `TaskLinear` and `TaskConv2d` groups the rows of its batch by itself. A network with several
    of them does it once with this function and passes the result on in place of `task`. Where `task`
    is on the CPU, nothing waits for another device.

    Args:
        task: The index of each row's task.
        n_tasks: How many tasks there are.

    Raises:
        TypeError: If `task` is no tensor of whole numbers.
        ValueError: If `task` has more than one axis, or holds no index of a task.

    Example:
        >>> rows = group_rows(torch.tensor([2, 0, 2]), n_tasks=4)
        >>> rows.tasks, rows.counts, rows.order
        (array([0, 2]), array([1, 2]), tensor([1, 0, 2]))
    """
    _check_task(task)
    ordered, order = task.long().sort(stable=True)
    edges = torch.arange(n_tasks + 1, device=task.device)
    # Everything that has to be known here comes over in one piece, so that a GPU is waited for once.
    is_sorted = (task[1:] >= task[:-1]).all().long().reshape(1)
    known = torch.cat([torch.searchsorted(ordered, edges), is_sorted]).cpu().numpy()
    boundaries = known[:-1]
    if boundaries[0] > 0 or boundaries[-1] < len(task):
        row = int(order[0] if boundaries[0] > 0 else order[-1])
        raise ValueError(
            f"`task` must hold indices of the {n_tasks} tasks: expected 0 to {n_tasks - 1}, "
            f"got {int(task[row])} in row {row}."
        )
    counts = np.diff(boundaries)
    tasks = np.flatnonzero(counts)
    return RowsByTask(
        n_rows=len(task),
        n_tasks=n_tasks,
        order=None if known[-1] else order,
        tasks=tasks,
        starts=boundaries[tasks],
        counts=counts[tasks],
    )


def _check_task(task: Tensor) -> None:
    if not isinstance(task, Tensor):
        raise TypeError(
            f"`task` must be a tensor with the task of each row, or the index of one task: "
            f"got {type(task).__name__}. Use `torch.as_tensor(...)`."
        )
    if task.dtype not in INDEX_DTYPES:
        raise TypeError(
            f"`task` must hold whole numbers: expected torch.int64, got {task.dtype}. "
            f"Use `task.long()`."
        )
    if task.ndim != 1:
        raise ValueError(
            f"`task` must have one entry per row: expected one axis, got shape {tuple(task.shape)}."
        )


def as_rows_by_task(
    task: "Tensor | int | RowsByTask", *, n_rows: int, n_tasks: int, device: torch.device
) -> RowsByTask:
    """The rows of a batch with `n_rows` rows grouped by task, whatever form `task` has.

    Raises:
        TypeError: If `task` is neither a tensor of whole numbers nor an integer.
        ValueError: If `task` is no index of a task, or has another number of rows.
    """
    if isinstance(task, int) and not isinstance(task, bool):
        task = _rows_of_one_task(task, n_rows=n_rows, n_tasks=n_tasks)
    rows = task if isinstance(task, RowsByTask) else group_rows(cast(Tensor, task), n_tasks)
    if rows.n_rows != n_rows:
        raise ValueError(
            f"`task` must have one entry per row of `x`: expected {n_rows}, got {rows.n_rows}."
        )
    if rows.n_tasks != n_tasks:
        raise ValueError(
            f"`task` must be grouped for as many tasks as the layer has: expected {n_tasks}, "
            f"got {rows.n_tasks}."
        )
    return rows.to(device)


def _rows_of_one_task(task: int, *, n_rows: int, n_tasks: int) -> RowsByTask:
    if not 0 <= task < n_tasks:
        raise ValueError(
            f"`task` must be the index of one of the {n_tasks} tasks: expected 0 to {n_tasks - 1}, "
            f"got {task}."
        )
    n_groups = min(n_rows, 1)
    return RowsByTask(
        n_rows=n_rows,
        n_tasks=n_tasks,
        order=None,
        tasks=np.full(n_groups, task),
        starts=np.zeros(n_groups, dtype=np.int64),
        counts=np.full(n_groups, n_rows),
    )
