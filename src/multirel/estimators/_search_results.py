"""The table of a search, and which of its rows are chosen."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from multirel.estimators._search_split import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Selection", "choose", "table_of"]

Selection = Literal["best", "one-se", "average"]

N_DIGITS = 12
"""Scores are compared to so many digits, since roundoff is no difference."""

LARGER_IS_SIMPLER = ("strength", "outlier_strength", "ridge", "shrinkage", "start")
"""Settings that hold a model back, in the order in which they are compared."""


def table_of(
    settings: Sequence[Mapping[str, Any]], outcomes: Sequence[Sequence[Outcome]]
) -> dict[str, Any]:
    """The columns of `cv_results_`.

    Args:
        settings: The settings of every candidate.
        outcomes: Those of all candidates, for every split.
    """
    by_number = [sorted(split, key=lambda outcome: outcome.number) for split in outcomes]
    scores = np.array([[outcome.score for outcome in split] for split in by_number])
    losses = np.array([[outcome.loss for outcome in split] for split in by_number])
    seconds = np.array([[outcome.seconds for outcome in split] for split in by_number])
    mean = _mean(scores)
    if np.isnan(mean).all():
        raise ValueError(
            f"`scoring` must be defined on held-out rows: got no score of any task in {len(scores)} splits. "
            f"Use another metric, fewer folds, or more rows."
        )
    loss = _mean(losses)
    order = np.lexsort((np.nan_to_num(loss, nan=np.inf), -_sortable(mean)))
    difference, error = _differences(scores, best=int(order[0]))
    return {
        "params": [dict(one) for one in settings],
        **_columns_of(settings),
        **{f"split{number}_test_score": row for number, row in enumerate(scores)},
        "mean_test_score": mean,
        "std_test_score": _deviation(scores, ddof=0),
        "standard_error_test_score": _deviation(scores, ddof=1) / np.sqrt(_counts(scores)),
        "rank_test_score": _ranks(mean, loss, order),
        "difference_to_best": difference,
        "standard_error_difference": error,
        "is_near_best": difference >= -error,
        "mean_test_loss": loss,
        "n_undefined": np.array([[outcome.n_undefined for outcome in s] for s in by_number]).sum(
            axis=0
        ),
        "all_converged": np.array([[outcome.converged for outcome in s] for s in by_number]).all(
            axis=0
        ),
        "mean_fit_time": seconds.mean(axis=0),
        "std_fit_time": seconds.std(axis=0),
    }


def choose(results: Mapping[str, Any], selection: Selection) -> "tuple[int, NDArray[np.int64]]":
    """The candidate that is chosen, and those whose models are averaged.

    Args:
        results: The columns of `cv_results_`.
        selection: "best"; "one-se" for the simplest that is as good by one standard error; or "average"
            for all of these.
    """
    order = np.lexsort((results["mean_test_loss"], results["rank_test_score"]))
    best = int(order[0])
    near = np.flatnonzero(results["is_near_best"])
    if selection == "one-se":
        place = {number: position for position, number in enumerate(order.tolist())}
        best = max(
            near.tolist(),
            key=lambda number: (*_simplicity(results["params"][number]), -place[number]),
        )
    return best, near if selection == "average" else np.array([best])


def _sortable(mean: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return np.nan_to_num(np.round(mean, N_DIGITS), nan=-np.inf)


def _counts(scores: "NDArray[np.float64]") -> "NDArray[np.int64]":
    return np.maximum(np.count_nonzero(~np.isnan(scores), axis=0), 1)


def _mean(scores: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """The mean over the splits that have a value; NaN where none has."""
    known = ~np.isnan(scores)
    mean = np.where(known, scores, 0.0).sum(axis=0) / _counts(scores)
    return np.where(known.any(axis=0), mean, np.nan)


def _deviation(scores: "NDArray[np.float64]", *, ddof: int) -> "NDArray[np.float64]":
    """The standard deviation over the splits that have a value; 0 for a single one."""
    known = ~np.isnan(scores)
    square = np.where(known, np.square(scores - _mean(scores)), 0.0).sum(axis=0)
    return np.sqrt(square / np.maximum(known.sum(axis=0) - ddof, 1))


def _differences(
    scores: "NDArray[np.float64]", *, best: int
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """How much every candidate scores above the best, and the standard error of that over the splits."""
    above = scores - scores[:, [best]]
    difference = np.round(_mean(above), N_DIGITS)
    return difference, _deviation(above, ddof=1) / np.sqrt(_counts(above))


def _ranks(
    mean: "NDArray[np.float64]", loss: "NDArray[np.float64]", order: "NDArray[np.int64]"
) -> "NDArray[np.int64]":
    """1 for the best score; ties are broken by the loss, and the same rank is left where that is the same."""
    key = np.stack([_sortable(mean), np.nan_to_num(loss, nan=np.inf)])[:, order]
    is_new = np.concatenate([[True], (key[:, 1:] != key[:, :-1]).any(axis=0)])
    starts = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = starts + 1
    return ranks


def _columns_of(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A masked column per setting, as in scikit-learn."""
    names = dict.fromkeys(name for one in settings for name in one)
    columns = {}
    for name in names:
        column = np.ma.masked_array(np.empty(len(settings), dtype=object), mask=True)
        for row, one in enumerate(settings):
            if name in one:
                column[row] = one[name]
        columns[f"param_{name}"] = column
    return columns


def _simplicity(settings: Mapping[str, Any]) -> tuple[float, ...]:
    """What grows the more a model is held back: shallow first, then each setting in its order."""
    sizes = settings.get("hidden_sizes", ())
    held_back = [_as_number(settings.get(name)) for name in LARGER_IS_SIMPLER]
    less = [_as_number(settings.get(name)) for name in ("task_intercepts", "n_updates")]
    return (-float(len(sizes)), -float(sum(sizes)), *held_back, *[-value for value in less])


def _as_number(value: Any) -> float:
    """The size of a setting; of a mapping by mode, the mean."""
    if isinstance(value, Mapping):
        return float(np.mean([_as_number(one) for one in value.values()])) if value else 0.0
    if isinstance(value, bool | int | float | np.number):
        return float(value)
    return 0.0
