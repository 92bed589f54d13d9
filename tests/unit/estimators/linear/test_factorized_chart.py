"""Charts: derivatives against differences, lengths, and what the factors' own freedom leaves out."""

import numpy as np
import pytest

from multirel.estimators._linear._factorized_chart import Chart
from multirel.estimators._linear._factorized_form import FORMS
from tests.unit.estimators.linear.test_factorized_form import SHAPE, random_factors

STEP = 1e-5


def make_chart(form):
    return Chart(FORMS[form], random_factors(form))


def random_vector(chart, *, seed):
    size = sum(factor.size for factor in chart.factors)
    return np.random.default_rng(100 + seed).standard_normal(size)


def stack_at(chart, z):
    return chart.form.compose(chart.move(z))


@pytest.mark.parametrize("form", FORMS)
def test_the_chart_starts_at_the_given_factors(form):
    chart = make_chart(form)
    expected = FORMS[form].compose(random_factors(form))
    np.testing.assert_allclose(chart.weights, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_the_direction_is_the_derivative_of_moving(form):
    chart = make_chart(form)
    z = random_vector(chart, seed=0)
    difference = (stack_at(chart, STEP * z) - stack_at(chart, -STEP * z)) / (2 * STEP)
    np.testing.assert_allclose(chart.direction(z).weights, difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_coordinates_measure_the_length_of_changes(form):
    """The singular values of the derivative are 1, or 0 for what is not orthogonal to columns."""
    chart = make_chart(form)
    size = len(random_vector(chart, seed=0))
    matrix = np.stack([chart.direction(z).weights.ravel() for z in np.eye(size)])
    values = np.linalg.svd(matrix, compute_uv=False)
    assert np.all((np.abs(values - 1) < 1e-10) | (values < 1e-10))


@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_is_the_transpose_of_the_derivative(form):
    chart = make_chart(form)
    z, slope = random_vector(chart, seed=0), np.random.default_rng(5).standard_normal(SHAPE)
    expected = np.vdot(chart.direction(z).weights, slope)
    np.testing.assert_allclose(chart.gradient(slope) @ z, expected, rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_bending_is_the_second_derivative_of_the_stack(form):
    """zᵀ B z = ⟨G, d²/ds² Ŵ(s z)⟩, and B is symmetric."""
    chart, step = make_chart(form), 1e-3
    z, other = random_vector(chart, seed=0), random_vector(chart, seed=1)
    slope = np.random.default_rng(5).standard_normal(SHAPE)

    def bend(direction):
        return chart.gradient_change(chart.direction(direction), (slope, 0 * slope))

    second = stack_at(chart, step * z) + stack_at(chart, -step * z) - 2 * stack_at(chart, 0 * z)
    expected = np.vdot(slope, second) / step**2
    np.testing.assert_allclose(z @ bend(z), expected, rtol=1e-3)
    np.testing.assert_allclose(other @ bend(z), z @ bend(other), rtol=1e-8)


def test_a_stack_of_zeros_has_a_chart():
    chart = Chart(FORMS["laf"], [np.zeros((5, 2)), np.zeros((2, 4, 6))])
    z = random_vector(chart, seed=0)
    assert np.isfinite(stack_at(chart, z)).all()
