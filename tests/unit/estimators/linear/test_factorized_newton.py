"""Steps in a trust region: the minimizer where it is inside, the end of the region elsewhere."""

import numpy as np
import pytest

from multirel.estimators._linear._factorized_newton import newton_step
from tests.builders import positive_definite

GRADIENT = np.random.default_rng(0).standard_normal(6)


def step(matrix, *, radius, accuracy=1e-12, max_products=100):
    return newton_step(
        GRADIENT,
        lambda v: matrix @ v,
        radius=radius,
        accuracy=accuracy,
        max_products=max_products,
    )


def model(matrix, z):
    return GRADIENT @ z + z @ matrix @ z / 2


def test_a_convex_model_is_minimized_inside_the_region():
    matrix = positive_definite(np.random.default_rng(1), 6)
    found = step(matrix, radius=100.0)
    np.testing.assert_allclose(found.z, -np.linalg.solve(matrix, GRADIENT), rtol=1e-8)
    assert found.is_inside
    assert found.decrease == pytest.approx(-model(matrix, found.z))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_step_ends_with_the_region(sign):
    """Where the minimizer is further away, and where there is none."""
    matrix = sign * positive_definite(np.random.default_rng(1), 6)
    found = step(matrix, radius=0.1)
    assert not found.is_inside
    assert np.linalg.norm(found.z) == pytest.approx(0.1)
    assert found.decrease == pytest.approx(-model(matrix, found.z))
    assert found.decrease > 0


def test_a_singular_model_that_has_a_minimum_is_minimized():
    matrix = np.diag([1.0, 2, 3, 0, 0, 0])
    gradient = np.array([1.0, 1, 1, 0, 0, 0])
    found = newton_step(
        gradient, lambda v: matrix @ v, radius=10.0, accuracy=1e-12, max_products=100
    )
    np.testing.assert_allclose(found.z, [-1, -1 / 2, -1 / 3, 0, 0, 0], atol=1e-10)


def test_less_accuracy_takes_fewer_products():
    matrix = positive_definite(np.random.default_rng(1), 6, condition=1e4)
    rough, exact = step(matrix, radius=1e6, accuracy=0.1), step(matrix, radius=1e6)
    assert rough.n_products < exact.n_products
    assert step(matrix, radius=1e6, max_products=2).n_products == 2


def test_without_a_gradient_nothing_moves():
    found = newton_step(np.zeros(3), lambda v: v, radius=1.0, accuracy=0.1, max_products=10)
    assert found.decrease == 0
    assert not found.z.any()
