"""Features in every form that users have, and the names that go with them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

from multirel.estimators import SingleTaskRegressor
from multirel.estimators._features import read_features

X = np.arange(6.0).reshape(3, 2)


def read(x, **settings):
    estimator = SingleTaskRegressor(**settings)
    return (*read_features(estimator, x, reset=True), estimator)


@pytest.mark.parametrize(
    "x",
    [
        X,
        X.tolist(),
        X.astype(int),
        pd.DataFrame(X),
        pl.DataFrame(X),
        torch.tensor(X),
        torch.tensor(X).int(),
    ],
    ids=["array", "list", "integers", "pandas", "polars", "tensor", "integer-tensor"],
)
def test_features_of_any_form_are_an_array(x):
    features, column, estimator = read(x)
    np.testing.assert_array_equal(features, X)
    assert features.dtype == np.float64
    assert column is None
    assert estimator.n_features_in_ == 2


def test_single_precision_stays_single():
    assert read(X.astype(np.float32))[0].dtype == np.float32


def test_arrays_are_not_copied():
    assert read(X)[0] is X


@pytest.mark.parametrize(
    "form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_array]
)
def test_sparse_features_are_rows_and_stay_sparse(form):
    features, _, _ = read(form(X))
    assert isinstance(features, sparse.csr_array)
    np.testing.assert_array_equal(features.toarray(), X)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns_are_kept_and_compared(frame):
    _, _, estimator = read(frame({"a": [1.0, 2.0], "b": [3.0, 4.0]}))
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        read_features(estimator, frame({"b": [1.0], "a": [2.0]}), reset=False)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_the_column_of_tasks_is_counted_and_taken_out(frame):
    features, column, estimator = read(
        frame({"a": [1.0, 2.0], "site": ["x", "y"]}), task_column="site"
    )
    assert column.tolist() == ["x", "y"]
    assert features.tolist() == [[1], [2]]
    assert estimator.n_features_in_ == 2
    assert estimator.feature_names_in_.tolist() == ["a", "site"]


def test_an_array_of_objects_may_hold_the_tasks():
    features, column, _ = read(np.array([[1, "x"], [2, "y"]], dtype=object), task_column=1)
    assert features.tolist() == [[1], [2]]
    assert column.tolist() == ["x", "y"]


def test_a_tensor_may_hold_the_tasks():
    features, column, _ = read(torch.tensor([[1.0, 7.0], [2.0, 8.0]]), task_column=1)
    assert features.tolist() == [[1], [2]]
    assert column.tolist() == [7, 8]


def test_images_have_no_column_of_tasks():
    with pytest.raises(ValueError, match="must be None with a backbone, whose X are images: got 0"):
        read(np.zeros((2, 3, 8, 8)), backbone="small-cnn", task_column=0)


def test_images_have_more_axes():
    images = np.zeros((2, 3, 8, 8), dtype=np.uint8)
    assert read(images, backbone="small-cnn")[0].dtype == np.uint8


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_features_are_finite(wrong):
    with pytest.raises(ValueError, match="Input X contains"):
        read(np.array([[1.0, wrong]]))
