"""Single-task estimators are one model of scikit-learn per task."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from multirel.estimators import SingleTaskClassifier, SingleTaskRegressor
from tests.unit.estimators.rows_of_tasks import make_rows


def test_the_regressor_is_ridge_with_half_the_strength():
    x, y, tasks = make_rows()
    model = SingleTaskRegressor(strength=6.0, standardize=False).fit(x, y, tasks=tasks)

    for number, name in enumerate(model.tasks_):
        ridge = Ridge(alpha=3.0).fit(x[tasks == name], y[tasks == name])
        assert_allclose(model.coef_[number, 0], ridge.coef_, atol=1e-9)
        assert_allclose(model.intercept_[number, 0], ridge.intercept_, atol=1e-9)
    assert model.coef_.shape == (4, 1, 5)
    assert model.gap_ <= 1e-6
    assert model.converged_


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_classifier_is_logistic_regression_with_the_inverse_strength(n_classes):
    x, y, tasks = make_rows(n_classes=n_classes)
    model = SingleTaskClassifier(strength=2.0, standardize=False).fit(x, y, tasks=tasks)

    for number, name in enumerate(model.tasks_):
        logistic = LogisticRegression(C=0.5, tol=1e-10, max_iter=10000)
        logistic.fit(x[tasks == name], y[tasks == name])
        assert_allclose(model.coef_[number], logistic.coef_, atol=1e-5)
        assert_allclose(model.intercept_[number], logistic.intercept_, atol=1e-5)


def test_squared_loss_of_two_classes_is_ridge_on_plus_and_minus_one():
    x, y, tasks = make_rows(n_classes=2)
    model = SingleTaskClassifier(strength=4.0, standardize=False, loss="squared")
    model.fit(x, y, tasks=tasks)

    mine = tasks == "task 1"
    ridge = Ridge(alpha=2.0).fit(x[mine], np.where(y[mine] == "class 1", 1.0, -1.0))
    assert_allclose(model.coef_[1, 0], ridge.coef_, atol=1e-9)


def test_standardizing_is_that_of_all_rows_together():
    x, y, tasks = make_rows()
    center, scale = x.mean(axis=0), x.std(axis=0)
    inside = SingleTaskRegressor(strength=6.0).fit(x, y, tasks=tasks)
    before = SingleTaskRegressor(strength=6.0, standardize=False)
    before.fit((x - center) / scale, y, tasks=tasks)

    assert_allclose(inside.coef_, before.coef_ / scale, atol=1e-9)
    predicted = before.predict((x - center) / scale, tasks=tasks)
    assert_allclose(inside.predict(x, tasks=tasks), predicted, atol=1e-9)


@pytest.mark.parametrize("order", ["rows", "tasks"])
@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_the_order_of_rows_and_tasks_changes_nothing(order, n_classes):
    x, y, tasks = make_rows(n_classes=n_classes)
    kind = SingleTaskRegressor if n_classes is None else SingleTaskClassifier
    one = kind().fit(x, y, tasks=tasks)
    if order == "rows":
        turn = np.random.default_rng(1).permutation(len(x))
        other = kind().fit(x[turn], y[turn], tasks=tasks[turn])
        coef = other.coef_
    else:
        renamed = np.array([f"task {9 - int(name[-1])}" for name in tasks])
        coef = kind().fit(x, y, tasks=renamed).coef_[::-1]

    assert_allclose(coef, one.coef_, atol=1e-6)


@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_tasks_without_labels_have_no_weights_and_the_average_intercept(n_classes):
    x, y, tasks = make_rows(n_classes=n_classes)
    y = y.astype(object)
    y[tasks == "task 2"] = None
    kind = SingleTaskRegressor if n_classes is None else SingleTaskClassifier
    model = kind(standardize=False).fit(x, y, tasks=tasks)

    assert_allclose(model.coef_[2], 0, atol=1e-9)
    assert_allclose(model.intercept_[2], model.intercept_[[0, 1, 3]].mean(axis=0))


def test_tasks_with_classes_of_their_own_are_separate_problems():
    x, y, tasks = make_rows(n_classes=3)
    own = np.where(tasks == "task 0", y, np.char.add(tasks.astype(str), y.astype(str)))
    binary = tasks == "task 3"
    own[binary] = np.where(own[binary] == own[binary][0], own[binary][0], "task 3 other")
    model = SingleTaskClassifier(strength=2.0, standardize=False).fit(x, own, tasks=tasks)

    assert isinstance(model.coef_, list)
    assert [weight.shape for weight in model.coef_] == [(3, 5), (3, 5), (3, 5), (1, 5)]
    for number, name in enumerate(model.tasks_):
        mine = tasks == name
        logistic = LogisticRegression(C=0.5, tol=1e-10, max_iter=10000).fit(x[mine], own[mine])
        assert_allclose(model.coef_[number], logistic.coef_, atol=1e-5)
        assert_allclose(model.intercept_[number], logistic.intercept_, atol=1e-5)
        assert (model.predict(x[mine], tasks=tasks[mine]) == logistic.predict(x[mine])).all()
    assert model.gap_ <= 1e-6
    assert model.converged_


def test_tasks_that_predict_numbers_may_stand_beside_those_of_classes():
    x, y, tasks = make_rows(n_classes=2)
    numbers, _, _ = make_rows()[1], None, None
    mixed = y.astype(object)
    is_number = tasks == "task 1"
    mixed[is_number] = numbers[is_number]
    model = SingleTaskClassifier(strength=6.0, standardize=False, kinds={"task 1": "regression"})
    model.fit(x, mixed, tasks=tasks)

    ridge = Ridge(alpha=3.0).fit(x[is_number], numbers[is_number])
    assert_allclose(model.coef_[1][0], ridge.coef_, atol=1e-9)
    predicted = model.predict(x, tasks=tasks)
    assert_allclose(predicted[is_number].astype(float), ridge.predict(x[is_number]))
    assert set(predicted[~is_number]) <= {"class 0", "class 1"}


@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_sparse_rows_give_the_same(n_classes):
    x, y, tasks = make_rows(n_classes=n_classes)
    x = x * (np.random.default_rng(3).random(x.shape) < 0.5)
    kind = SingleTaskRegressor if n_classes is None else SingleTaskClassifier
    settings = {"standardize": False, "strength": 3.0}
    dense = kind(**settings).fit(x, y, tasks=tasks)
    other = kind(**settings).fit(sparse.csr_array(x), y, tasks=tasks)

    assert_allclose(other.coef_, dense.coef_, atol=1e-7)


def test_no_penalty_is_least_squares():
    x, y, tasks = make_rows()
    model = SingleTaskRegressor(strength=0.0).fit(x, y, tasks=tasks)

    mine = tasks == "task 0"
    design = np.column_stack([x[mine], np.ones(mine.sum())])
    expected = np.linalg.lstsq(design, y[mine], rcond=None)[0]
    assert_allclose(model.coef_[0, 0], expected[:-1], atol=1e-9)
