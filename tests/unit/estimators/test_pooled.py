"""Pooled estimators are one model of scikit-learn for all rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression, Ridge

from multirel.estimators import PooledClassifier, PooledRegressor
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty
from tests.unit.estimators.linear.quadratic_oracle import make_problem
from tests.unit.estimators.rows_of_tasks import make_rows


def estimator_for(n_classes):
    return PooledRegressor if n_classes is None else PooledClassifier


def test_the_regressor_is_ridge_for_all_rows():
    x, y, tasks = make_rows()
    model = PooledRegressor(strength=6.0, standardize=False).fit(x, y, tasks=tasks)
    ridge = Ridge(alpha=3.0).fit(x, y)

    assert model.coef_.shape == (4, 1, 5)
    for coef, intercept in zip(model.coef_, model.intercept_, strict=True):
        assert_allclose(coef[0], ridge.coef_, atol=1e-9)
        assert_allclose(intercept[0], ridge.intercept_, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_classifier_is_logistic_regression_for_all_rows(n_classes):
    x, y, tasks = make_rows(n_classes=n_classes)
    model = PooledClassifier(strength=2.0, standardize=False).fit(x, y, tasks=tasks)
    logistic = LogisticRegression(C=0.5, tol=1e-10, max_iter=10000).fit(x, y)

    assert_allclose(model.coef_[3], logistic.coef_, atol=1e-5)
    assert_allclose(model.predict_proba(x, tasks=tasks), logistic.predict_proba(x), atol=1e-5)


def test_intercepts_of_tasks_are_columns_that_nobody_penalizes():
    x, y, tasks = make_rows()
    model = PooledRegressor(strength=6.0, standardize=False, task_intercepts=True)
    model.fit(x, y, tasks=tasks)

    names = np.unique(tasks)
    wide = np.column_stack([x, tasks[:, None] == names])
    penalty = np.diag([3.0] * 5 + [0.0] * 4)
    expected = np.linalg.solve(wide.T @ wide + penalty, wide.T @ y)
    assert_allclose(model.coef_[0, 0], expected[:5], atol=1e-9)
    assert_allclose(model.intercept_[:, 0], expected[5:], atol=1e-9)


@pytest.mark.parametrize("n_classes", [None, 2, 3])
@pytest.mark.parametrize("own", [False, True])
def test_tasks_without_labels_have_the_pooled_weights(n_classes, own):
    x, y, tasks = make_rows(n_classes=n_classes)
    y = y.astype(object)
    y[tasks == "task 2"] = None
    model = estimator_for(n_classes)(task_intercepts=own, standardize=False)
    model.fit(x, y, tasks=tasks)

    assert_allclose(model.coef_[2], model.coef_[0])
    assert_allclose(model.intercept_[2], model.intercept_[[0, 1, 3]].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize(("loss", "n_outputs"), [("squared", 1), ("binary", 1), ("softmax", 3)])
def test_correlation_to_one_gives_pooled_weights_and_to_zero_single_tasks(loss, n_outputs):
    problem = make_problem(loss, [30, 25, 35], n_outputs=n_outputs, noise=3.0)
    one = ModeSpectrum.identity()
    ridge = QuadraticPenalty.ridge(0.05)
    pooled = PooledRegressor(strength=0.05 * problem.n_samples, task_intercepts=True)
    limits = {1 - 1e-9: pooled._solve(problem).weights}
    limits[1e-9] = solve_quadratic(problem, ridge, tolerance=1e-6).weights
    for correlation, expected in limits.items():
        covariance = (1 - correlation) * np.eye(3) + correlation
        task = ModeSpectrum.from_covariance(covariance)
        penalty = QuadraticPenalty(strength=0.05, task=task, output=one, input=one)
        solution = solve_quadratic(problem, penalty, tolerance=1e-6)
        assert_allclose(solution.weights, expected, atol=1e-6)


@pytest.mark.parametrize("own", [False, True])
def test_a_start_from_another_strength_gives_the_same(own):
    problem = make_problem("binary", [30, 25, 35], noise=3.0)
    cold = PooledRegressor(strength=2.0, task_intercepts=own)._solve(problem)
    near = PooledRegressor(strength=3.0, task_intercepts=own)._solve(problem)
    warm = PooledRegressor(strength=2.0, task_intercepts=own)._solve(problem, start=near)

    assert_allclose(warm.weights, cold.weights, atol=1e-6)
    assert_allclose(warm.intercepts, cold.intercepts, atol=1e-6)


def test_tasks_with_classes_of_their_own_cannot_be_pooled():
    x, y, tasks = make_rows(n_classes=2)
    own = np.char.add(tasks.astype(str), y.astype(str))
    with pytest.raises(
        ValueError, match="`hidden_sizes` must have a layer where tasks have different"
    ):
        PooledClassifier().fit(x, own, tasks=tasks)


def test_the_network_is_one_for_all_tasks():
    plan = PooledClassifier(task_intercepts=True)._plan()

    assert plan.sharing == "all"
    assert plan.task_intercepts
    assert plan.prior is None
