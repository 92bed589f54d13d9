"""Names of tasks of any type become numbers, and strangers are told from those of `fit`."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from multirel.estimators._task_labels import number_tasks, read_tasks, shown_names, sorted_values

TIMES = np.array(["2021-01-01", "2020-01-01", "2021-01-01"], dtype="datetime64[D]")


@pytest.mark.parametrize(
    ("tasks", "known"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([2, 1, 2], [1, 2]),
        (["b", 1, "b"], [1, "b"]),
        ([True, False, True], [False, True]),
        ([("b", 1), ("a", 2), ("b", 1)], [("a", 2), ("b", 1)]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series([("b", 1), ("a", 2), ("b", 1)]), [("a", 2), ("b", 1)]),
        (pd.Series([2, 1, 2], dtype="Int64"), [1, 2]),
        (pl.Series(["b", "a", "b"]), ["a", "b"]),
        (torch.tensor([2, 1, 2]), [1, 2]),
        (np.array([["b"], ["a"], ["b"]]), ["a", "b"]),
        (np.array([2, 1, 2], dtype=object), [1, 2]),
    ],
)
def test_names_may_be_of_any_type(tasks, known):
    names = read_tasks(tasks, n_rows=3)
    found = sorted_values(names)
    assert found.tolist() == known
    assert number_tasks(names, found).tolist() == [1, 0, 1]


def test_names_that_cannot_be_compared_are_sorted_by_their_text():
    assert sorted_values(np.array(["b", 1, "a", 10], dtype=object)).tolist() == [1, 10, "a", "b"]


def test_times_are_recognized_in_another_unit():
    known = sorted_values(read_tasks(TIMES, n_rows=3))
    names = read_tasks(TIMES.astype("datetime64[ns]"), n_rows=3)
    assert number_tasks(names, known).tolist() == [1, 0, 1]


def test_numbers_are_recognized_in_another_type():
    assert number_tasks(np.array([1.0, 0.0]), np.array([0, 1])).tolist() == [1, 0]


@pytest.mark.parametrize("tasks", [["a"], "a", [["a", "b"], ["a", "b"]]])
def test_another_number_of_names_than_rows_is_an_error(tasks):
    with pytest.raises(ValueError, match=r"must name the task of every row: expected shape \(2,\)"):
        read_tasks(tasks, n_rows=2)


@pytest.mark.parametrize(
    "tasks", [["a", None, None], [1.0, np.nan, np.nan], pl.Series(["a", None, None])]
)
def test_rows_without_a_task_are_an_error_that_counts_them(tasks):
    with pytest.raises(ValueError, match="got 2 rows without one, the first is row 1"):
        read_tasks(tasks, n_rows=3)


def test_names_that_may_change_are_an_error():
    tasks = np.empty(1, dtype=object)
    tasks[0] = ["a"]
    with pytest.raises(TypeError, match="must hold names that do not change.*a list"):
        read_tasks(tasks, n_rows=1)


def test_a_stranger_is_an_error_that_names_the_known_tasks():
    with pytest.raises(ValueError, match="expected 'a', 'b', got 'c'. A new task is learned"):
        number_tasks(np.array(["a", "c"]), np.array(["a", "b"]))


def test_of_many_names_the_first_are_shown():
    assert shown_names(np.arange(12)).endswith("8, 9 and 2 more")
