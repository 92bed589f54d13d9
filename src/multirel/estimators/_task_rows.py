"""Labelled rows of several tasks, in the numbers that the methods work with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EncodedLabels", "Kind", "TaskRows"]

Kind = Literal["classification", "regression"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskRows:
    """Labelled rows: each is a row of `x`, its task, its label and what it counts.

    A row of `x` may occur several times, as with one column of labels per task.
    """

    x: Any
    """Features as they were given: an array, a CSR array, or images; never copied."""

    source: "NDArray[np.int64]"
    """The row of `x` that each row stands for."""

    task: "NDArray[np.int64]"
    """The number of each row's task."""

    y: "NDArray[np.float64]"
    """The label: a number, or the position of the class among `classes_of` its task."""

    weight: "NDArray[np.float64]"
    """What each row counts ω, before division by the sum N."""

    tasks: "NDArray[Any]"
    """The names of the tasks, with or without rows."""

    kinds: tuple[Kind, ...]
    """What is predicted in every task."""

    classes_of: tuple["NDArray[Any] | None", ...]
    """The classes of every task; None where numbers are predicted."""

    has_own_classes: bool = False
    """Whether the tasks have different classes."""

    objective_scale: float = 1.0
    """What the mean loss is multiplied by where a strength is not divided by N: T for equal tasks."""

    def __len__(self) -> int:
        """The number of labelled rows."""
        return len(self.task)

    @property
    def n_tasks(self) -> int:
        """The number of tasks T."""
        return len(self.tasks)

    @property
    def n_samples(self) -> float:
        """The sum of the weights N: a prior counts λ/N."""
        return float(self.weight.sum())

    @property
    def is_alike(self) -> bool:
        """Whether all tasks predict the same: one kind, and the same classes."""
        return len(set(self.kinds)) == 1 and not self.has_own_classes

    @property
    def counts(self) -> "NDArray[np.int64]":
        """How many labelled rows each task has."""
        return np.bincount(self.task, minlength=self.n_tasks)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedLabels:
    """Labels as numbers, and what is known about them; the fields are those of `TaskRows`."""

    y: "NDArray[np.float64]"
    weight: "NDArray[np.float64]"
    kinds: tuple[Kind, ...]
    classes_of: tuple["NDArray[Any] | None", ...]
    has_own_classes: bool = False
