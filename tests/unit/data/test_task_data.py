"""Rows of several tasks stay together with their labels and tasks."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from multirel.data import TaskData, make_related_tasks


def make(**changes) -> TaskData:
    fields = {
        "X": np.arange(8.0).reshape(4, 2),
        "y": np.array([0.5, 1.5, 2.5, 3.5]),
        "tasks": np.array(["a", "b", "a", "a"]),
        "task_names": ("a", "b"),
        "kind": "regression",
    }
    return TaskData(**(fields | changes))


@pytest.mark.parametrize("index", [[2, 0], np.array([True, False, True, False])])
def test_selected_rows_keep_labels_tasks_and_names(index):
    selected = make().select(index)
    assert len(selected) == 2
    assert sorted(selected.y.tolist()) == [0.5, 2.5]
    assert selected.tasks.tolist() == ["a", "a"]
    assert selected.task_names == ("a", "b")
    assert selected.n_rows_per_task == {"a": 2, "b": 0}
    np.testing.assert_array_equal(selected.X, make().X[index])


def test_sparse_features_stay_sparse():
    selected = make(X=csr_array(np.eye(4))).select([3, 1])
    assert selected.X.toarray().tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]


def test_the_truth_goes_with_selected_rows():
    data = make_related_tasks(2, 5, 3)
    assert data.select([0]).true_weights is data.true_weights


def test_the_text_of_data_says_what_is_in_it():
    assert repr(make()) == "TaskData(4 rows, 2 tasks, 2 features, regression)"
    images = make(X=np.zeros((4, 3, 8, 8)))
    assert repr(images) == "TaskData(4 rows, 2 tasks, 3×8×8 features, regression)"


def test_fields_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="same number of rows: got X 4, y 3, tasks 4"):
        make(y=np.zeros(3))


def test_tasks_without_a_name_are_refused():
    with pytest.raises(ValueError, match="expected some of a, b, got 'c'"):
        make(tasks=np.array(["a", "b", "c", "a"]))
