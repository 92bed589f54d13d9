"""Scores are per task, and averaged over the tasks that have one."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import r2_score

from multirel.estimators._columns import objects
from multirel.estimators._predict_input import PredictInput
from multirel.estimators._scores import accuracy, r2, read_scored
from multirel.exceptions import MultirelWarning

TASK = np.array([0, 0, 0, 1, 1, 2])
X = np.zeros((6, 1))
ESTIMATOR = SimpleNamespace(missing_label=None, tasks_=np.arange(3))


def scored(y, *, weight=None, wide=False):
    rows = PredictInput(x=X, task=TASK, is_wide=wide)
    return read_scored(ESTIMATOR, rows, y, sample_weight=weight)


def test_accuracies_of_tasks_are_averaged():
    true = np.array(list("aabbba"))
    found = scored(true)
    predicted = np.array(list("aaabbb"))
    assert found.per_task(accuracy, true, predicted) == pytest.approx({0: 2 / 3, 1: 1, 2: 0})
    assert found.mean_over_tasks(accuracy, true, predicted) == pytest.approx(5 / 9)


def test_tasks_on_which_a_score_is_undefined_do_not_count():
    true = np.array([1.0, 2, 3, 1, 2, 7])
    predicted = np.array([1.5, 2, 3, 1, 1, 0])
    expected = (r2_score(true[:3], predicted[:3]) + r2_score(true[3:5], predicted[3:5])) / 2
    assert scored(true).mean_over_tasks(r2, true, predicted) == pytest.approx(expected)


def test_a_score_that_no_task_has_is_nan_with_a_warning():
    y = np.array([1.0, np.nan, np.nan, 2.0, np.nan, 3.0])
    found = scored(y)
    with pytest.warns(
        MultirelWarning, match="not defined on any of 3 tasks, so it is NaN: R² needs two"
    ):
        assert np.isnan(found.mean_over_tasks(r2, found.labels, np.zeros(3)))


def test_rows_without_a_label_or_a_weight_do_not_count():
    y = np.array([1.0, np.nan, 3.0, 4.0, 5.0, np.nan])
    found = scored(y, weight=[1, 1, 2, 0, 3, 1])
    assert found.labels.tolist() == [1, 3, 5]
    assert found.task.tolist() == [0, 0, 1]
    assert found.weight.tolist() == [1, 2, 3]
    assert found.of_labelled(np.arange(6) * 10).tolist() == [0, 20, 40]


def test_wide_labels_are_compared_entry_by_entry():
    y = np.full((6, 3), np.nan)
    y[1, 2], y[4, 0] = 7, 8
    found = scored(y, wide=True, weight=[1, 2, 1, 1, 5, 1])
    assert found.task.tolist() == [2, 0]
    assert found.weight.tolist() == [2, 5]
    assert found.of_labelled(np.arange(18).reshape(6, 3)).tolist() == [5, 12]


def test_weights_count_as_repetitions():
    true, predicted = np.array([0, 1, 1]), np.array([0, 0, 1])
    assert accuracy(true, predicted, sample_weight=np.array([1.0, 3, 1])) == pytest.approx(2 / 5)


def test_classes_of_any_type_are_compared():
    true, predicted = objects([("a", 1), 2, "x"]), objects([("a", 1), 2.0, "y"])
    assert accuracy(true, predicted, sample_weight=np.ones(3)) == pytest.approx(2 / 3)


def test_labels_of_another_shape_are_an_error():
    with pytest.raises(
        ValueError, match=r"a label for every prediction: expected shape \(6,\), got \(5,\)"
    ):
        scored(np.zeros(5))
    with pytest.raises(ValueError, match=r"expected shape \(6, 3\), got \(6,\)"):
        scored(np.zeros(6), wide=True)


def test_a_score_needs_a_label():
    with pytest.raises(ValueError, match="must hold a label to score: got none in 6 rows"):
        scored(np.full(6, np.nan))
