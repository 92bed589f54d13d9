"""What all regressors say about rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from multirel.estimators import SingleTaskRegressor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
TASKS = np.repeat(["a", "b", "c"], 10)
Y = X @ [1.0, 2.0, -1.0] + np.repeat([0.0, 5.0, -3.0], 10) + 0.5 * RNG.standard_normal(30)


def test_predictions_are_the_linear_functions_of_the_tasks():
    estimator = SingleTaskRegressor().fit(X, Y, tasks=TASKS)
    assert estimator.coef_.shape == (3, 1, 3)
    assert estimator.intercept_.shape == (3, 1)
    number = np.repeat([0, 1, 2], 10)
    expected = (
        np.einsum("nf,nf->n", X, estimator.coef_[number, 0]) + estimator.intercept_[number, 0]
    )
    np.testing.assert_allclose(estimator.predict(X, tasks=TASKS), expected)


def test_the_score_is_the_average_of_r2():
    estimator = SingleTaskRegressor().fit(X, Y, tasks=TASKS)
    predicted = estimator.predict(X, tasks=TASKS)
    expected = np.mean([r2_score(Y[TASKS == t], predicted[TASKS == t]) for t in "abc"])
    assert estimator.score(X, Y, tasks=TASKS) == pytest.approx(expected)


def test_predictions_of_all_tasks_have_a_column_each():
    y = pd.DataFrame({"u": Y, "v": -Y})
    estimator = SingleTaskRegressor().fit(X, y)
    predicted = estimator.predict(X)
    assert predicted.shape == (30, 2)
    np.testing.assert_allclose(estimator.predict(X, tasks=["v"] * 30), predicted[:, 1])
    assert estimator.score(X, y) == pytest.approx(r2_score(Y, predicted[:, 0]), abs=1e-6)


def test_text_is_no_number():
    with pytest.raises(ValueError, match="`y` must hold numbers for regression: got 'a'"):
        SingleTaskRegressor().fit(X, ["a"] * 30, tasks=TASKS)
