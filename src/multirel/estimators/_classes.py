"""The classes of every task, and labels as their positions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._class_weights import ClassWeight, check_class_weight, class_factors
from multirel.estimators._columns import without_objects
from multirel.estimators._numbers import as_numbers
from multirel.estimators._targets import (
    ClassSets,
    are_different,
    check_classes,
    class_sets,
    classes_by_task,
    positions_in,
)
from multirel.estimators._task_labels import shown_names
from multirel.estimators._task_rows import EncodedLabels, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Classes", "find_classes", "kinds_of_tasks"]

FEWEST_CLASSES = 2
CLASSIFICATION: Kind = "classification"


@dataclass(frozen=True, kw_only=True, eq=False)
class Classes:
    """What the classes are, and which tasks predict numbers instead."""

    of_tasks: "tuple[NDArray[Any] | None, ...]"
    """The classes of every task; None where numbers are predicted."""

    are_own: bool
    """Whether every task has its own classes."""

    are_mixed: bool
    """Whether classes are shared although tasks differ in those that occur."""

    kinds: tuple[Kind, ...]
    """What is predicted in every task."""

    known: list[Any]
    """The classes of all tasks, each once."""

    @property
    def n_largest(self) -> int:
        """The number of classes of the task with most."""
        return max(0 if found is None else len(found) for found in self.of_tasks)

    def as_attribute(self) -> Any:
        """The classes as users see them: an array, or a list with those of every task."""
        if self.are_own:
            return list(self.of_tasks)
        return next((found for found in self.of_tasks if found is not None), np.empty(0))

    def encode(
        self,
        labels: "NDArray[Any]",
        task: "NDArray[np.int64]",
        *,
        weight: "NDArray[np.float64]",
        class_weight: ClassWeight,
    ) -> EncodedLabels:
        """Labels as numbers, with the weights of their classes in those of the rows.

        Args:
            labels: The label of every row.
            task: The number of each row's task.
            weight: What the rows count without their classes.
            class_weight: What rows of every class count.

        Raises:
            ValueError: If `class_weight` does not fit, or a label of a task that predicts numbers is none.
        """
        check_class_weight(class_weight, self.known)
        is_class = np.array([found is not None for found in self.of_tasks])[task]
        y, factors = np.empty(len(labels)), np.ones(len(labels))
        y[~is_class] = as_numbers(labels[~is_class])
        for mine, found in self._groups(task, is_class):
            y[mine] = positions_in(found, labels[mine])
            factors[mine] = class_factors(class_weight, found, y[mine], weight=weight[mine])
        return EncodedLabels(
            y=y,
            weight=weight * factors,
            kinds=self.kinds,
            classes_of=self.of_tasks,
            has_own_classes=self.are_own,
        )

    def _groups(
        self, task: "NDArray[np.int64]", is_class: "NDArray[np.bool_]"
    ) -> "list[tuple[NDArray[np.bool_], NDArray[Any]]]":
        """Rows with the same classes, and these."""
        if not self.are_own:
            return [(is_class, self.as_attribute())]
        groups = enumerate(self.of_tasks)
        return [(task == number, found) for number, found in groups if found is not None]


def find_classes(
    labels: "NDArray[Any]",
    task: "NDArray[np.int64]",
    *,
    kinds: tuple[Kind, ...],
    classes: ClassSets,
) -> Classes:
    """The classes of every task, by the labels that occur.

    Args:
        labels: The label of every row.
        task: The number of each row's task.
        kinds: What is predicted in every task.
        classes: The setting: "shared", "per-task", or None to guess.

    Raises:
        ValueError: If labels are no classes, or there is one class only.
    """
    is_class = np.array([kind == CLASSIFICATION for kind in kinds])
    mine = is_class[task]
    labels = without_objects(labels[mine])
    check_classes(labels)
    found = classes_by_task(labels, task[mine], len(kinds))
    sets, are_own = class_sets(found, classes=classes)
    known = list(dict.fromkeys(label for each in sets for label in each.tolist()))
    if is_class.any() and len(known) < FEWEST_CLASSES:
        raise ValueError(
            f"`y` must hold at least two classes: got one class, {next(iter(known), None)!r}."
        )
    return Classes(
        of_tasks=tuple(each if is_c else None for each, is_c in zip(sets, is_class, strict=True)),
        are_own=are_own,
        are_mixed=not are_own and are_different(found),
        kinds=kinds,
        known=known,
    )


def kinds_of_tasks(given: Mapping[Any, Kind] | None, tasks: "NDArray[Any]") -> tuple[Kind, ...]:
    """The kind of every task; those that `kinds` leaves out are of classification.

    Args:
        given: The setting.
        tasks: The names of the tasks.

    Raises:
        ValueError: If there is no such task or no such kind.
    """
    names = tasks.tolist()
    if given is None:
        return (CLASSIFICATION,) * len(names)
    known = set(names)
    for name, kind in given.items():
        if name not in known:
            raise ValueError(
                f"`kinds` must name tasks: expected some of {shown_names(tasks)}, got {name!r}."
            )
        if kind not in ("classification", "regression"):
            raise ValueError(
                f"`kinds` must say 'classification' or 'regression': got {kind!r} for task {name!r}."
            )
    return tuple(given.get(name, CLASSIFICATION) for name in names)
