"""Labels: which are missing, what the classes are, and whether every task has its own."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils import column_or_1d

from multirel.estimators._columns import has_columns, is_missing, objects, to_labels
from multirel.estimators._task_labels import sorted_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ClassSets",
    "are_different",
    "check_classes",
    "class_sets",
    "classes_by_task",
    "is_wide",
    "labels_of",
    "positions_in",
    "task_names_of_columns",
]

ClassSets = Literal["shared", "per-task"] | None

FEWEST_CLASSES = 2


def is_wide(y: Any) -> bool:
    """Whether y has a column per task."""
    shape = getattr(y, "shape", None) or np.shape(y)
    return len(shape) == 2 and shape[1] > 1  # noqa: PLR2004


def task_names_of_columns(y: Any) -> "NDArray[Any]":
    """The names of the columns of wide labels, or their numbers.

    Raises:
        ValueError: If two columns have one name.
    """
    if not has_columns(y):
        return np.arange(np.shape(y)[1])
    names = list(y.columns)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(
            f"`y` must name each of its columns differently, since they name the tasks: got {twice[0]!r} "
            f"{names.count(twice[0])} times."
        )
    return np.array(names) if len({type(name) for name in names}) == 1 else objects(names)


def labels_of(y: Any, *, missing_label: Any = None) -> "tuple[NDArray[Any], NDArray[np.bool_]]":
    """Labels as an array of one or two axes, and where there is one.

    Args:
        y: What the user gave.
        missing_label: A label that stands for no label, beside NaN and None.

    Raises:
        ValueError: If y is sparse, or has another number of axes.
    """
    if sparse.issparse(y):
        raise ValueError(f"`y` must be dense: got a sparse {type(y).__name__}. Use `y.toarray()`.")
    array = to_labels(y)
    if not is_wide(array):
        array = column_or_1d(array, warn=True)
    missing = is_missing(array)
    if missing_label is not None:
        same = [bool(label == missing_label) for label in array.ravel().tolist()]
        missing = missing | np.array(same, dtype=bool).reshape(array.shape)
    return array, ~missing


def check_classes(labels: "NDArray[Any]") -> None:
    """Refuse labels that are numbers on a scale rather than classes.

    Raises:
        ValueError: If a label has a fraction, is infinite or complex, or may change.
    """
    if labels.dtype.kind == "f":
        # Nothing else is as equal to its whole part.
        is_class = np.isfinite(labels) & (labels == np.trunc(labels))
    elif labels.dtype == object:
        is_class = np.array([_may_be_class(label) for label in labels.tolist()], dtype=bool)
    else:
        is_class = np.full(len(labels), labels.dtype.kind != "c")
    if not is_class.all():
        wrong = labels[~is_class][0]
        infinite = " Input y contains infinity." if wrong in (np.inf, -np.inf) else ""
        raise ValueError(
            f"`y` must hold classes, such as text or whole numbers: got {wrong!r}. Unknown label type: "
            f"use a regressor for numbers on a scale.{infinite}"
        )


def _may_be_class(label: Any) -> bool:
    if isinstance(label, float | np.floating):
        return bool(np.isfinite(label)) and label == int(label)
    try:
        hash(label)
    except TypeError:
        return False
    return not isinstance(label, complex | np.complexfloating)


def classes_by_task(
    y: "NDArray[Any]", task: "NDArray[np.int64]", n_tasks: int
) -> "list[NDArray[Any]]":
    """The classes that occur in every task.

    Args:
        y: Labels of the labelled rows.
        task: The number of each row's task.
        n_tasks: The number of tasks.
    """
    order = np.argsort(task, kind="stable")
    ends = np.cumsum(np.bincount(task, minlength=n_tasks))
    return [sorted_values(labels) for labels in np.split(y[order], ends[:-1])]


def class_sets(
    found: "list[NDArray[Any]]", *, classes: ClassSets
) -> "tuple[list[NDArray[Any]], bool]":
    """The classes of every task, and whether they are its own.

    They are guessed to be a task's own only where no two tasks have a class in common and each that has
    labels has two or more.

    Args:
        found: The classes that occur in every task.
        classes: "shared", "per-task", or None to guess.

    Raises:
        ValueError: If `classes` is something else.
    """
    if classes not in (None, "shared", "per-task"):
        raise ValueError(f"`classes` must be one of None, 'shared', 'per-task': got {classes!r}.")
    if len(found) > 1 and (classes == "per-task" or (classes is None and _are_disjoint(found))):
        return found, True
    return [sorted_values(np.concatenate(found))] * len(found), False


def are_different(found: "list[NDArray[Any]]") -> bool:
    """Whether some tasks with labels have other classes than others."""
    return len({frozenset(labels.tolist()) for labels in found if len(labels) > 0}) > 1


def _are_disjoint(found: "list[NDArray[Any]]") -> bool:
    sizes = [len(labels) for labels in found if len(labels) > 0]
    if len(sizes) < FEWEST_CLASSES or min(sizes) < FEWEST_CLASSES:
        return False
    return len(set().union(*[labels.tolist() for labels in found])) == sum(sizes)


def positions_in(classes: "NDArray[Any]", y: "NDArray[Any]") -> "NDArray[np.float64]":
    """The position of every label among the classes."""
    if classes.dtype != object and y.dtype != object:
        return np.searchsorted(classes, y).astype(np.float64)
    position = {label: index for index, label in enumerate(classes.tolist())}
    return np.array([position[label] for label in y.tolist()], dtype=np.float64)
