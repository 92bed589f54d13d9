"""Arrays from what users have, and the column that names the tasks."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

from multirel.estimators._columns import (
    as_array,
    is_missing,
    objects,
    take_column,
    to_labels,
    without_objects,
)


def test_tensors_that_need_gradients_become_arrays():
    tensor = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    np.testing.assert_array_equal(as_array(tensor), np.ones((2, 3)))


def test_tensors_of_a_type_that_numpy_lacks_become_single_precision():
    array = as_array(torch.tensor([1.5, 2.0], dtype=torch.bfloat16))
    assert array.dtype == np.float32
    assert array.tolist() == [1.5, 2.0]


def test_sparse_tensors_stay_sparse():
    # torch asks to be told whether to check them.
    with torch.sparse.check_sparse_tensor_invariants(True):
        tensor = torch.tensor([[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]]).to_sparse()
        array = as_array(tensor)
    assert sparse.issparse(array)
    assert array.toarray().tolist() == [[0, 0, 3], [4, 0, 0]]


def test_what_is_no_tensor_stays_what_it_is():
    frame = pd.DataFrame({"a": [1]})
    assert as_array(frame) is frame


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", None], ["a", None]),
        (["a", 1], ["a", 1]),
        ([True, None], [True, None]),
        ([1, 2], [1, 2]),
        (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
        (pl.Series(["a", None]), ["a", None]),
        (torch.tensor([1, 2]), [1, 2]),
        ([["a", None], [None, "b"]], [["a", None], [None, "b"]]),
    ],
)
def test_labels_stay_what_they_are(given, expected):
    assert to_labels(given).tolist() == expected


def test_text_in_a_list_stays_text():
    assert to_labels(["a", "bc"]).dtype.kind == "U"


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ([True, np.False_], "b"),
        ([1, np.int32(2)], "i"),
        ([1, 2.5], "f"),
        ([True, 2], "O"),
        ([1, "a"], "O"),
        (["a", 1], "O"),
        ([2**70, 1], "O"),
        ([Decimal("1.5")], "O"),
        ([], "O"),
    ],
)
def test_objects_of_one_plain_type_get_that_type(given, kind):
    found = without_objects(objects(given))
    assert found.dtype.kind == kind
    assert found.tolist() == given


def test_tuples_may_be_entries():
    array = objects([("a", 1), ("b", 2)])
    assert array.shape == (2,)
    assert array[1] == ("b", 2)


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, np.nan]),
        np.array(["a", None], dtype=object),
        np.array(["a", np.nan], dtype=object),
        np.array(["a", pd.NA], dtype=object),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        objects([("a", 1), None]),
    ],
    ids=["nan", "none", "object-nan", "pandas", "time", "tuples"],
)
def test_nothing_is_found_in_all_its_forms(values):
    assert is_missing(values).tolist() == [False, True]


def test_integers_and_text_are_never_missing():
    assert not is_missing(np.array([-1, 0])).any()
    assert not is_missing(np.array(["nan", ""])).any()


FRAME = {"x": [1.0, 2.0], "site": ["a", "b"], "z": [3.0, 4.0]}


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(FRAME), pl.DataFrame(FRAME)], ids=["pandas", "polars"]
)
@pytest.mark.parametrize("column", ["site", 1, -2])
def test_a_column_is_taken_out_of_a_data_frame(frame, column):
    rest, taken = take_column(frame, column)
    assert taken.tolist() == ["a", "b"]
    assert list(rest.columns) == ["x", "z"]


def test_a_column_is_taken_out_of_an_array():
    rest, taken = take_column(np.arange(6.0).reshape(2, 3), -1)
    assert taken.tolist() == [2, 5]
    assert rest.tolist() == [[0, 1], [3, 4]]


def test_lists_keep_text_beside_numbers_apart():
    rest, taken = take_column([[1.0, "a"], [2.0, 7]], 1)
    assert taken.tolist() == ["a", 7]
    assert rest.tolist() == [[1.0], [2.0]]


def test_a_column_is_taken_out_of_a_sparse_matrix_that_stays_sparse():
    rest, taken = take_column(sparse.csc_array(np.array([[0, 1, 5], [1, 0, 6]])), 2)
    assert sparse.issparse(rest)
    assert taken.tolist() == [5, 6]
    assert rest.toarray().tolist() == [[0, 1], [1, 0]]


def test_a_column_that_is_not_in_the_frame_is_an_error_that_lists_the_columns():
    with pytest.raises(ValueError, match="expected one of x, site, z, got 'place'. A ColumnTransf"):
        take_column(pd.DataFrame(FRAME), "place")


def test_a_column_that_was_renamed_on_its_way_is_recognized():
    frame = pd.DataFrame({"remainder__site": ["a"], "x": [1]})
    with pytest.raises(ValueError, match="Name it as it is called here, 'remainder__site'"):
        take_column(frame, "site")


def test_a_name_where_columns_have_none_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match="must be the number of a column.*got 'site'.*set_output"):
        take_column(np.ones((2, 2)), "site")


def test_a_number_beyond_the_columns_is_an_error():
    with pytest.raises(ValueError, match="expected a number below 2, got 2"):
        take_column(np.ones((2, 2)), 2)
