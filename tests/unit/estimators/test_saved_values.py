"""Values come back from JSON and arrays with their types."""

import json
from pathlib import Path

import numpy as np
import pytest

from multirel.estimators._linear._covariance_factors import CovarianceFactors
from multirel.estimators._saved_values import decode_value, encode_value


def there_and_back(value):
    arrays = {}
    code = json.loads(json.dumps(encode_value(value, "name", arrays), allow_nan=False))
    return decode_value(code, arrays)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        "oslo",
        0.1,
        float("inf"),
        [1, "a", None],
        (1, (2.5, None)),
        {"task": 0.1, 3: "x", None: True, ("a", 1): 2},
        [],
        {},
        np.float64(0.3),
        np.int32(4),
        np.str_("text"),
        np.bool_(True),
    ],
    ids=repr,
)
def test_values_come_back_with_their_types(value):
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_nothing_that_is_not_a_number_is_lost():
    assert np.isnan(there_and_back(float("nan")))
    assert np.isnan(there_and_back(np.float64("nan")))


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, np.nan, -np.inf]),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.asfortranarray(np.random.default_rng(0).standard_normal((3, 4))),
        np.array([True, False]),
        np.array(["a", "ÿ", ""]),
        np.array([2**63, 1], dtype=np.uint64),
        np.array([1, 2], dtype=">i4"),
        np.array(4.0),
        np.zeros((0, 3)),
        np.zeros(0, dtype="<U3"),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_arrays_come_back_to_the_bit(array):
    back = there_and_back(array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def test_arrays_of_objects_keep_the_type_of_every_entry():
    array = np.empty(5, dtype=object)
    array[:] = ["a", 1, 2.5, None, True]
    back = there_and_back(array)
    assert back.dtype == object
    assert [type(entry) for entry in back] == [type(entry) for entry in array]
    assert back.tolist() == array.tolist()


def test_masked_entries_stay_masked():
    column = np.ma.masked_array(np.array([0.3, None, (1, 2)], dtype=object), mask=[0, 1, 0])
    back = there_and_back(column)
    assert back.mask.tolist() == [False, True, False]
    assert back[2] == (1, 2)


def test_paths_become_text():
    assert there_and_back(Path("a") / "b") == str(Path("a") / "b")


def test_records_of_ours_come_back():
    factors = CovarianceFactors(basis=np.eye(3)[:, :1], inside=np.array([2.0]), outside=0.5)
    back = there_and_back({"relations": factors})["relations"]
    np.testing.assert_array_equal(back.dense(), factors.dense())


@pytest.mark.parametrize(
    "value",
    [object(), len, {1, 2}, 1j, b"bytes"],
    ids=["object", "function", "set", "complex", "bytes"],
)
def test_other_values_are_refused_by_name(value):
    with pytest.raises(TypeError, match="`grid.0` must be made of numbers, text, None, lists"):
        encode_value([value], "grid", {})


def test_arrays_of_other_types_are_refused():
    with pytest.raises(TypeError, match="got an array of datetime64"):
        encode_value(np.array(["2020-01-01"], dtype="M8[D]"), "tasks_", {})


@pytest.mark.parametrize(
    "code",
    [
        {"record": "Popen", "fields": {"args": "ls"}},
        {"scalar": 1, "dtype": "O"},
        {"values": [1], "shape": [1], "dtype": "V8"},
        {"other": 1},
        {},
    ],
    ids=repr,
)
def test_codes_that_nobody_writes_are_refused(code):
    with pytest.raises(ValueError, match="no value"):
        decode_value(code, {})
