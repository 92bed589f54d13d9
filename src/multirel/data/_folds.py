"""Splits of the rows of several tasks into those that train and those that are held out."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["TaskFolds", "task_folds"]

FEWEST_FOLDS = 2


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TaskFolds:
    """Splits of rows, and the rule that they were made by."""

    splits: "tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]"
    """The numbers of the rows that train and of those that are held out, in order, for every split."""

    protocol: Literal["kfold", "hold-out"]
    """ "kfold": every row is held out once per repeat; "hold-out": every split is drawn on its own."""

    reason: str | None
    """Why there are no folds, where the protocol is "hold-out"."""

    def __len__(self) -> int:
        """The number of splits."""
        return len(self.splits)


def task_folds(
    tasks: "ArrayLike",
    labels: "ArrayLike | None" = None,
    *,
    n_folds: int = 5,
    n_repeats: int = 1,
    seed: int = 0,
    rows: "ArrayLike | None" = None,
) -> TaskFolds:
    """Splits for cross-validation in which every task, and every class of it, has its share.

    Where a class of a task (or a task, without `labels`) has fewer rows than there are folds, folds are
    impossible. Then there are as many splits, each drawn on its own: about one row in `n_folds` of every
    class of every task is held out, and at least one trains. A task all of whose classes have a single row
    gives up one row whose class other tasks have.

    Args:
        tasks: The task of every labelled row, of any type.
        labels: The class of every labelled row; None where numbers are predicted.
        n_folds: The number of folds; one row in so many is held out.
        n_repeats: How many times the rows are divided anew.
        seed: Seed of what is drawn.
        rows: The number of each row, where `tasks` leaves rows out, or names rows with labels of several
            tasks several times; None counts from 0. A row is never divided.

    Raises:
        ValueError: If a count is too small, the lengths differ, or there are fewer than two rows.

    Example:
        >>> folds = task_folds(["oslo", "oslo", "lyon", "lyon"], n_folds=2)
        >>> [(train.tolist(), test.tolist()) for train, test in folds.splits]
        [([1, 3], [0, 2]), ([0, 2], [1, 3])]
    """
    _check_counts(n_folds, n_repeats)
    strata = _Strata(tasks, labels, rows)
    reason = strata.why_not(n_folds)
    divide = _folds if reason is None else _hold_outs
    splits = []
    for repeat in range(n_repeats):
        rng = np.random.default_rng([seed, repeat])
        for held in divide(strata, n_folds, rng):
            splits.append((strata.rows[~held], strata.rows[held]))
    return TaskFolds(
        splits=tuple(splits), protocol="kfold" if reason is None else "hold-out", reason=reason
    )


def _check_counts(n_folds: int, n_repeats: int) -> None:
    if n_folds < FEWEST_FOLDS:
        raise ValueError(f"`n_folds` must be at least 2: got {n_folds}.")
    if n_repeats < 1:
        raise ValueError(f"`n_repeats` must be at least 1: got {n_repeats}.")


class _Strata:
    """Entries, each a row's label for a task; rows and strata by their positions in order."""

    def __init__(self, tasks: Any, labels: Any, rows: Any) -> None:
        self.task_names, self.task = _numbered(tasks)
        n_entries = len(self.task)
        numbers = np.arange(n_entries) if rows is None else np.asarray(rows, dtype=np.int64)
        _check_length("rows", len(numbers), n_entries)
        self.rows, self.row = np.unique(numbers, return_inverse=True)
        if len(self.rows) < FEWEST_FOLDS:
            raise ValueError(
                f"`tasks` must have at least 2 labelled rows to hold some out: got n_samples = "
                f"{len(self.rows)}. Give more rows."
            )
        self.label_names: list[Any] = [None]
        self.label = np.zeros(n_entries, dtype=np.int64)
        if labels is not None:
            self.label_names, self.label = _numbered(labels)
        _check_length("labels", len(self.label), n_entries)
        pairs = self.task * len(self.label_names) + self.label
        self.pairs, self.stratum = np.unique(pairs, return_inverse=True)
        self.counts = np.bincount(self.stratum)
        self.task_of_stratum = self.pairs // len(self.label_names)
        # One sort finds the entries of every stratum, and of every task.
        self.entries = _positions(self.stratum)
        self.entries_of_task = _positions(self.task)

    def why_not(self, n_folds: int) -> str | None:
        """Why there can be no folds, or None."""
        smallest = int(self.counts.argmin())
        count = int(self.counts[smallest])
        if count >= n_folds:
            return None
        task, label = divmod(int(self.pairs[smallest]), len(self.label_names))
        name = f"task {self.task_names[task]!r}"
        if self.label_names[label] is not None:
            name = f"class {self.label_names[label]!r} of {name}"
        return f"{name} has {count} {'row' if count == 1 else 'rows'}, fewer than {n_folds} folds"


def _check_length(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(
            f"`{name}` must have an entry per entry of `tasks`: expected {expected}, got {found}."
        )


def _numbered(values: Any) -> "tuple[list[Any], NDArray[np.int64]]":
    """The different values, and the position of each value among them."""
    array = np.asarray(values)
    if array.dtype != object:
        different, position = np.unique(array, return_inverse=True)
        return different.tolist(), position.reshape(-1)
    known: dict[Any, int] = {}
    numbers = [known.setdefault(value, len(known)) for value in array.tolist()]
    return list(known), np.array(numbers, dtype=np.int64)


def _positions(groups: "NDArray[np.int64]") -> "list[NDArray[np.int64]]":
    """The positions of the members of every group."""
    ends = np.cumsum(np.bincount(groups))
    return np.split(np.argsort(groups, kind="stable"), ends[:-1])


def _folds(
    strata: _Strata, n_folds: int, rng: np.random.Generator
) -> "Iterator[NDArray[np.bool_]]":
    """Which rows are held out in every fold.

    Strata are dealt to the folds one by one, the rarest first; rows that an earlier stratum has placed
    count as placed.
    """
    fold = np.full(len(strata.rows), -1)
    total = np.zeros(n_folds, dtype=np.int64)
    for number in np.argsort(strata.counts, kind="stable").tolist():
        members = strata.row[strata.entries[number]]
        mine = strata.row[strata.entries_of_task[strata.task_of_stratum[number]]]
        free = rng.permutation(members[fold[members] < 0])
        load = np.stack([_sizes(fold[members], n_folds), _sizes(fold[mine], n_folds), total])
        shares = _shares(len(free), load, rng)
        fold[free] = np.repeat(np.arange(n_folds), shares)
        total += shares
    for number in range(n_folds):
        yield fold == number


def _sizes(fold: "NDArray[np.int64]", n_folds: int) -> "NDArray[np.int64]":
    sizes: NDArray[np.int64] = np.bincount(fold[fold >= 0], minlength=n_folds)
    return sizes


def _shares(
    n_rows: int, load: "NDArray[np.int64]", rng: np.random.Generator
) -> "NDArray[np.int64]":
    """How many rows each fold is given: the emptiest are filled first.

    Args:
        n_rows: The number of rows to give away.
        load: What the folds hold already: of this stratum, of its task, and of all, "3 folds".
        rng: Decides what the load does not.
    """
    own = load[0]
    levels = range(int(own.max()) + n_rows + 2)
    level = bisect_right(levels, n_rows, key=lambda at: int(np.maximum(at - own, 0).sum())) - 1
    shares: NDArray[np.int64] = np.maximum(level - own, 0)
    n_left = n_rows - int(shares.sum())
    order = np.lexsort((rng.random(len(own)), load[2] + shares, load[1] + shares, own + shares))
    shares[order[:n_left]] += 1
    return shares


def _hold_outs(
    strata: _Strata, n_folds: int, rng: np.random.Generator
) -> "Iterator[NDArray[np.bool_]]":
    """Which rows are held out in every one of as many draws."""
    for _ in range(n_folds):
        held = np.zeros(len(strata.rows), dtype=bool)
        for number in np.argsort(strata.counts, kind="stable").tolist():
            members = strata.row[strata.entries[number]]
            count = int(len(members) / n_folds + rng.random())
            wanted = min(count, len(members) - 1) - int(held[members].sum())
            free = members[~held[members]]
            held[rng.permutation(free)[: max(wanted, 0)]] = True
        _return_last(strata, held, rng)
        _hold_one_of_every_task(strata, held, rng)
        yield held


def _return_last(strata: _Strata, held: "NDArray[np.bool_]", rng: np.random.Generator) -> None:
    """Let a row train of every stratum that has none left, as can be where rows have several labels."""
    n_held = np.bincount(strata.stratum, weights=held[strata.row], minlength=len(strata.counts))
    for number in np.flatnonzero(n_held == strata.counts).tolist():
        members = strata.row[strata.entries[number]]
        if held[members].all():
            held[rng.choice(members)] = False


def _hold_one_of_every_task(
    strata: _Strata, held: "NDArray[np.bool_]", rng: np.random.Generator
) -> None:
    """Hold a row out of every task that has none held out, where its class can still be learned."""
    for entries in strata.entries_of_task:
        rows = strata.row[entries]
        if len(rows) < FEWEST_FOLDS or held[rows].any():
            continue
        trains = ~held[strata.row]
        n_train = np.bincount(strata.stratum, weights=trains, minlength=len(strata.counts))
        n_label = np.bincount(strata.label, weights=trains, minlength=len(strata.label_names))
        for n_left in (n_train[strata.stratum], n_label[strata.label]):
            # No label of a row may be the last of its kind.
            fewest = np.full(len(strata.rows), np.inf)
            np.minimum.at(fewest, strata.row, n_left)
            can = rows[fewest[rows] > 1]
            if len(can) > 0:
                held[rng.choice(can)] = True
                break
