"""The splits of a search, made from labelled rows alone."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from multirel.data import task_folds
from multirel.estimators._search_split import Group
from multirel.estimators._task_rows import TaskRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Split = tuple[NDArray[np.int64], NDArray[np.int64]]

__all__ = ["make_splits"]

LARGEST_SEED = 2**31 - 1


def make_splits(
    cv: Any, group: Group, *, n_repeats: int, random_state: Any
) -> "tuple[list[Split], dict[str, Any]]":
    """Splits of the rows of X that have labels, and how they were made.

    Args:
        cv: The number of folds, a splitter of scikit-learn, or pairs of rows that train and rows held out.
        group: Candidates, with their labelled rows.
        n_repeats: How often the rows are divided anew, where `cv` is a number.
        random_state: Seed of what is drawn, where `cv` is a number; None draws the same every time.

    Raises:
        ValueError: If there is no split, or one has no labelled row on a side.
    """
    rows = group.rows
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        # Without a seed the division is the same every time, as that of `cv=5` in scikit-learn.
        given = 0 if random_state is None else random_state
        seed = int(check_random_state(given).randint(LARGEST_SEED))
        folds = task_folds(
            _names(rows.tasks)[rows.task],
            _labels(rows),
            n_folds=int(cv),
            n_repeats=n_repeats,
            seed=seed,
            rows=group.place,
        )
        told = {"protocol": folds.protocol, "reason": folds.reason, "n_folds": int(cv)}
        return list(folds.splits), {
            **told,
            "n_repeats": n_repeats,
            "n_splits": len(folds),
            "seed": seed,
        }
    splits = _given(cv, group)
    _check(splits, group)
    return splits, {"protocol": "given", "reason": None, "n_splits": len(splits)}


def _names(tasks: "NDArray[Any]") -> "NDArray[Any]":
    """Names as objects, which keep their types in a message."""
    names = np.empty(len(tasks), dtype=object)
    names[:] = tasks.tolist()
    return names


def _labels(rows: TaskRows) -> "NDArray[Any] | None":
    """The class of every row, None where numbers are predicted; None where they are everywhere."""
    if all(classes is None for classes in rows.classes_of):
        return None
    labels = np.empty(len(rows), dtype=object)
    for number, classes in enumerate(rows.classes_of):
        mine = np.flatnonzero(rows.task == number)
        if classes is not None:
            labels[mine] = _names(classes)[rows.y[mine].astype(np.int64)]
    return labels


def _given(cv: Any, group: Group) -> "list[Split]":
    rows = group.rows
    if hasattr(cv, "split") and not isinstance(cv, str):
        # Splitters see the labelled rows only; where a row has several labels, they see no labels.
        different, first = np.unique(group.place, return_index=True)
        is_simple = len(different) == len(rows)
        labels = _labels(rows)
        y = rows.y if labels is None else labels.astype(str)
        pairs = cv.split(np.zeros((len(different), 1)), y[first] if is_simple else None)
        return [(different[train], different[test]) for train, test in pairs]
    if isinstance(cv, str) or not isinstance(cv, Iterable):
        raise ValueError(
            f"`cv` must be a number of folds, a splitter, or pairs of rows that train and rows held out: "
            f"got {cv!r}."
        )
    return [(_numbers(train), _numbers(test)) for train, test in cv]


def _numbers(index: Any) -> "NDArray[np.int64]":
    array = np.asarray(index)
    return np.flatnonzero(array) if array.dtype == bool else array.astype(np.int64)


def _check(splits: "list[Split]", group: Group) -> None:
    n_rows = group.n_rows
    if not splits:
        raise ValueError("`cv` must make at least one split: got none.")
    for train, test in splits:
        for index, name in ((train, "trains"), (test, "is held out")):
            if len(index) > 0 and not (-n_rows <= index.min() and index.max() < n_rows):
                raise ValueError(
                    f"`cv` must name rows of X: expected numbers below {n_rows}, got {index.max()}."
                )
            if not np.isin(group.place, index % n_rows).any():
                raise ValueError(
                    f"`cv` must make splits in which a labelled row {name}: got one without."
                )
