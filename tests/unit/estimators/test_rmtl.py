import numpy as np
import pytest

from multirel.data import make_related_tasks
from multirel.estimators import MTFLRegressor, RMTLClassifier, RMTLRegressor

EXACT = 1e-12


@pytest.fixture(scope="module")
def data():
    """Eight tasks with the same weights, but for one."""
    rng = np.random.default_rng(0)
    x, tasks = rng.normal(size=(240, 5)), np.repeat([f"task {t}" for t in range(8)], 30)
    shared, own = rng.normal(size=5), 3 * rng.normal(size=5)
    y = x @ shared + (tasks == "task 5") * (x @ own) + 0.1 * rng.normal(size=240)
    return x, y, tasks


def fit(data, **settings):
    x, y, tasks = data
    return RMTLRegressor(**settings).fit(x, y, tasks=tasks)


def test_the_outlier_is_found(data):
    model = fit(data, strength=0.3, outlier_strength=0.2)
    assert model.outlier_tasks_.tolist() == ["task 5"]
    assert np.linalg.matrix_rank(model.shared_coef_[:, 0], tol=1e-6) == 1


def test_both_parts_are_in_the_users_units(data):
    x, y, tasks = data
    model = fit((x * np.arange(1, 6), y, tasks), strength=0.3, outlier_strength=0.2)
    np.testing.assert_allclose(model.shared_coef_ + model.outlier_coef_, model.coef_, atol=1e-12)
    same = fit(data, strength=0.3, outlier_strength=0.2)
    np.testing.assert_allclose(
        model.outlier_coef_ * np.arange(1, 6), same.outlier_coef_, rtol=1e-3, atol=1e-3
    )


def test_the_objective_is_the_mean_loss_plus_both_norms(data):
    x, y, tasks = data
    model = fit(data, strength=0.3, outlier_strength=0.2, standardize=False)
    loss = ((model.predict(x, tasks=tasks) - y) ** 2).mean()
    shared = np.linalg.norm(model.shared_coef_[:, 0], "nuc")
    own = np.linalg.norm(model.outlier_coef_[:, 0], axis=1).sum()
    assert model.objective_ == pytest.approx(loss + 0.3 * shared + 0.2 * own)


def test_without_outliers_it_is_feature_learning_at_another_strength(data):
    x, y, tasks = data
    model = fit(data, strength=0.2, outlier_strength=1e3, tolerance=EXACT, standardize=False)
    assert len(model.outlier_tasks_) == 0
    strength = 0.2 / (2 * np.linalg.norm(model.coef_[:, 0], "nuc"))
    other = MTFLRegressor(strength=strength, tolerance=EXACT, standardize=False)
    np.testing.assert_allclose(other.fit(x, y, tasks=tasks).coef_, model.coef_, atol=1e-6)


def test_large_strengths_leave_intercepts_alone(data):
    _, y, tasks = data
    model = fit(data, strength=1e3, outlier_strength=1e3)
    assert not model.coef_.any()
    means = [[y[tasks == task].mean()] for task in model.tasks_]
    np.testing.assert_allclose(model.intercept_, means)


def test_classes_have_parts_of_their_own():
    data = make_related_tasks(4, 40, 6, n_classes=3, correlation=0.7, seed=1)
    model = RMTLClassifier(strength=0.02, outlier_strength=0.02)
    model.fit(data.X, data.y, tasks=data.tasks)
    assert model.multi_class_ == "one-vs-rest"
    assert model.shared_coef_.shape == model.outlier_coef_.shape == (4, 3, 6)
    assert model.gap_ <= 1e-6


def test_a_path_starts_from_both_parts(data):
    from multirel.estimators._fit_input import read_fit_input
    from multirel.estimators._fit_linear import build_problem

    x, y, tasks = data
    model = RMTLRegressor(strength=0.3, outlier_strength=0.2)
    rows = read_fit_input(model, x, y, tasks=tasks, sample_weight=None)
    problem, _ = build_problem(model, rows)
    first = model._solve(problem)
    assert model._solve(problem, start=first).n_iterations == 0


@pytest.mark.parametrize("name", ["strength", "outlier_strength"])
def test_strengths_must_be_above_zero(data, name):
    with pytest.raises(ValueError, match=f"`{name}` must be above 0"):
        fit(data, **{name: 0.0})


def test_what_is_not_fitted_has_no_outliers():
    with pytest.raises(
        AttributeError, match="'RMTLRegressor' object has no attribute 'outlier_tasks_'"
    ):
        _ = RMTLRegressor().outlier_tasks_
