"""Scores of outputs for held-out rows: one per task, for all tasks at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import entr, log_expit, log_softmax

from multirel.estimators._task_rows import TaskRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "HeldOut",
    "Metric",
    "choose_metric",
    "loss_of_rows",
    "mean_over_tasks",
    "variances_of_tasks",
]

N_BINARY = 2
FEWEST_ROWS = 2

ROUNDOFF = 1e-14
"""Deviations below this share of the mean are those of a constant."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Rows that outputs are compared with, sorted by task."""

    task: "NDArray[np.int64]"
    """The number of each row's task."""

    y: "NDArray[np.float64]"
    """The number, or the position of the class."""

    weight: "NDArray[np.float64]"
    """What each row counts."""

    sizes: "NDArray[np.int64]"
    """The number of classes of every task; 0 where numbers are predicted."""

    variance: "NDArray[np.float64]"
    """The variance of every task's labels over all rows, held out or not, "T"; 0 where they are equal."""

    is_logistic: bool
    """Whether outputs of classes are those of the logistic loss."""

    is_one_vs_rest: bool
    """Whether every class has a logistic loss of its own."""

    @property
    def n_tasks(self) -> int:
        """The number of tasks T."""
        return len(self.sizes)

    @property
    def is_class(self) -> "NDArray[np.bool_]":
        """Which rows have classes."""
        return self.sizes[self.task] > 0

    def sums(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Σ ω times values over the rows of every task, "T"."""
        return _sums(self.task, self.weight * values, n_tasks=self.n_tasks)

    def means(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The weighted mean of every task, "T"; NaN where there is no row that counts."""
        total = self.sums(np.ones(len(self.task)))
        return _ratio(self.sums(values), total)


Metric = Callable[[HeldOut, "NDArray[np.float64]"], "NDArray[np.float64]"]
"""Gives the score of every task, "T", higher is better, NaN where undefined, for outputs "n C"."""


def mean_over_tasks(scores: "NDArray[np.float64]") -> float:
    """The average over the tasks that have a score; NaN where none has."""
    defined = scores[~np.isnan(scores)]
    return float(defined.mean()) if len(defined) > 0 else float("nan")


def choose_metric(scoring: str | None, rows: TaskRows, *, is_logistic: bool) -> Metric:
    """The metric by its name.

    Args:
        scoring: A name; None for the score of the estimator, or, where tasks predict numbers and others
            classes, the share of the deviance that is explained.
        rows: Rows of the tasks.
        is_logistic: Whether the classifier has probabilities.

    Raises:
        ValueError: If there is no such metric, or it is none of what is predicted.
    """
    kinds = set(rows.kinds)
    if scoring is None:
        if len(kinds) > 1:
            return _explained_deviance
        return _accuracy if kinds == {"classification"} else _r2
    known: Mapping[str, Metric] = {}
    if kinds == {"classification"}:
        known = CLASS_METRICS
    elif kinds == {"regression"}:
        known = NUMBER_METRICS
    if scoring not in known:
        shown = (
            ", ".join(map(repr, known)) or "None, where tasks predict numbers and others classes"
        )
        raise ValueError(
            f"`scoring` must be a metric of what is predicted: expected {shown}, got {scoring!r}. "
            f"Use one of these, or a function."
        )
    if scoring == "log-loss" and not is_logistic:
        raise ValueError(
            "`scoring` must not be 'log-loss' where loss='squared' gives no probabilities: got 'log-loss'. "
            "Use 'accuracy', or loss='logistic'."
        )
    return known[scoring]


def loss_of_rows(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Log-loss of every row, or the squared error where there are no probabilities, "n"."""
    loss = np.square(held.y - outputs[:, 0])
    mine = held.is_class
    if mine.any():
        rows = np.flatnonzero(mine)
        position = held.y[mine].astype(np.int64)
        if held.is_logistic:
            loss[mine] = -_log_probabilities(held, outputs)[rows, position]
        else:
            loss[mine] = _squared_error(held, outputs)[mine]
    return loss


def _accuracy(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return held.means(_full_scores(held, outputs).argmax(axis=1) == held.y)


def _log_loss(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return -held.means(loss_of_rows(held, outputs))


def _roc_auc(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Area under the curve; the average over classes against the others where there are several."""
    full = _full_scores(held, outputs)
    if (held.sizes <= N_BINARY).all():
        return _area(held, full[:, 1] - full[:, 0], held.y == 1)
    each = np.stack([_area(held, column, held.y == c) for c, column in enumerate(full.T)])
    defined = ~np.isnan(each)
    return _ratio(np.where(defined, each, 0.0).sum(axis=0), 1.0 * defined.sum(axis=0))


def _area(
    held: HeldOut, score: "NDArray[np.float64]", positive: "NDArray[np.bool_]"
) -> "NDArray[np.float64]":
    """The chance that a positive row of a task scores above a negative one, ties counting half."""
    order = np.lexsort((score, held.task))
    task, score, is_positive = held.task[order], score[order], positive[order]
    weight = held.weight[order]
    negative = np.where(is_positive, 0.0, weight)
    before = np.concatenate([[0.0], np.cumsum(negative)])
    is_new = (task[1:] != task[:-1]) | (score[1:] != score[:-1])
    first = np.concatenate([[True], is_new])
    run = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(task))
    below, above = before[starts][run], before[ends][run]
    start_of_task = np.searchsorted(task, np.arange(held.n_tasks))
    wins = (below + above) / 2 - before[start_of_task][task]
    n_positive = _sums(task, weight * is_positive, n_tasks=held.n_tasks)
    n_negative = _sums(task, negative, n_tasks=held.n_tasks)
    won = _sums(task, weight * is_positive * wins, n_tasks=held.n_tasks)
    return _ratio(won, n_positive * n_negative)


def _sums(
    task: "NDArray[np.int64]", values: "NDArray[np.float64]", *, n_tasks: int
) -> "NDArray[np.float64]":
    return np.bincount(task, weights=values, minlength=n_tasks).astype(np.float64)


def _r2(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """R² with the variance of all rows of a task below: that of a few held-out ones may be next to 0."""
    return 1 - _ratio(held.means(np.square(held.y - outputs[:, 0])), held.variance)


def _explained_variance(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """The explained variance, with the variance of all rows of a task below."""
    residual = held.y - outputs[:, 0]
    left = held.means(np.square(residual - held.means(residual)[held.task]))
    left[np.bincount(held.task, minlength=held.n_tasks) < FEWEST_ROWS] = np.nan
    return 1 - _ratio(left, held.variance)


def _rmse(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return -np.sqrt(held.means(np.square(held.y - outputs[:, 0])))


def variances_of_tasks(
    values: "NDArray[np.float64]",
    task: "NDArray[np.int64]",
    *,
    weight: "NDArray[np.float64]",
    n_tasks: int,
) -> "NDArray[np.float64]":
    """The weighted variance of every task, "T"; 0 where all values are the same, NaN where there is none.

    Args:
        values: A value per row.
        task: The number of each row's task.
        weight: What each row counts.
        n_tasks: The number of tasks.
    """
    total = _sums(task, weight, n_tasks=n_tasks)
    mean = _ratio(_sums(task, weight * values, n_tasks=n_tasks), total)
    square = np.square(values - mean[task])
    variance = _ratio(_sums(task, weight * square, n_tasks=n_tasks), total)
    # What roundoff leaves of the variance of a constant is nothing to divide by.
    variance[variance <= np.square(ROUNDOFF * mean)] = 0.0
    return variance


def _explained_deviance(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """One minus the loss by that of the best constant, for numbers and classes alike."""
    if held.is_logistic:
        entropy = np.zeros(held.n_tasks)
        for number in np.unique(held.y[held.is_class]):
            entropy += entr(held.means(held.y == number))
        constant = np.where(held.sizes > 0, entropy, held.variance)
    else:
        signs = np.where(held.is_class, 2 * held.y - 1, held.y)
        mean = held.means(signs)
        spread = held.means(np.square(signs - mean[held.task]))
        constant = np.where(held.sizes > 0, spread, held.variance)
    return 1 - _ratio(held.means(loss_of_rows(held, outputs)), constant)


def _ratio(above: "NDArray[np.float64]", below: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """A quotient that is NaN where there is nothing to divide by."""
    return np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0)


def _full_scores(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """A score per class, "n C": two classes have one output, the score of the second."""
    full = np.full((len(outputs), max(outputs.shape[1], N_BINARY)), -np.inf)
    full[:, : outputs.shape[1]] = outputs
    small = held.sizes[held.task] <= N_BINARY
    full[small] = -np.inf
    full[small, 0] = 0.0
    pair = held.sizes[held.task] == N_BINARY
    full[pair, 1] = outputs[pair, 0]
    return full


def _log_probabilities(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    if held.is_one_vs_rest and outputs.shape[1] > 1:
        each = log_expit(outputs)
        return each - np.logaddexp.reduce(each, axis=1, keepdims=True)
    return log_softmax(_full_scores(held, outputs), axis=1)


def _squared_error(held: HeldOut, outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """The squared error of outputs that have ±1 for their targets, summed over the outputs."""
    sizes = held.sizes[held.task]
    targets = np.where(held.y[:, None] == np.arange(outputs.shape[1]), 1.0, -1.0)
    targets[sizes <= N_BINARY, 0] = 2 * held.y[sizes <= N_BINARY] - 1
    exists = np.arange(outputs.shape[1]) < np.where(sizes <= N_BINARY, 1, sizes)[:, None]
    return np.square(np.where(exists, outputs, targets) - targets).sum(axis=1)


CLASS_METRICS: Mapping[str, Metric] = {
    "accuracy": _accuracy,
    "roc-auc": _roc_auc,
    "log-loss": _log_loss,
}
NUMBER_METRICS: Mapping[str, Metric] = {
    "explained-variance": _explained_variance,
    "r2": _r2,
    "rmse": _rmse,
}
