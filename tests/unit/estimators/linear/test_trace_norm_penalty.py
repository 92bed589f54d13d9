import numpy as np
import pytest
from scipy.optimize import minimize

from multirel.estimators._linear._trace_norm_penalty import TraceNormPenalty
from tests.unit.estimators.linear.spectral_oracle import prox_squared_trace_norm, trace_norm

CASES = [(0.3, 0.0), (0.3, 0.7), (0.0, 0.7)]


@pytest.mark.parametrize(("strength", "ridge"), CASES)
def test_the_prox_is_that_of_the_formula(strength, ridge):
    matrix = np.random.default_rng(0).normal(size=(4, 6))
    penalty = TraceNormPenalty(strength=strength, ridge=ridge)
    near, value = penalty.prox(matrix[None], weight=2.0)
    expected = prox_squared_trace_norm(matrix, strength / 2, ridge / 2)
    np.testing.assert_allclose(near[0], expected, atol=1e-10)
    formula = strength * trace_norm(expected) ** 2 + ridge / 2 * (expected**2).sum()
    assert value == pytest.approx(formula)
    assert penalty.value(near) == pytest.approx(formula)


@pytest.mark.parametrize(("strength", "ridge"), CASES)
def test_the_conjugate_is_the_largest_of_product_less_penalty(strength, ridge):
    slopes = np.random.default_rng(0).normal(size=(3, 5))
    penalty = TraceNormPenalty(strength=strength, ridge=ridge)
    values = np.linalg.svd(slopes, compute_uv=False)
    best = minimize(
        lambda s: strength * s.sum() ** 2 + ridge / 2 * s @ s - values @ s,
        np.ones(3),
        bounds=[(0, None)] * 3,
        tol=1e-14,
    )
    assert penalty.conjugate(slopes) == pytest.approx(-best.fun, rel=1e-6)
    assert penalty.factors(slopes).tolist() == [1, 1, 1]


def test_the_conjugate_at_zero_is_zero():
    assert TraceNormPenalty(strength=1.0).conjugate(np.zeros((2, 3))) == 0
