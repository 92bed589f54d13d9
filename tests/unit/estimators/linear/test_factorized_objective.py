"""The objective on charts: its value row by row, and derivatives against differences."""

import numpy as np
import pytest
from scipy.optimize import minimize

from multirel.estimators._linear._factorized_chart import Chart
from multirel.estimators._linear._factorized_form import FORMS, decompose
from multirel.estimators._linear._factorized_objective import FactorizedObjective
from multirel.estimators._linear._profiled_loss import ProfiledLoss
from tests.unit.estimators.linear.factorized import RANKS, make_problem, objective

RIDGE = 0.3


def make_point(loss, form):
    problem = make_problem(loss)
    rng = np.random.default_rng(2)
    ranks = (1, 1, 1) if form == "tucker" and loss == "binary" else RANKS[form]
    chart = Chart(
        FORMS[form], decompose(rng.standard_normal(problem.weight_shape), form, ranks=ranks)
    )
    near = np.zeros(problem.weight_shape[:2])
    return FactorizedObjective.at(ProfiledLoss(problem), RIDGE, chart, near=near)


def value_at(point, z):
    """The objective with the intercepts that a general minimizer finds."""
    weights = point.chart.form.compose(point.chart.move(z))

    def value(intercepts):
        b = intercepts.reshape(weights.shape[:2])
        return objective(point.loss.problem, RIDGE, weights, b)

    found = minimize(value, point.intercepts.ravel(), options={"gtol": 1e-9})
    return found.fun


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["squared", "binary", "softmax"])
def test_value_gradient_and_hessian_are_those_of_the_objective(loss, form):
    point = make_point(loss, form)
    z = np.random.default_rng(4).standard_normal(point.gradient().size)
    step = 1e-3
    after, before = value_at(point, step * z), value_at(point, -step * z)
    np.testing.assert_allclose(point.value, value_at(point, 0 * z), rtol=1e-8)
    np.testing.assert_allclose(point.gradient() @ z, (after - before) / (2 * step), rtol=1e-4)
    second = (after + before - 2 * point.value) / step**2
    np.testing.assert_allclose(z @ point.hessian_product(z), second, rtol=1e-3)


def test_moving_gives_the_objective_there():
    point = make_point("softmax", "tucker")
    z = 0.1 * np.random.default_rng(4).standard_normal(point.gradient().size)
    np.testing.assert_allclose(point.moved(z).value, value_at(point, z), rtol=1e-8)
