import numpy as np
import pytest

from multirel.estimators._linear._robust_penalty import RobustPenalty
from tests.unit.estimators.linear.spectral_oracle import prox_rows, prox_trace_norm, trace_norm

PENALTY = RobustPenalty(strength=0.8, outlier_strength=0.6)


def test_the_prox_shrinks_singular_values_of_one_block_and_lengths_of_the_other():
    blocks = np.random.default_rng(0).normal(size=(2, 4, 6))
    blocks[1, 0] *= 0.01
    near, value = PENALTY.prox(blocks, weight=2.0)
    np.testing.assert_allclose(near[0], prox_trace_norm(blocks[0], 0.4), atol=1e-12)
    np.testing.assert_allclose(near[1], prox_rows(blocks[1], 0.3), atol=1e-12)
    assert not near[1, 0].any()
    formula = 0.8 * trace_norm(near[0]) + 0.6 * np.linalg.norm(near[1], axis=1).sum()
    assert value == pytest.approx(formula)
    assert PENALTY.value(near) == pytest.approx(formula)


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 100.0])
def test_factors_bring_slopes_to_where_no_weights_gain_more_than_they_cost(scale):
    slopes = scale * np.random.default_rng(0).normal(size=(5, 3))
    factors = PENALTY.factors(slopes)
    inside = slopes * factors[:, None]
    assert np.linalg.norm(inside, 2) <= 0.8 * (1 + 1e-12)
    assert np.linalg.norm(inside, axis=1).max() <= 0.6 * (1 + 1e-12)
    assert PENALTY.conjugate(inside) == 0
    if scale <= 0.01:
        assert (factors == 1).all()
