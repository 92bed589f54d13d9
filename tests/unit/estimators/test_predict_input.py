"""Rows to predict, and what is said where their tasks are missing or unknown."""

import numpy as np
import pytest

from multirel.estimators import SingleTaskRegressor
from multirel.estimators._predict_input import read_predict_input

X = np.arange(12.0).reshape(6, 2) % 5
TASKS = np.array(["a", "b", "c"] * 2)


def fitted(y=None, tasks=TASKS, **settings):
    y = np.arange(6.0) if y is None else y
    return SingleTaskRegressor(**settings).fit(X, y, tasks=tasks)


def test_rows_have_the_number_of_their_task():
    rows = read_predict_input(fitted(), X[:2], tasks=["c", "a"])
    assert rows.task.tolist() == [2, 0]
    assert not rows.is_wide
    assert rows.n_rows == 2


def test_one_task_needs_no_name():
    assert read_predict_input(fitted(tasks=None), X, tasks=None).task.tolist() == [0] * 6
    named = fitted(tasks=["only"] * 6)
    assert read_predict_input(named, X, tasks=None).task.tolist() == [0] * 6


def test_after_wide_labels_all_tasks_are_predicted_or_those_that_are_named():
    estimator = fitted(np.arange(12.0).reshape(6, 2), tasks=None)
    assert read_predict_input(estimator, X, tasks=None).is_wide
    rows = read_predict_input(estimator, X[:2], tasks=[1, 0])
    assert rows.task.tolist() == [1, 0]
    assert rows.of_task(1).task.tolist() == [1, 1]


def test_without_tasks_the_error_says_how_they_get_there():
    message = (
        r"since 3 tasks were fitted: got None.*set_config\(enable_metadata_routing.*`task_column`"
    )
    with pytest.raises(ValueError, match=message):
        read_predict_input(fitted(), X, tasks=None)


def test_an_unknown_task_is_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match="expected 'a', 'b', 'c', got 'd'"):
        read_predict_input(fitted(), X[:1], tasks=["d"])


def test_tasks_and_a_column_of_tasks_exclude_one_another():
    estimator = fitted(np.arange(6.0), tasks=None, task_column=0)
    with pytest.raises(
        ValueError, match="must be None where `task_column` is given: got both. Leave one"
    ):
        read_predict_input(estimator, X, tasks=TASKS)
