"""Mean-regularized estimators minimize the formula of Evgeniou and Pontil (2004)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from multirel.estimators import (
    MeanRegularizedClassifier,
    MeanRegularizedRegressor,
    SingleTaskRegressor,
)
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty
from tests.unit.estimators.linear.quadratic_oracle import make_problem
from tests.unit.estimators.rows_of_tasks import make_rows


def formula(coef, intercept, data, *, strength, ridge, weighting, is_class):
    """The loss plus λ₁ Σ ‖w_t − w̄‖² + λ₂ ‖W‖²."""
    x, y, tasks = data
    losses = []
    for number, name in enumerate(np.unique(tasks)):
        mine = tasks == name
        f = x[mine] @ coef[number] + intercept[number]
        if is_class:
            losses.append(np.logaddexp(0, -np.where(y[mine] == "class 1", 1, -1) * f))
        else:
            losses.append((y[mine] - f) ** 2)
    each = np.concatenate(losses)
    loss = each.mean() if weighting == "rows" else sum(part.mean() for part in losses)
    return loss + strength * ((coef - coef.mean(axis=0)) ** 2).sum() + ridge * (coef**2).sum()


@pytest.mark.parametrize("weighting", ["rows", "equal"])
@pytest.mark.parametrize("n_classes", [None, 2])
def test_the_objective_is_the_formula_and_smallest(weighting, n_classes):
    data = make_rows(n_tasks=3, n_classes=n_classes)
    keep = np.ones(len(data[0]), dtype=bool)
    keep[np.flatnonzero(data[2] == "task 1")[:15]] = False
    data = tuple(part[keep] for part in data)
    kind = MeanRegularizedRegressor if n_classes is None else MeanRegularizedClassifier
    model = kind(strength=0.2, ridge=0.05, standardize=False, task_weighting=weighting)
    model.fit(data[0], data[1], tasks=data[2])

    def value(v):
        given = {"strength": 0.2, "ridge": 0.05, "weighting": weighting}
        coef, intercept = v[:15].reshape(3, 5), v[15:]
        return formula(coef, intercept, data, **given, is_class=n_classes is not None)

    best = minimize(value, np.zeros(18), method="BFGS", options={"gtol": 1e-7})
    mine = np.concatenate([model.coef_.ravel(), model.intercept_.ravel()])
    assert_allclose(model.objective_, value(mine), rtol=1e-10)
    assert model.objective_ <= best.fun * (1 + 1e-9)
    assert_allclose(mine, best.x, atol=1e-4)


@pytest.mark.parametrize(("loss", "n_outputs"), [("squared", 1), ("binary", 1), ("softmax", 3)])
def test_it_is_a_prior_with_one_correlation_that_is_held(loss, n_outputs):
    problem = make_problem(loss, [30, 25, 35], n_outputs=n_outputs, noise=3.0)
    model = MeanRegularizedRegressor(strength=0.2, ridge=0.05)
    model.tasks_ = np.arange(3)
    prior = model._plan().prior
    correlation = prior["start"]
    covariance = (1 - correlation) * np.eye(3) + correlation
    one, task = ModeSpectrum.identity(), ModeSpectrum.from_covariance(covariance)
    penalty = QuadraticPenalty(strength=prior["strength"], task=task, output=one, input=one)
    expected = solve_quadratic(problem, penalty, tolerance=1e-6)
    solution = model._solve(problem)

    assert correlation == pytest.approx(0.2 / (0.2 + 3 * 0.05))
    assert prior["n_updates"] == 0
    assert_allclose(solution.weights, expected.weights, atol=1e-7)
    assert_allclose(solution.objective, expected.objective, rtol=1e-9)


def test_without_a_pull_tasks_are_apart():
    x, y, tasks = make_rows()
    model = MeanRegularizedRegressor(strength=0.0, ridge=0.05).fit(x, y, tasks=tasks)
    single = SingleTaskRegressor(strength=2 * 0.05 * len(x)).fit(x, y, tasks=tasks)

    assert_allclose(model.coef_, single.coef_, atol=1e-9)


@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_the_average_may_be_free(n_classes):
    x, y, tasks = make_rows(n_classes=n_classes, noise=6.0)
    kind = MeanRegularizedRegressor if n_classes is None else MeanRegularizedClassifier
    free = kind(strength=0.2, ridge=0.0).fit(x, y, tasks=tasks)
    nearly = kind(strength=0.2, ridge=1e-10).fit(x, y, tasks=tasks)

    assert free.converged_
    assert_allclose(free.coef_, nearly.coef_, atol=1e-5)


def test_tasks_without_labels_leave_the_others_alone_and_follow_their_average():
    x, y, tasks = make_rows()
    unlabelled = tasks == "task 2"
    missing = np.where(unlabelled, np.nan, y)
    settings = {"strength": 0.2, "ridge": 0.05, "standardize": False}
    model = MeanRegularizedRegressor(**settings).fit(x, missing, tasks=tasks)
    without = MeanRegularizedRegressor(**settings)
    without.fit(x[~unlabelled], y[~unlabelled], tasks=tasks[~unlabelled])

    assert_allclose(model.coef_[[0, 1, 3]], without.coef_, atol=1e-9)
    correlation = 0.2 / (0.2 + 3 * 0.05)
    covariance = (1 - correlation) * np.eye(4) + correlation
    precision = np.linalg.inv(covariance)
    others = [0, 1, 3]
    expected = -np.tensordot(precision[2, others], model.coef_[others], 1) / precision[2, 2]
    assert_allclose(model.coef_[2], expected, atol=1e-9)
    assert_allclose(model.intercept_[2], model.intercept_[others].mean(axis=0))


def test_a_network_needs_a_ridge():
    x, y, tasks = make_rows()
    model = MeanRegularizedRegressor(ridge=0.0, hidden_sizes=(4,))
    with pytest.raises(ValueError, match="`ridge` must be above 0 where there are hidden layers"):
        model.fit(x, y, tasks=tasks)


def test_a_ridge_is_not_negative():
    x, y, tasks = make_rows()
    with pytest.raises(ValueError, match="`ridge` must be a finite number that is not negative"):
        MeanRegularizedRegressor(ridge=-1.0).fit(x, y, tasks=tasks)
