"""Training rows: what a network sees, the task it belongs to, its label and its weight."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from multirel._annotations import Bool, Float, Int
from multirel.training._checksum import checksum_of
from multirel.training._labels import (
    check_tasks,
    check_weights,
    fill_missing,
    is_missing,
    row_is_missing,
    to_tensor,
)

__all__ = ["Batch", "DatasetRows", "Rows", "TrainingRows"]

N_PARTS_WITHOUT_WEIGHT = 3
"""Items of a dataset are (x, task, y), or (x, task, y, weight)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Some rows, as a network and its loss take them."""

    x: Tensor
    """What the network sees, one row per row."""

    task: Int[Tensor, "n"]
    """The index of each row's task, on the CPU."""

    y: Tensor
    """The labels, with one axis, or with one column per output."""

    weight: Float[Tensor, "n"]
    """How much each row counts, on the CPU."""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.task)

    def split(self, n_parts: int) -> list["Batch"]:
        """The batch in parts of nearly equal size."""
        if n_parts == 1:
            return [self]
        columns = (self.x, self.task, self.y, self.weight)
        parts = zip(*(column.tensor_split(n_parts) for column in columns), strict=True)
        return [Batch(x=x, task=task, y=y, weight=weight) for x, task, y, weight in parts]


class Rows(ABC):
    """Rows that training can draw batches from: `TrainingRows` and `DatasetRows`."""

    @property
    @abstractmethod
    def task(self) -> Int[Tensor, "n"]:
        """The index of each row's task, on the CPU."""

    @property
    @abstractmethod
    def n_tasks(self) -> int:
        """The number of tasks T, with or without rows."""

    @property
    @abstractmethod
    def n_samples(self) -> float:
        """The sum of the weights of the rows with a label: the N of a prior's λ/N."""

    @abstractmethod
    def take(self, index: Int[Tensor, "n"]) -> Batch:
        """The rows with these numbers."""

    @abstractmethod
    def select(self, index: Int[Tensor, "n"]) -> "Rows":
        """The rows with these numbers, as rows to draw from. Nothing is copied."""

    @abstractmethod
    def without_missing(self) -> "Rows":
        """The rows that have a label."""

    @abstractmethod
    def checksum(self) -> int:
        """A number that differs between rows of other tasks, labels or weights, as far as they are known."""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.task)

    @property
    def task_counts(self) -> Int[Tensor, "T"]:
        """How many rows each task has."""
        return torch.bincount(self.task, minlength=self.n_tasks)


@final
class TrainingRows(Rows):
    """Rows in memory, on any device.

    Args:
        x: Features, images or whatever the network takes, with one row per row.
        y: Labels: classes or numbers. NaN means that a row has no label.
        task: The index of each row's task.
        weight: How much each row counts; None means 1.
        n_tasks: The number of tasks; None means as many as there are in `task`.
        missing_label: A whole number that stands for no label. Without it, every whole number is a label.

    Raises:
        TypeError: If `task` holds anything but whole numbers, or something else holds no numbers.
        ValueError: If there are no rows, numbers of rows differ, or weights are negative or not finite.

    Example:
        >>> x, y = torch.randn(4, 3), torch.tensor([0.5, 1.0, float("nan"), 2.0])
        >>> rows = TrainingRows(x, y, torch.tensor([0, 0, 1, 2]), n_tasks=4)
        >>> len(rows), rows.n_samples, rows.without_missing().task_counts.tolist()
        (4, 3.0, [2, 0, 1, 0])
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        task: Any,
        *,
        weight: Any = None,
        n_tasks: int | None = None,
        missing_label: int | None = None,
    ) -> None:
        self._x = to_tensor("x", x)
        self._y = to_tensor("y", y)
        self._task, self._n_tasks = check_tasks(task, n_tasks)
        for name, column in (("x", self._x), ("y", self._y)):
            if column.ndim == 0 or len(column) != len(self._task):
                raise ValueError(
                    f"`{name}` must have one entry per row: expected {len(self._task)} as in `task`, got "
                    f"shape {tuple(column.shape)}."
                )
        self._weight = check_weights(weight, len(self._task))
        self._missing_label = missing_label
        self._is_missing = row_is_missing(self._y, missing_label).cpu()
        self._index: Tensor | None = None

    @property
    def task(self) -> Int[Tensor, "n"]:
        return self._task if self._index is None else self._task[self._index]

    @property
    def n_tasks(self) -> int:
        return self._n_tasks

    @property
    def weight(self) -> Float[Tensor, "n"]:
        """How much each row counts, on the CPU."""
        return self._weight if self._index is None else self._weight[self._index]

    @property
    def y(self) -> Tensor:
        """The labels."""
        return self._y if self._index is None else self._y[self._index.to(self._y.device)]

    @property
    def n_samples(self) -> float:
        return float(self.weight[~self._missing].sum())

    @property
    def has_label(self) -> Bool[Tensor, "n"]:
        """Whether each row has a label, on the CPU."""
        return ~self._missing

    @property
    def _missing(self) -> Tensor:
        return self._is_missing if self._index is None else self._is_missing[self._index]

    def take(self, index: Int[Tensor, "n"]) -> Batch:
        index = index if self._index is None else self._index[index]
        y, weight = self._y[index.to(self._y.device)], self._weight[index]
        if bool(self._is_missing[index].any()) or y.ndim > 1:
            y, weight = fill_missing(y, weight, self._missing_label)
        return Batch(
            x=self._x[index.to(self._x.device)], task=self._task[index], y=y, weight=weight
        )

    def select(self, index: Int[Tensor, "n"]) -> "TrainingRows":
        selected = object.__new__(TrainingRows)
        selected.__dict__ |= self.__dict__
        selected._index = index if self._index is None else self._index[index]
        return selected

    def without_missing(self) -> "TrainingRows":
        missing = self._missing
        return self.select((~missing).nonzero().squeeze(1)) if bool(missing.any()) else self

    def checksum(self) -> int:
        return checksum_of([self.task, self.weight, self.y])


@runtime_checkable
class MapStyle(Protocol):
    """A map-style dataset: `torch.utils.data.Dataset` with a length, a list, or alike."""

    def __len__(self) -> int:
        """The number of items."""

    def __getitem__(self, index: int, /) -> Any:
        """One item."""


@final
class DatasetRows(Rows):
    """Rows of a map-style dataset, whose items are (x, task, y) or (x, task, y, weight).

    Random augmentation in a dataset should draw from torch's generator, which training seeds, and then
    `n_workers` should be 0.

    Args:
        dataset: The dataset.
        task: The index of each item's task. None reads all items once to see; so do their labels and
            weights become known. With `task` given, nothing is read ahead: every item is expected to have a
            label and counts as one row in `n_samples`, though one that turns out to have none, or another
            weight, counts in training as it should.
        n_tasks: The number of tasks; None means as many as there are in `task`.
        missing_label: A whole number that stands for no label.
        n_workers: Threads that load the items of a batch side by side; 0 loads one after the other.

    Raises:
        TypeError: If items have another form, or `task` holds anything but whole numbers.
        ValueError: If there are no items, or `task` has another number of them.

    Example:
        >>> items = torch.utils.data.StackDataset(torch.randn(3, 2), torch.tensor([0, 1, 1]), torch.arange(3))
        >>> DatasetRows(items).take(torch.tensor([2, 0])).task
        tensor([1, 0])
    """

    def __init__(
        self,
        dataset: MapStyle,
        *,
        task: Any = None,
        n_tasks: int | None = None,
        missing_label: int | None = None,
        n_workers: int = 0,
    ) -> None:
        if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise TypeError(
                f"`dataset` must have a length and items by number: got {type(dataset).__name__}. Give the "
                f"dataset itself, not a loader or a generator."
            )
        self._dataset = dataset
        self._missing_label = missing_label
        if n_workers < 0:
            raise ValueError(f"`n_workers` must be at least 0: got {n_workers}.")
        self._pool = ThreadPoolExecutor(n_workers) if n_workers > 0 else None
        n_items = len(dataset)
        self._is_missing = torch.zeros(n_items, dtype=torch.bool)
        weight: Any = None
        if task is None:
            task, weight = self._read_ahead(n_items)
        self._task, self._n_tasks = check_tasks(task, n_tasks)
        if len(self._task) != n_items:
            raise ValueError(
                f"`task` must have one entry per item of `dataset`: expected {n_items}, got "
                f"{len(self._task)}."
            )
        self._weight = check_weights(weight, n_items)
        self._index: Tensor = torch.arange(n_items)

    def _read_ahead(self, n_items: int) -> tuple[list[Any], list[float]]:
        """The task and weight of every item; `_is_missing` takes note of labels."""
        tasks, weights = [], []
        for index in range(n_items):
            _, task, y, weight = self._item(index)
            tasks.append(to_tensor("task", task).tolist())
            weights.append(float(to_tensor("weight", weight)))
            self._is_missing[index] = is_missing(to_tensor("y", y), self._missing_label).all()
        return tasks, weights

    def _item(self, index: int) -> tuple[Any, Any, Any, Any]:
        item = self._dataset[index]
        if not isinstance(item, Sequence) or not 0 <= len(item) - N_PARTS_WITHOUT_WEIGHT <= 1:
            size = f" of {len(item)}" if isinstance(item, Sequence) else ""
            raise TypeError(
                f"`dataset` must have items (x, task, y) or (x, task, y, weight): got a "
                f"{type(item).__name__}{size} for item {index}."
            )
        x, task, y, *weight = item
        return x, task, y, weight[0] if weight else 1.0

    @property
    def task(self) -> Int[Tensor, "n"]:
        return self._task[self._index]

    @property
    def n_tasks(self) -> int:
        return self._n_tasks

    @property
    def n_samples(self) -> float:
        return float(self._weight[self._index][~self._is_missing[self._index]].sum())

    def take(self, index: Int[Tensor, "n"]) -> Batch:
        load = map if self._pool is None else self._pool.map
        items = list(load(self._item, self._index[index].tolist()))
        x, _, y, weight = zip(*items, strict=True)
        labels = _stack_items("y", y)
        labels, weights = fill_missing(
            labels, check_weights(weight, len(items)), self._missing_label
        )
        return Batch(
            x=_stack_items("x", x), task=self._task[self._index[index]], y=labels, weight=weights
        )

    def select(self, index: Int[Tensor, "n"]) -> "DatasetRows":
        selected = object.__new__(DatasetRows)
        selected.__dict__ |= self.__dict__
        selected._index = self._index[index]
        return selected

    def without_missing(self) -> "DatasetRows":
        return self.select((~self._is_missing[self._index]).nonzero().squeeze(1))

    def checksum(self) -> int:
        return checksum_of([self.task, self._weight[self._index]])


def _stack_items(name: str, values: Sequence[Any]) -> Tensor:
    """The values of all items of a batch in one tensor."""
    tensors = [to_tensor(name, value) for value in values]
    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) > 1:
        raise ValueError(
            f"`dataset` must give every item an `{name}` of one shape: got "
            f"{', '.join(map(str, sorted(shapes)))}. Resize or pad the items."
        )
    return torch.stack(tensors)
