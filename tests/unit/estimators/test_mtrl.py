import numpy as np
import pytest
from scipy.linalg import sqrtm

from multirel.data import make_related_tasks
from multirel.estimators import MTRLClassifier, MTRLRegressor, SingleTaskRegressor

EXACT = 1e-12


@pytest.fixture(scope="module")
def data():
    return make_related_tasks(5, [12, 20, 15, 9, 30], 6, correlation=0.7, seed=1)


def test_the_task_covariance_is_the_root_of_the_weights_products_with_trace_t(data):
    model = MTRLRegressor(strength=0.1, standardize=False).fit(data.X, data.y, tasks=data.tasks)
    weights = model.coef_[:, 0]
    root = np.real(sqrtm(weights @ weights.T))
    expected = 5 * root / np.trace(root)
    np.testing.assert_allclose(model.task_covariance_, expected, atol=1e-6)
    deviation = np.sqrt(np.diag(expected))
    correlation = expected / np.outer(deviation, deviation)
    np.testing.assert_allclose(model.task_correlation_, correlation, atol=1e-6)


def test_with_equal_tasks_the_objective_is_that_of_the_paper(data):
    model = MTRLRegressor(strength=0.5, ridge=0.2, standardize=False, task_weighting="equal")
    model.fit(data.X, data.y, tasks=data.tasks)
    losses = (model.predict(data.X, tasks=data.tasks) - data.y) ** 2
    means = [losses[data.tasks == task].mean() for task in model.tasks_]
    w = model.coef_[:, 0]
    omega = model.task_covariance_ / 5
    between = np.trace(w.T @ np.linalg.pinv(omega, rcond=1e-9) @ w)
    expected = sum(means) + 0.1 * (w**2).sum() + 0.25 * between
    assert model.objective_ == pytest.approx(expected, rel=1e-6)


def test_without_relations_it_is_single_task_ridge(data):
    model = MTRLRegressor(strength=0.0, ridge=0.3, tolerance=EXACT)
    model.fit(data.X, data.y, tasks=data.tasks)
    single = SingleTaskRegressor(strength=0.3 * len(data.y), tolerance=EXACT)
    single.fit(data.X, data.y, tasks=data.tasks)
    np.testing.assert_allclose(model.coef_, single.coef_, atol=1e-7)


def test_the_order_of_the_tasks_changes_nothing(data):
    model = MTRLRegressor(tolerance=EXACT).fit(data.X, data.y, tasks=data.tasks)
    names = np.array([f"{9 - t}" for t in range(5)])
    number = np.searchsorted(model.tasks_, data.tasks)
    other = MTRLRegressor(tolerance=EXACT).fit(data.X, data.y, tasks=names[number])
    np.testing.assert_allclose(other.coef_[::-1], model.coef_, atol=1e-7)
    np.testing.assert_allclose(
        other.task_covariance_[::-1, ::-1], model.task_covariance_, atol=1e-6
    )


def test_tasks_without_labels_have_no_correlations(data):
    y = data.y.astype(float).copy()
    y[data.tasks == data.tasks[0]] = np.nan
    model = MTRLRegressor().fit(data.X, y, tasks=data.tasks)
    missing = model.tasks_ == data.tasks[0]
    assert np.isnan(model.task_correlation_[missing]).all()
    assert np.isfinite(model.task_correlation_[~missing][:, ~missing]).all()
    assert not model.coef_[missing].any()


def test_related_classes_are_found_related():
    data = make_related_tasks(4, 150, 5, n_classes=2, correlation=0.95, seed=2)
    model = MTRLClassifier(strength=0.01, ridge=0.0).fit(data.X, data.y, tasks=data.tasks)
    assert model.multi_class_ == "binary"
    assert model.task_correlation_.min() > 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ridge": -1.0}, "`ridge` must be a finite number that is not negative"),
        ({"ridge": 0.0, "strength": 0.0}, "`strength` must be above 0"),
    ],
)
def test_strengths_must_make_the_problem_well_posed(data, settings, message):
    with pytest.raises(ValueError, match=message):
        MTRLRegressor(**settings).fit(data.X, data.y, tasks=data.tasks)
