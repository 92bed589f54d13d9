"""Rows for the training loop, and the units of features."""

import numpy as np
import torch
from scipy import sparse

from multirel.estimators._network_rows import InputUnits, LabelledRows, find_units
from tests.unit.estimators.network_builders import make_data, make_rows


def test_units_are_means_and_deviations_with_the_weights_of_rows():
    data = make_data()
    weight = np.random.default_rng(0).integers(0, 3, len(data.y)).astype(float)
    units = find_units(make_rows(data, weight=weight), standardize=True)
    repeated = np.repeat(data.x, weight.astype(int), axis=0)
    np.testing.assert_allclose(units.center, repeated.mean(0))
    np.testing.assert_allclose(units.scale, repeated.std(0))
    found = units.apply(repeated)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(found.std(0), 1)


def test_rows_that_occur_several_times_count_each_time():
    data = make_data()
    source = np.random.default_rng(1).integers(0, 10, len(data.y))
    units = find_units(make_rows(data, source=source), standardize=True)
    np.testing.assert_allclose(units.center, data.x[source].mean(0))


def test_without_standardization_features_stay_as_they_are():
    data = make_data()
    units = find_units(make_rows(data), standardize=False)
    np.testing.assert_array_equal(units.apply(data.x), data.x)


def test_sparse_features_are_scaled_only():
    data = make_data()
    x = np.where(data.x > 0, data.x, 0)
    units = find_units(make_rows(data, x=sparse.csr_array(x)), standardize=True)
    np.testing.assert_array_equal(units.center, 0)
    np.testing.assert_allclose(units.apply(sparse.csr_array(x)), x / x.std(0))


def test_features_in_single_precision_keep_small_differences_from_a_large_mean():
    units = InputUnits(center=np.array([1e6]), scale=np.array([1.0]))
    np.testing.assert_array_equal(units.apply(np.array([[1e6 + 0.5]], dtype=np.float32)), [[0.5]])


def make_labelled() -> LabelledRows:
    return LabelledRows(
        torch.arange(3.0).unsqueeze(1),
        torch.tensor([2, 0, 2, 1]),
        torch.tensor([5.0, 6.0, 7.0, 8.0]),
        task=torch.tensor([0, 1, 1, 0]),
        weight=torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64),
        n_tasks=3,
    )


def test_labelled_rows_share_what_the_network_sees():
    rows = make_labelled()
    batch = rows.take(torch.tensor([2, 1]))
    assert batch.x.flatten().tolist() == [2.0, 0.0]
    assert batch.y.tolist() == [7.0, 6.0]
    assert batch.task.tolist() == [1, 1]
    assert batch.weight.tolist() == [0.5, 2.0]
    assert (len(rows), rows.n_tasks, rows.n_samples) == (4, 3, 4.5)


def test_some_rows_are_rows_again():
    rows = make_labelled().select(torch.tensor([3, 0])).select(torch.tensor([1]))
    assert rows.take(torch.tensor([0])).y.tolist() == [5.0]
    assert rows.without_missing() is rows
    assert rows.checksum() != make_labelled().checksum()
