import numpy as np
import pytest

from multirel.estimators._linear._duality import loss_conjugate, loss_point, smallest_scale
from multirel.estimators._linear._profiled_loss import ProfiledLoss
from tests.unit.estimators.linear.quadratic_oracle import make_problem
from tests.unit.estimators.linear.spectral_oracle import gradient, objective


@pytest.mark.parametrize("loss", ["squared", "binary"])
def test_a_point_has_the_loss_its_slopes_and_the_best_intercepts(loss):
    problem = make_problem(loss, [8, 12, 9])
    weights = 0.3 * np.random.default_rng(1).normal(size=(3, 4))
    point = loss_point(ProfiledLoss(problem), weights)
    value, intercepts = objective(problem, weights, lambda w: 0.0)
    assert point.value == pytest.approx(value)
    np.testing.assert_allclose(point.intercepts[:, 0], intercepts, atol=1e-10)
    np.testing.assert_allclose(point.slopes, gradient(problem, weights), atol=1e-12)
    np.testing.assert_allclose(problem.design.sums(point.row_slopes), 0, atol=1e-14)


@pytest.mark.parametrize("loss", ["squared", "binary"])
def test_the_conjugate_and_the_loss_add_up_to_the_product_at_the_slopes_and_to_more_elsewhere(loss):
    problem = make_problem(loss, [8, 12, 9])
    profiled = ProfiledLoss(problem)
    weights = 0.3 * np.random.default_rng(1).normal(size=(3, 4))
    point = loss_point(profiled, weights)
    product = float((point.row_slopes * point.products).sum())
    exact = loss_conjugate(profiled, point.row_slopes, np.ones(3))
    assert point.value + exact == pytest.approx(product, abs=1e-14)
    factors = np.array([0.5, 0.9, 0.0])
    less = float((point.row_slopes * factors[problem.design.task, None] * point.products).sum())
    assert point.value + loss_conjugate(profiled, point.row_slopes, factors) > less


def test_gaps_of_constant_targets_are_relative_to_something_positive():
    problem = make_problem("squared", [5, 5])
    problem.targets[:] = 0.0
    assert smallest_scale(ProfiledLoss(problem)) > 0
