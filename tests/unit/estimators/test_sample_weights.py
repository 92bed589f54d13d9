"""What every row counts."""

import numpy as np
import pytest
import torch

from multirel.estimators._sample_weights import read_sample_weight

X = np.ones((3, 2))


@pytest.mark.parametrize("given", [[1, 2, 0], np.array([1, 2, 0]), torch.tensor([1, 2, 0])])
def test_weights_are_numbers_of_double_precision(given):
    weight = read_sample_weight(given, X)
    assert weight.dtype == np.float64
    assert weight.tolist() == [1, 2, 0]


def test_rows_count_one_where_nothing_is_said():
    assert read_sample_weight(None, X).tolist() == [1, 1, 1]


def test_negative_weights_are_an_error_that_names_the_row():
    with pytest.raises(ValueError, match="must not be negative: got -0.5 in row 1. Leave out rows"):
        read_sample_weight([1, -0.5, 1], X)


def test_another_number_of_weights_is_an_error():
    with pytest.raises(ValueError, match="sample_weight.shape"):
        read_sample_weight([1.0, 2.0], X)


def test_weights_that_are_not_finite_are_an_error():
    with pytest.raises(ValueError, match="NaN"):
        read_sample_weight([1.0, np.nan, 1.0], X)
