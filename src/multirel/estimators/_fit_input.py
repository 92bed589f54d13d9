"""Reading what `fit` is given."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import _num_samples

from multirel.estimators._features import read_features
from multirel.estimators._sample_weights import read_sample_weight
from multirel.estimators._targets import is_wide, labels_of, task_names_of_columns
from multirel.estimators._task_labels import ONE_TASK, number_tasks, read_tasks, sorted_values
from multirel.estimators._task_rows import TaskRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_fit_input", "weigh_tasks"]

WEIGHTINGS = ("rows", "equal")


@dataclass(frozen=True, kw_only=True, eq=False)
class _LabelledRows:
    """Rows that have a label and count: the row of X, its task and its label."""

    source: "NDArray[np.int64]"
    task: "NDArray[np.int64]"
    labels: "NDArray[Any]"


def read_fit_input(estimator: Any, X: Any, y: Any, *, tasks: Any, sample_weight: Any) -> TaskRows:
    """Labelled rows of all tasks.

    Rows without a label, or with a weight of 0, are left out as if they had not been given; but their
    tasks are known. Sets what the estimator learns from looking: `tasks_`, `task_counts_`,
    `total_weight_`, `classes_`, `was_wide_` and what the features are.

    Raises:
        ValueError: If something does not fit; the message says what.
    """
    if y is None:
        name = type(estimator).__name__
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None: `y` must hold a label per row."
        )
    x, column = read_features(estimator, X, reset=True)
    if tasks is not None and column is not None:
        raise ValueError(
            "`tasks` must be None where `task_column` is given: got both. Leave one of them out."
        )
    weight = read_sample_weight(sample_weight, x)
    found = _label_rows(estimator, y, tasks=tasks if column is None else column, counts=weight > 0)
    encoded = estimator._encode_labels(found.labels, found.task, weight=weight[found.source])
    # Classes may weigh nothing.
    kept = encoded.weight > 0
    if not kept.any():
        raise ValueError("`class_weight` must let some rows count: got 0 for the classes of all.")
    task = found.task[kept]
    weight, scale = weigh_tasks(encoded.weight[kept], task, estimator.task_weighting)
    estimator.task_counts_ = np.bincount(task, minlength=len(estimator.tasks_))
    estimator.total_weight_ = float(weight.sum())
    return TaskRows(
        x=x,
        source=found.source[kept],
        task=task,
        y=encoded.y[kept],
        weight=weight,
        tasks=estimator.tasks_,
        kinds=encoded.kinds,
        classes_of=encoded.classes_of,
        has_own_classes=encoded.has_own_classes,
        objective_scale=scale,
    )


def _label_rows(
    estimator: Any, y: Any, *, tasks: Any, counts: "NDArray[np.bool_]"
) -> _LabelledRows:
    """The rows that have a label among those that count; sets `tasks_` and `was_wide_`."""
    labels, has_label = labels_of(y, missing_label=estimator.missing_label)
    n_rows = len(counts)
    _check_length(labels, n_rows)
    wide = is_wide(labels)
    if wide and tasks is not None:
        raise ValueError(
            f"`tasks` must be None where y has a column per task: got both, and y of shape "
            f"{labels.shape}. Leave `tasks` and `task_column` out, or give a label per row."
        )
    estimator.was_wide_ = wide
    if wide:
        estimator.tasks_ = task_names_of_columns(y)
        source, task = np.nonzero(has_label & counts[:, None])
        labels = labels[source, task]
    else:
        named = np.full(n_rows, ONE_TASK) if tasks is None else read_tasks(tasks, n_rows=n_rows)
        estimator.tasks_ = sorted_values(named)
        source = np.flatnonzero(has_label & counts)
        task = number_tasks(named[source], estimator.tasks_)
        labels = labels[source]
    if len(source) == 0:
        raise ValueError(
            f"`y` must hold a label that counts: got none in {n_rows} rows. Give rows with a label and a "
            f"weight above 0."
        )
    return _LabelledRows(source=source, task=task, labels=labels)


def weigh_tasks(
    weight: "NDArray[np.float64]", task: "NDArray[np.int64]", weighting: str
) -> "tuple[NDArray[np.float64], float]":
    """What every row counts, and what a mean loss is multiplied by to be the method's own sum of losses.

    Args:
        weight: What the rows count among those of their task.
        task: The number of each row's task.
        weighting: "rows", or "equal": every task counts 1, and its rows share that.

    Raises:
        ValueError: If `weighting` is something else.
    """
    if weighting not in WEIGHTINGS:
        known = ", ".join(map(repr, WEIGHTINGS))
        raise ValueError(f"`task_weighting` must be one of {known}: got {weighting!r}.")
    if weighting == "rows":
        return weight, 1.0
    totals = np.bincount(task, weights=weight)
    return weight / totals[task], float(np.count_nonzero(totals))


def _check_length(labels: "NDArray[Any]", n_rows: int) -> None:
    if _num_samples(labels) != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: `y` must have an entry for "
            f"every row of X: expected {n_rows}, got {_num_samples(labels)}."
        )
