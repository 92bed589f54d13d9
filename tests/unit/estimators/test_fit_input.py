"""Rows as `fit` is given them become labelled rows of numbered tasks."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from multirel.estimators import SingleTaskClassifier, SingleTaskRegressor
from multirel.estimators._fit_input import read_fit_input, weigh_tasks

X = np.arange(8.0).reshape(4, 2)
TASKS = ["b", "a", "b", "a"]


def read(y, *, x=X, tasks=TASKS, weight=None, estimator=None, **settings):
    estimator = SingleTaskRegressor(**settings) if estimator is None else estimator
    return read_fit_input(estimator, x, y, tasks=tasks, sample_weight=weight), estimator


def test_rows_keep_their_task_label_and_weight():
    rows, estimator = read([1, 2, 3, 4], weight=[1, 2, 3, 4])
    assert estimator.tasks_.tolist() == ["a", "b"]
    assert rows.task.tolist() == [1, 0, 1, 0]
    assert rows.y.tolist() == [1, 2, 3, 4]
    assert rows.weight.tolist() == [1, 2, 3, 4]
    assert rows.n_samples == 10
    assert rows.counts.tolist() == [2, 2]
    assert rows.is_alike
    assert len(rows) == 4


def test_rows_without_a_label_or_a_weight_are_left_out_but_their_task_is_known():
    rows, estimator = read([1.0, np.nan, 3.0, 4.0], weight=[1, 1, 1, 0])
    assert rows.source.tolist() == [0, 2]
    assert rows.task.tolist() == [1, 1]
    assert estimator.tasks_.tolist() == ["a", "b"]


def test_without_tasks_there_is_one():
    rows, estimator = read([1, 2, 3, 4], tasks=None)
    assert estimator.tasks_.tolist() == ["all"]
    assert rows.n_tasks == 1


@pytest.mark.parametrize(
    "frame", [np.array, pd.DataFrame, pl.DataFrame], ids=["array", "pandas", "polars"]
)
def test_wide_labels_have_a_row_per_label(frame):
    y = frame(np.array([[1, np.nan], [2, 20], [np.nan, np.nan], [4, 40]]))
    rows, estimator = read(y, tasks=None)
    order = np.lexsort([rows.task, rows.source])
    assert rows.source[order].tolist() == [0, 1, 1, 3, 3]
    assert rows.task[order].tolist() == [0, 0, 1, 0, 1]
    assert rows.y[order].tolist() == [1, 2, 20, 4, 40]
    assert estimator.was_wide_
    assert estimator.tasks_.tolist() == [0, 1] if frame is np.array else list(y.columns)


def test_wide_labels_and_tasks_exclude_one_another():
    with pytest.raises(
        ValueError, match=r"must be None where y has a column per task.*shape \(4, 2\)"
    ):
        read(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="must be None where y has a column per task"):
        read(np.zeros((4, 2)), tasks=None, task_column=0)


def test_tasks_and_a_column_of_tasks_exclude_one_another():
    with pytest.raises(
        ValueError, match="must be None where `task_column` is given: got both. Leave one"
    ):
        read(np.zeros(4), task_column=0)


def test_labels_are_needed():
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        read(None)
    with pytest.raises(ValueError, match="must hold a label that counts: got none in 4 rows"):
        read([np.nan] * 4)
    with pytest.raises(ValueError, match="expected 4, got 3"):
        read([1, 2, 3])


def test_classes_that_count_nothing_are_left_out():
    classifier = SingleTaskClassifier(class_weight={"u": 0, "v": 2}, task_weighting="equal")
    rows, _ = read(["u", "v", "v", "u"], estimator=classifier)
    assert rows.source.tolist() == [1, 2]
    assert rows.weight.tolist() == [1, 1]
    classifier = SingleTaskClassifier(class_weight={"u": 0, "v": 0})
    with pytest.raises(ValueError, match="`class_weight` must let some rows count: got 0"):
        read(["u", "v", "v", "u"], estimator=classifier)


def test_equal_tasks_share_out_one():
    weight, scale = weigh_tasks(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 2]), "equal")
    assert weight.tolist() == [0.25, 0.75, 1]
    assert scale == 2


def test_other_words_for_the_weighting_are_an_error():
    with pytest.raises(ValueError, match="must be one of 'rows', 'equal': got 'even'"):
        weigh_tasks(np.ones(2), np.array([0, 1]), "even")
