"""The task of every row, as a number."""

from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._columns import is_missing, objects, to_labels, without_objects

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HOW_TO_ROUTE", "ONE_TASK", "number_tasks", "read_tasks", "shown_names", "sorted_values"]

ONE_TASK = "all"
"""The name of the task where `tasks` is None."""

HOW_TO_ROUTE = (
    "In a pipeline, a search or cross-validation call `sklearn.set_config(enable_metadata_routing=True)` "
    "and pass `tasks` to its `fit`, or to `params`, and leave `scoring` out; or keep the tasks in a column "
    "of X and name it as `task_column`."
)
MOST_NAMES = 10


def sorted_values(values: "NDArray[Any]") -> "NDArray[Any]":
    """The different values in order; by their text where they cannot be compared."""
    try:
        return np.unique(values)
    except TypeError:
        different = {(type(v).__name__, v): v for v in values.tolist()}.values()
        return objects(sorted(different, key=lambda v: (str(v), type(v).__name__)))


def read_tasks(tasks: Any, *, n_rows: int) -> "NDArray[Any]":
    """The name of each row's task.

    Raises:
        ValueError: If there is another number of rows, or a row has no task.
        TypeError: If a name may change, as lists do.
    """
    if isinstance(tasks, list | tuple) and any(isinstance(name, tuple) for name in tasks):
        names = objects(tasks)
    else:
        names = to_labels(tasks)
    if names.ndim == 2 and names.shape[1] == 1:  # noqa: PLR2004
        names = names[:, 0]
    if names.shape != (n_rows,):
        raise ValueError(
            f"`tasks` must name the task of every row: expected shape ({n_rows},), got {names.shape}."
        )
    missing = is_missing(names)
    if missing.any():
        raise ValueError(
            f"`tasks` must name the task of every row: got {int(missing.sum())} rows without one, the first "
            f"is row {int(missing.argmax())}."
        )
    _check_hashable(names)
    return without_objects(names)


def number_tasks(names: "NDArray[Any]", known: "NDArray[Any]") -> "NDArray[np.int64]":
    """The position of every name among the known tasks.

    Raises:
        ValueError: If a name is not among them.
    """
    if names.dtype.kind == "M" == known.dtype.kind:
        # Times are told apart in the unit in which they were fitted.
        names = names.astype(known.dtype)
    position = {name: index for index, name in enumerate(known.tolist())}
    different, inverse = _unique_with_inverse(names)
    strangers = [name for name in different if name not in position]
    if strangers:
        raise ValueError(
            f"`tasks` must be among those of `fit`: expected {shown_names(known)}, got {strangers[0]!r}. "
            f"A new task is learned from its labels by `add_task`."
        )
    return np.array([position[name] for name in different], dtype=np.int64)[inverse]


def shown_names(known: "NDArray[Any]") -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(map(repr, known.tolist()[:MOST_NAMES]))
    return f"{shown} and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else shown


def _unique_with_inverse(names: "NDArray[Any]") -> "tuple[list[Any], NDArray[np.int64]]":
    position: dict[Any, int] = {}
    if names.dtype != object:
        different, inverse = np.unique(names, return_inverse=True)
        return different.tolist(), inverse.astype(np.int64)
    inverse = np.array([position.setdefault(name, len(position)) for name in names.tolist()])
    return list(position), inverse.astype(np.int64)


def _check_hashable(names: "NDArray[Any]") -> None:
    if names.dtype == object:
        for name in names.tolist():
            try:
                hash(name)
            except TypeError:
                raise TypeError(
                    f"`tasks` must hold names that do not change, such as text, numbers or tuples: got "
                    f"{name!r}, a {type(name).__name__}."
                ) from None
