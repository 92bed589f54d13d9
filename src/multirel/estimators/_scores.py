"""Scores of predictions: one per task, averaged over the tasks that have it."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import r2_score

from multirel.estimators._sample_weights import read_sample_weight
from multirel.estimators._targets import is_wide, labels_of
from multirel.exceptions import MultirelWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._predict_input import PredictInput

__all__ = ["Metric", "Scored", "accuracy", "r2", "read_scored"]

Metric = Callable[..., float]
"""A score of predictions, from the truth, the predictions, and `sample_weight`; NaN where it has none."""

FEWEST_ROWS = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The labelled ones of rows that have been predicted."""

    index: "tuple[NDArray[np.int64], ...]"
    """Where the labelled rows are in the predictions: the row, and for wide labels the task."""

    task: "NDArray[np.int64]"
    """The number of each labelled row's task."""

    labels: "NDArray[Any]"
    """The true labels."""

    weight: "NDArray[np.float64]"
    """What each labelled row counts; above 0."""

    def of_labelled(self, predicted: "NDArray[Any]") -> "NDArray[Any]":
        """The predictions of the labelled rows."""
        return predicted[self.index]

    def per_task(self, metric: Metric, true: Any, predicted: Any) -> "dict[int, float]":
        """The score of every task that has rows, by its number; NaN where the metric is undefined."""
        found = {}
        order = np.argsort(self.task, kind="stable")
        numbers, starts = np.unique(self.task[order], return_index=True)
        for number, mine in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            weight = self.weight[mine]
            found[number] = float(metric(true[mine], predicted[mine], sample_weight=weight))
        return found

    def mean_over_tasks(self, metric: Metric, true: Any, predicted: Any) -> float:
        """The average over the tasks on which the metric is defined; NaN and a warning if it is on none."""
        values = np.array([*self.per_task(metric, true, predicted).values()])
        defined = values[~np.isnan(values)]
        if len(defined) == 0:
            warnings.warn(
                f"The score is not defined on any of {len(values)} tasks, so it is NaN: R² needs two rows of "
                f"a task.",
                MultirelWarning,
                stacklevel=3,
            )
            return float("nan")
        return float(defined.mean())


def accuracy(
    true: "NDArray[Any]", predicted: "NDArray[Any]", *, sample_weight: "NDArray[np.float64]"
) -> float:
    """The share of rows whose class was predicted, by weight; classes may be of any type."""
    right = np.array([a == b for a, b in zip(true.tolist(), predicted.tolist(), strict=True)])
    return float(np.average(right, weights=sample_weight))


def r2(
    true: "NDArray[Any]", predicted: "NDArray[Any]", *, sample_weight: "NDArray[np.float64]"
) -> float:
    """R² as in scikit-learn; NaN for fewer than two rows."""
    if len(true) < FEWEST_ROWS:
        return float("nan")
    return float(r2_score(true, predicted, sample_weight=sample_weight))


def read_scored(
    estimator: Any, rows: "PredictInput", y: Any, *, sample_weight: Any = None
) -> Scored:
    """The labels that predictions are compared with.

    Raises:
        ValueError: If there is not an entry per row, or no label that counts.
    """
    labels, has_label = labels_of(y, missing_label=estimator.missing_label)
    expected = (rows.n_rows, len(estimator.tasks_)) if rows.is_wide else (rows.n_rows,)
    if labels.shape != expected:
        raise ValueError(
            f"`y` must have a label for every prediction: expected shape {expected}, got {labels.shape}."
        )
    weight = read_sample_weight(sample_weight, rows.x)
    counts = weight > 0
    index = np.nonzero(has_label & (counts[:, None] if rows.is_wide else counts))
    if len(index[0]) == 0:
        raise ValueError(f"`y` must hold a label to score: got none in {rows.n_rows} rows.")
    return Scored(
        index=index,
        task=index[1] if is_wide(labels) else rows.task[index[0]],
        labels=labels[index],
        weight=weight[index[0]],
    )
