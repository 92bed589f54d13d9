"""Scores of all tasks at once are those of scikit-learn, task by task."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics

from multirel.estimators._search_scores import (
    CLASS_METRICS,
    NUMBER_METRICS,
    HeldOut,
    choose_metric,
    loss_of_rows,
    mean_over_tasks,
    variances_of_tasks,
)
from multirel.estimators._task_rows import TaskRows

N_TASKS = 4


def draw(sizes, *, n_rows=120, seed=0, is_logistic=True, is_one_vs_rest=False):
    """Held-out rows with outputs for them; the third task has none."""
    rng = np.random.default_rng(seed)
    sizes = np.asarray(sizes)
    task = np.sort(rng.choice([0, 1, 3], size=n_rows))
    y = np.where(
        sizes[task] > 0, rng.integers(0, np.maximum(sizes[task], 1)), rng.standard_normal(n_rows)
    ).astype(float)
    width = max(1, *[size if size > 2 else 1 for size in sizes])
    outputs = np.round(2 * rng.standard_normal((n_rows, width)), 1)
    exists = np.arange(width) < np.where(sizes > 2, sizes, 1)[task, None]
    held = HeldOut(
        task=task,
        y=y,
        weight=rng.integers(1, 4, size=n_rows).astype(float),
        sizes=sizes,
        variance=np.full(N_TASKS, np.nan),
        is_logistic=is_logistic,
        is_one_vs_rest=is_one_vs_rest,
    )
    own = variances_of_tasks(y, task, weight=held.weight, n_tasks=N_TASKS)
    return replace(held, variance=own), np.where(exists, outputs, -np.inf)


def by_task(held, function):
    """A function of the rows of every task; NaN for the third, which has none."""
    found = np.full(N_TASKS, np.nan)
    for number in (0, 1, 3):
        mine = held.task == number
        found[number] = function(mine, held.weight[mine])
    return found


def rows_of(kinds):
    return TaskRows(
        x=np.zeros((1, 1)),
        source=np.zeros(1, dtype=int),
        task=np.zeros(1, dtype=int),
        y=np.zeros(1),
        weight=np.ones(1),
        tasks=np.arange(len(kinds)),
        kinds=tuple(kinds),
        classes_of=tuple(None if k == "regression" else np.arange(2) for k in kinds),
    )


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("r2", metrics.r2_score),
        ("explained-variance", metrics.explained_variance_score),
        ("rmse", lambda *args, **kw: -metrics.root_mean_squared_error(*args, **kw)),
    ],
)
def test_scores_of_numbers_are_those_of_scikit_learn(name: str, metric):
    held, outputs = draw([0] * N_TASKS)
    expected = by_task(held, lambda m, w: metric(held.y[m], outputs[m, 0], sample_weight=w))
    np.testing.assert_allclose(NUMBER_METRICS[name](held, outputs), expected)


def test_accuracy_is_that_of_scikit_learn_for_every_number_of_classes():
    held, outputs = draw([2, 5, 3, 4])

    def accuracy(mine, weight):
        size = held.sizes[held.task[mine][0]]
        values = outputs[mine]
        predicted = values[:, 0] > 0 if size == 2 else values[:, :size].argmax(axis=1)
        return metrics.accuracy_score(held.y[mine], predicted, sample_weight=weight)

    np.testing.assert_allclose(CLASS_METRICS["accuracy"](held, outputs), by_task(held, accuracy))


def test_log_loss_is_that_of_scikit_learn_for_every_number_of_classes():
    held, outputs = draw([2, 5, 3, 4])

    def log_loss(mine, weight):
        size = held.sizes[held.task[mine][0]]
        p = expit(outputs[mine, 0]) if size == 2 else softmax(outputs[mine, :size], axis=1)
        return -metrics.log_loss(held.y[mine], p, sample_weight=weight, labels=range(size))

    np.testing.assert_allclose(CLASS_METRICS["log-loss"](held, outputs), by_task(held, log_loss))


def test_log_loss_of_one_versus_rest_shares_out_the_probabilities():
    held, outputs = draw([3] * N_TASKS, is_one_vs_rest=True)
    each = expit(outputs)
    shares = each / each.sum(axis=1, keepdims=True)
    expected = by_task(held, lambda m, w: -metrics.log_loss(held.y[m], shares[m], sample_weight=w))
    np.testing.assert_allclose(CLASS_METRICS["log-loss"](held, outputs), expected)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_areas_under_curves_are_those_of_scikit_learn_with_ties(n_classes: int):
    held, outputs = draw([n_classes] * N_TASKS)

    def area(mine, weight):
        scores = outputs[mine]
        columns = [scores[:, 0]] if n_classes == 2 else scores.T
        positives = [1] if n_classes == 2 else range(n_classes)
        return np.mean(
            [
                metrics.roc_auc_score(held.y[mine] == c, column, sample_weight=weight)
                for c, column in zip(positives, columns, strict=True)
            ]
        )

    np.testing.assert_allclose(CLASS_METRICS["roc-auc"](held, outputs), by_task(held, area))


def test_an_area_needs_rows_of_both_classes():
    held, outputs = draw([2] * N_TASKS)
    held.y[held.task == 1] = 1
    scores = CLASS_METRICS["roc-auc"](held, outputs)
    assert np.isnan(scores).tolist() == [False, True, True, False]
    assert mean_over_tasks(scores) == pytest.approx(scores[[0, 3]].mean())


@pytest.mark.parametrize("name", ["r2", "explained-variance"])
def test_variance_needs_labels_that_differ(name: str):
    held, outputs = draw([0] * N_TASKS)
    held.y[held.task == 0] = 0.1 + 0.2
    own = variances_of_tasks(held.y, held.task, weight=held.weight, n_tasks=N_TASKS)
    assert own[0] == 0
    scores = NUMBER_METRICS[name](replace(held, variance=own), outputs)
    assert np.isnan(scores).tolist() == [True, False, True, False]


def test_scores_of_numbers_are_relative_to_all_rows_of_a_task():
    """So a few held-out rows that happen to be alike do not outweigh all others."""
    held, outputs = draw([0] * N_TASKS)
    doubled = replace(held, variance=2 * held.variance)
    for metric in (NUMBER_METRICS["r2"], NUMBER_METRICS["explained-variance"]):
        one, other = metric(held, outputs), metric(doubled, outputs)
        np.testing.assert_allclose(1 - other, (1 - one) / 2)


def test_one_row_explains_no_variance():
    held, outputs = draw([0] * N_TASKS)
    few = np.r_[0, np.flatnonzero(held.task == 1)]
    some = replace(held, task=held.task[few], y=held.y[few], weight=held.weight[few])
    scores = NUMBER_METRICS["explained-variance"](some, outputs[few])
    assert np.isnan(scores).tolist() == [True, False, True, True]


def test_the_mean_of_no_score_is_none():
    assert np.isnan(mean_over_tasks(np.full(3, np.nan)))


def test_squared_losses_of_classes_compare_with_plus_and_minus_one():
    held, outputs = draw([2, 3, 3, 1], is_logistic=False)
    loss = loss_of_rows(held, outputs)
    for number in (0, 1, 3):
        mine = np.flatnonzero(held.task == number)
        for row in mine[:10]:
            y, size = held.y[row], held.sizes[number]
            if size == 3:
                targets, found = np.where(np.arange(3) == y, 1, -1), outputs[row, :3]
            else:
                targets, found = 2 * y - 1, outputs[row, 0]
            assert loss[row] == pytest.approx(np.square(found - targets).sum())


def test_numbers_and_classes_have_the_explained_share_of_the_deviance_in_common():
    held, outputs = draw([2, 0, 2, 0])
    metric = choose_metric(None, rows_of(["classification", "regression"]), is_logistic=True)
    scores = metric(held, outputs)
    mine = held.task == 1
    expected = metrics.r2_score(held.y[mine], outputs[mine, 0], sample_weight=held.weight[mine])
    assert scores[1] == pytest.approx(expected)
    mine = held.task == 0
    true, weight = held.y[mine], held.weight[mine]
    share = np.full(len(true), np.average(true, weights=weight))
    null, model = (
        metrics.log_loss(true, p, sample_weight=weight) for p in (share, expit(outputs[mine, 0]))
    )
    assert scores[0] == pytest.approx(1 - model / null)
    assert np.isnan(scores[2])


def test_metrics_of_something_else_say_what_there_is():
    with pytest.raises(ValueError, match="expected 'accuracy', 'roc-auc', 'log-loss', got 'r2'."):
        choose_metric("r2", rows_of(["classification"]), is_logistic=True)
    with pytest.raises(ValueError, match="'log-loss' where loss='squared' gives no probabilities"):
        choose_metric("log-loss", rows_of(["classification"]), is_logistic=False)
    with pytest.raises(ValueError, match="expected None, where tasks predict numbers and others"):
        choose_metric("r2", rows_of(["classification", "regression"]), is_logistic=True)
