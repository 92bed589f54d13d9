"""Labels of tasks that predict numbers."""

from decimal import Decimal

import numpy as np
import pytest

from multirel.estimators._numbers import as_numbers


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1, 2]),
        np.array([True, False]),
        np.array([1, 2.5], dtype=object),
        np.array([Decimal(1), Decimal("2.5")], dtype=object),
    ],
)
def test_labels_become_numbers_of_double_precision(labels):
    numbers = as_numbers(labels)
    assert numbers.dtype == np.float64
    assert numbers.tolist() == [float(label) for label in labels]


@pytest.mark.parametrize("labels", [np.array(["1", "2"]), np.array([1.0, "2"], dtype=object)])
def test_text_is_no_number(labels):
    with pytest.raises(ValueError, match="`y` must hold numbers for regression: got '.'"):
        as_numbers(labels)


def test_infinity_is_an_error():
    with pytest.raises(ValueError, match="must hold finite numbers: got infinity"):
        as_numbers(np.array([1.0, np.inf]))
