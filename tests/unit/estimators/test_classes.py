"""The classes of every task, and labels as their positions."""

import numpy as np
import pytest

from multirel.estimators._classes import find_classes, kinds_of_tasks

TASK = np.array([0, 0, 1, 1])
BOTH = ("classification", "classification")
MIXED = ("classification", "regression")


def encode(labels, *, kinds=BOTH, classes=None, class_weight=None):
    found = find_classes(labels, TASK, kinds=kinds, classes=classes)
    return found, found.encode(labels, TASK, weight=np.ones(4), class_weight=class_weight)


def test_shared_classes_are_one_array():
    found, rows = encode(np.array(["b", "a", "b", "a"]))
    assert found.as_attribute().tolist() == ["a", "b"]
    assert rows.y.tolist() == [1, 0, 1, 0]
    assert not rows.has_own_classes
    assert not found.are_mixed


def test_own_classes_are_a_list():
    found, rows = encode(np.array(["b", "a", "d", "c"]))
    assert [c.tolist() for c in found.as_attribute()] == [["a", "b"], ["c", "d"]]
    assert rows.y.tolist() == [1, 0, 1, 0]
    assert rows.has_own_classes
    assert found.n_largest == 2


def test_overlapping_classes_are_shared_and_known_to_be_mixed():
    found, _ = encode(np.array(["b", "a", "b", "c"]))
    assert found.as_attribute().tolist() == ["a", "b", "c"]
    assert found.are_mixed


def test_numbers_stand_beside_classes():
    found, rows = encode(np.array(["b", "a", 1.5, 2.5], dtype=object), kinds=MIXED)
    assert rows.y.tolist() == [1, 0, 1.5, 2.5]
    assert rows.classes_of[1] is None
    assert found.as_attribute().tolist() == ["a", "b"]


def test_tasks_may_all_predict_numbers():
    found, rows = encode(np.arange(4.0), kinds=("regression",) * 2)
    assert rows.y.tolist() == [0, 1, 2, 3]
    assert len(found.as_attribute()) == 0


def test_weights_of_classes_multiply_those_of_rows():
    _, rows = encode(np.array(["b", "a", "b", "a"]), class_weight={"a": 3})
    assert rows.weight.tolist() == [1, 3, 1, 3]


def test_own_classes_are_balanced_within_their_task():
    task = np.array([0, 0, 0, 1, 1])
    labels = np.array(["a", "a", "b", "c", "d"])
    found = find_classes(labels, task, kinds=BOTH, classes=None)
    rows = found.encode(labels, task, weight=np.ones(5), class_weight="balanced")
    np.testing.assert_allclose(rows.weight, [0.75, 0.75, 1.5, 1, 1])


def test_weights_may_name_the_classes_of_any_task():
    _, rows = encode(np.array(["b", "a", "d", "c"]), class_weight={"a": 2, "d": 3})
    assert rows.weight.tolist() == [1, 2, 3, 1]


def test_two_classes_are_needed():
    with pytest.raises(ValueError, match="must hold at least two classes: got one class, 'a'"):
        encode(np.array(["a"] * 4))


def test_kinds_are_classes_unless_it_is_said():
    assert kinds_of_tasks(None, np.array(["a", "b"])) == BOTH
    assert kinds_of_tasks({"b": "regression"}, np.array(["a", "b"])) == MIXED


def test_kinds_of_strangers_are_an_error():
    with pytest.raises(ValueError, match="`kinds` must name tasks: expected some of 'a', got 'z'"):
        kinds_of_tasks({"z": "regression"}, np.array(["a"]))


def test_other_kinds_are_an_error():
    with pytest.raises(
        ValueError, match="must say 'classification' or 'regression': got 'count' for task 'a'"
    ):
        kinds_of_tasks({"a": "count"}, np.array(["a"]))
