"""What rows of every class count."""

import numpy as np
import pytest

from multirel.estimators._class_weights import check_class_weight, class_factors

CLASSES = np.array(["a", "b", "c"])


def test_classes_that_are_left_out_count_one():
    factors = class_factors({"b": 3.0}, CLASSES, np.array([0.0, 1, 1]), weight=np.ones(3))
    assert factors.tolist() == [1, 3, 3]


def test_balanced_classes_weigh_the_same_and_the_sum_stays():
    y, weight = np.array([0.0, 0, 0, 1]), np.array([1.0, 1, 2, 1])
    factors = class_factors("balanced", CLASSES, y, weight=weight)
    counted = factors * weight
    assert counted.sum() == pytest.approx(5)
    assert counted[:3].sum() == pytest.approx(counted[3])


def test_none_counts_one():
    assert class_factors(None, CLASSES, np.zeros(2), weight=np.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize(
    "class_weight", [None, "balanced", {"a": 2}, {"a": 1, "b": 2, "c": 0, "rare": 9}]
)
def test_weights_of_known_classes_are_taken(class_weight):
    """A class may be missing from a fold, as long as the others have a weight."""
    check_class_weight(class_weight, CLASSES.tolist())


def test_a_weight_for_a_class_that_does_not_exist_is_an_error():
    with pytest.raises(
        ValueError, match="must name classes of y: expected some of 'a', 'b', 'c', got 'A'"
    ):
        check_class_weight({"A": 2.0}, CLASSES.tolist())


@pytest.mark.parametrize("factor", [-1.0, np.nan, np.inf])
def test_weights_that_are_no_weights_are_an_error(factor):
    with pytest.raises(ValueError, match="must be finite and not negative: got .* for class 'a'"):
        check_class_weight({"a": factor}, CLASSES.tolist())


def test_other_words_are_an_error():
    with pytest.raises(ValueError, match="must be None, 'balanced' or a mapping.*got 'even'"):
        check_class_weight("even", CLASSES.tolist())
