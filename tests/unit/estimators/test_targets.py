"""Labels: which are missing, what the classes are, and whether every task has its own."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from multirel.estimators._columns import objects
from multirel.estimators._targets import (
    are_different,
    check_classes,
    class_sets,
    classes_by_task,
    is_wide,
    labels_of,
    positions_in,
    task_names_of_columns,
)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.zeros(3), False),
        (np.zeros((3, 1)), False),
        (np.zeros((3, 2)), True),
        ([[1, 2]], True),
        ([1, 2], False),
        (pl.DataFrame({"a": [1], "b": [2]}), True),
    ],
)
def test_labels_are_wide_with_more_than_one_column(y, expected):
    assert is_wide(y) == expected


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (np.zeros((2, 3)), [0, 1, 2]),
        ([[1, 2], [3, 4]], [0, 1]),
        (pd.DataFrame({"b": [1], "a": [2]}), ["b", "a"]),
        (pl.DataFrame({"b": [1], "a": [2]}), ["b", "a"]),
        (pd.DataFrame([[1, 2]], columns=["b", 7]), ["b", 7]),
    ],
)
def test_columns_name_the_tasks(y, names):
    assert task_names_of_columns(y).tolist() == names


def test_columns_with_one_name_are_an_error():
    with pytest.raises(ValueError, match="differently, since they name the tasks: got 'a' 2 times"):
        task_names_of_columns(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize(
    "y",
    [
        [1.0, np.nan, 2.0],
        ["a", None, "b"],
        [True, None, False],
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["a", None, "b"], dtype="category"),
        pl.Series([1, None, 2]),
        np.array(["a", np.nan, 3], dtype=object),
    ],
)
def test_rows_without_a_label_are_found(y):
    _, has_label = labels_of(y)
    assert has_label.tolist() == [True, False, True]


def test_a_label_means_none_only_on_request():
    y = np.array([1, -1, 2])
    assert labels_of(y)[1].all()
    assert labels_of(y, missing_label=-1)[1].tolist() == [True, False, True]
    assert labels_of(["a", "?"], missing_label="?")[1].tolist() == [True, False]
    assert labels_of(["a", "?"], missing_label=-1)[1].all()


def test_wide_labels_may_lack_some():
    _, has_label = labels_of(pd.DataFrame({"a": [1.0, np.nan], "b": ["x", None]}))
    assert has_label.tolist() == [[True, True], [False, False]]


def test_sparse_labels_are_an_error():
    with pytest.raises(ValueError, match="`y` must be dense: got a sparse csr_array"):
        labels_of(sparse.csr_array(np.eye(3)))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1, 2]),
        np.array([1.0, 2.0]),
        np.array([True, False]),
        np.array(["a", "b"]),
        np.array(["a", 1, 2.0, None], dtype=object),
        objects([("a", 1), ("b", 2)]),
    ],
)
def test_classes_may_be_of_any_type(labels):
    check_classes(labels)


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (np.array([1.0, 0.5]), "0.5"),
        (np.array(["a", 0.5], dtype=object), "0.5"),
        (np.array([1.0, np.inf]), "inf.*Input y contains infinity"),
        (np.array([1j, 0]), "1j"),
        (objects([["a"], ["b"]]), r"\['a'\]"),
    ],
)
def test_numbers_on_a_scale_are_no_classes(labels, shown):
    with pytest.raises(ValueError, match=f"must hold classes, such as text.*got .*{shown}"):
        check_classes(labels)


def found(*classes):
    return [np.array(labels) for labels in classes]


def test_classes_of_tasks_are_those_that_occur():
    y, task = np.array(["b", "a", "c", "a"]), np.array([0, 2, 0, 0])
    assert [labels.tolist() for labels in classes_by_task(y, task, 3)] == [
        ["a", "b", "c"],
        [],
        ["a"],
    ]


@pytest.mark.parametrize(
    ("sets", "are_own"),
    [
        ([["a", "b"], ["c", "d"]], True),
        ([["a", "b"], ["b", "c"]], False),
        ([["a", "b"], ["c"]], False),
        ([["a", "b"], ["a", "b"]], False),
        ([["a", "b"], []], False),
        ([["a", "b"], np.array([], dtype=str), ["c", "d"]], True),
    ],
)
def test_classes_are_guessed_to_be_own_only_where_no_two_tasks_share_one(sets, are_own):
    assert class_sets(found(*sets), classes=None)[1] == are_own


def test_users_say_whether_classes_are_shared():
    sets, are_own = class_sets(found(["a", "b"], ["c", "d"]), classes="shared")
    assert not are_own
    assert [s.tolist() for s in sets] == [["a", "b", "c", "d"]] * 2
    assert class_sets(found(["a", "b"], ["a", "b"]), classes="per-task")[1]


def test_one_task_has_nothing_to_share():
    assert not class_sets(found(["a", "b"]), classes="per-task")[1]


def test_other_words_for_classes_are_an_error():
    with pytest.raises(ValueError, match="must be one of None, 'shared', 'per-task': got 'own'"):
        class_sets(found(["a"]), classes="own")


def test_tasks_differ_where_one_lacks_a_class_but_not_where_it_lacks_labels():
    assert are_different(found(["a", "b"], ["a"]))
    assert not are_different(found(["a", "b"], ["a", "b"], []))


@pytest.mark.parametrize(
    ("classes", "y"),
    [
        (np.array(["a", "b"]), np.array(["b", "a"])),
        (np.array([1, 5]), np.array([5, 1], dtype=object)),
        (objects([("a", 1), ("b", 2)]), objects([("b", 2), ("a", 1)])),
    ],
)
def test_labels_have_their_position_among_the_classes(classes, y):
    assert positions_in(classes, y).tolist() == [1, 0]
