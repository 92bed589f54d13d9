"""Settings that make no sense are refused, each in a sentence."""

from types import SimpleNamespace

import numpy as np
import pytest

from multirel.estimators._settings import check_settings

GOOD = {
    "strength": 0.0,
    "tolerance": 1e-6,
    "learning_rate": 0.1,
    "max_epochs": 1,
    "batch_size": np.int64(8),
    "loss": "squared",
    "hidden_sizes": (8, 4),
}


@pytest.mark.parametrize(
    "change", [{}, {"hidden_sizes": ()}, {"hidden_sizes": [3]}, {"strength": np.float32(2)}]
)
def test_settings_that_make_sense_pass(change):
    check_settings(SimpleNamespace(**GOOD | change))


def test_settings_that_an_estimator_lacks_are_not_asked_for():
    check_settings(SimpleNamespace())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("strength", -1.0, "`strength` must be a finite number that is not negative: got -1.0"),
        ("strength", "1", "`strength` must be a finite number that is not negative: got '1'"),
        ("strength", np.inf, "`strength` must be a finite number"),
        ("tolerance", 0.0, "`tolerance` must be a finite number above 0: got 0.0"),
        ("tolerance", True, "`tolerance` must be a finite number above 0: got True"),
        ("learning_rate", None, "`learning_rate` must be a finite number above 0: got None"),
        ("max_epochs", 0, "`max_epochs` must be a whole number above 0: got 0"),
        ("batch_size", 2.0, "`batch_size` must be a whole number above 0: got 2.0"),
        ("loss", "hinge", "`loss` must be one of 'logistic', 'squared': got 'hinge'"),
        ("standardize", "no", "`standardize` must be True or False: got 'no'"),
        ("task_intercepts", 1, "`task_intercepts` must be True or False: got 1"),
        (
            "task_column",
            1.5,
            "`task_column` must be the name or number of a column, or None: got 1.5",
        ),
        ("task_column", True, "`task_column` must be the name or number of a column.*got True"),
        ("verbose", "x", "`verbose` must be True or False: got 'x'"),
        ("weights", "a.pth", "`weights` must be None without a backbone.*got 'a.pth'"),
        (
            "device",
            "nope",
            "`device` must be a device of torch, such as 'cpu' or 'cuda': got 'nope'",
        ),
        ("device", 1.5, "`device` must be a device of torch.*got 1.5"),
        ("random_state", "x", "'x' cannot be used to seed"),
        ("kinds", "regression", "`kinds` must be a mapping from task.*got 'regression'"),
        ("hidden_sizes", 256, r"`hidden_sizes` must be a sequence.*got 256. Write `\(256,\)`"),
        ("hidden_sizes", (8, 0), r"`hidden_sizes` must be a sequence.*got \(8, 0\)"),
        ("hidden_sizes", "256", "`hidden_sizes` must be a sequence.*got '256'"),
    ],
)
def test_settings_that_make_no_sense_are_errors(name, value, message):
    with pytest.raises(ValueError, match=message):
        check_settings(SimpleNamespace(**GOOD | {name: value}))
