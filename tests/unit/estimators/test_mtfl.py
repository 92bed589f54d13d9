import numpy as np
import pytest
from scipy.linalg import sqrtm

from multirel.data import make_related_tasks
from multirel.estimators import MTFLClassifier, MTFLRegressor, MTRLRegressor

EXACT = 1e-12


@pytest.fixture(scope="module")
def data():
    return make_related_tasks(5, [12, 20, 15, 9, 30], 6, correlation=0.7, seed=1)


@pytest.fixture(scope="module")
def classes():
    return make_related_tasks(4, 40, 6, n_classes=3, correlation=0.7, seed=1)


def test_the_input_covariance_is_the_root_of_the_weights_products(data):
    model = MTFLRegressor(strength=0.05, standardize=False).fit(data.X, data.y, tasks=data.tasks)
    weights = model.coef_[:, 0]
    root = np.real(sqrtm(weights.T @ weights))
    expected = 6 * root / np.trace(root)
    np.testing.assert_allclose(model.input_covariance_, expected, atol=1e-6)
    np.testing.assert_allclose(np.diag(model.input_correlation_), 1)


def test_the_objective_is_the_mean_loss_plus_the_squared_trace_norm(data):
    model = MTFLRegressor(strength=0.05, standardize=False).fit(data.X, data.y, tasks=data.tasks)
    losses = (model.predict(data.X, tasks=data.tasks) - data.y) ** 2
    penalty = 0.05 * np.linalg.norm(model.coef_[:, 0], "nuc") ** 2
    assert model.objective_ == pytest.approx(losses.mean() + penalty)


def test_with_equal_tasks_the_loss_is_the_sum_of_their_means(data):
    model = MTFLRegressor(strength=0.3, standardize=False, task_weighting="equal")
    model.fit(data.X, data.y, tasks=data.tasks)
    losses = (model.predict(data.X, tasks=data.tasks) - data.y) ** 2
    means = [losses[data.tasks == task].mean() for task in model.tasks_]
    penalty = 0.3 * np.linalg.norm(model.coef_[:, 0], "nuc") ** 2
    assert model.objective_ == pytest.approx(sum(means) + penalty)


def test_it_is_task_relationship_learning_without_a_ridge(data):
    features = MTFLRegressor(strength=0.05, tolerance=EXACT).fit(data.X, data.y, tasks=data.tasks)
    relations = MTRLRegressor(strength=0.1, ridge=0.0, tolerance=EXACT)
    relations.fit(data.X, data.y, tasks=data.tasks)
    np.testing.assert_allclose(relations.coef_, features.coef_, atol=1e-6)


def test_more_than_two_classes_are_one_against_the_rest(classes):
    model = MTFLClassifier(strength=0.005, tolerance=EXACT).fit(
        classes.X, classes.y, tasks=classes.tasks
    )
    assert model.multi_class_ == "one-vs-rest"
    for position, name in enumerate(model.classes_):
        one = MTFLClassifier(strength=0.005, tolerance=EXACT)
        one.fit(classes.X, classes.y == name, tasks=classes.tasks)
        np.testing.assert_allclose(model.coef_[:, position], one.coef_[:, 0], atol=1e-5)
    probabilities = model.predict_proba(classes.X, tasks=classes.tasks)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_classes_by_the_squared_loss_are_regression_on_signs(classes):
    first = classes.y == classes.y[0]
    model = MTFLClassifier(strength=0.02, loss="squared", tolerance=EXACT)
    model.fit(classes.X, first, tasks=classes.tasks)
    numbers = MTFLRegressor(strength=0.02, tolerance=EXACT)
    numbers.fit(classes.X, 2.0 * first - 1, tasks=classes.tasks)
    np.testing.assert_allclose(model.coef_, numbers.coef_, atol=1e-6)


def test_weights_of_rows_equal_repetition(data):
    weight = np.random.default_rng(0).integers(0, 4, size=len(data.y))
    weighted = MTFLRegressor(strength=0.05, tolerance=EXACT)
    weighted.fit(data.X, data.y, tasks=data.tasks, sample_weight=weight)
    index = np.repeat(np.arange(len(data.y)), weight)
    repeated = MTFLRegressor(strength=0.05, tolerance=EXACT)
    repeated.fit(data.X[index], data.y[index], tasks=data.tasks[index])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


def test_more_features_than_rows_are_solved_in_the_span_of_the_rows():
    rng = np.random.default_rng(0)
    x, y, tasks = rng.normal(size=(30, 200)), rng.normal(size=30), np.repeat([0, 1, 2], 10)
    model = MTFLRegressor(strength=0.05, tolerance=EXACT).fit(x, y, tasks=tasks)
    # A rotation of features that have one scale changes nothing.
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    turned = x @ np.linalg.qr(rng.normal(size=(200, 200)))[0]
    rotated = MTFLRegressor(strength=0.05, tolerance=EXACT, standardize=False)
    rotated.fit(turned, y, tasks=tasks)
    expected = rotated.predict(turned, tasks=tasks)
    plain = MTFLRegressor(strength=0.05, tolerance=EXACT, standardize=False)
    np.testing.assert_allclose(
        plain.fit(x, y, tasks=tasks).predict(x, tasks=tasks), expected, atol=1e-6
    )
    assert model.input_covariance_.shape == (200, 200)
    assert np.trace(model.input_covariance_) == pytest.approx(200)


@pytest.mark.parametrize("strength", [0.0, -1.0])
def test_a_strength_that_is_not_above_zero_is_an_error(data, strength):
    with pytest.raises(ValueError, match="`strength` must"):
        MTFLRegressor(strength=strength).fit(data.X, data.y, tasks=data.tasks)


def test_what_is_not_fitted_has_no_covariance():
    assert not hasattr(MTFLRegressor(), "input_covariance_")
