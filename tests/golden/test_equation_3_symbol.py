"""Eq. (3): X ~ TN_{d₁ × … × d_K}(M, Σ₁, …, Σ_K): which size and covariance belong to which axis."""

import numpy as np
import pytest

from multirel.tensor_normal import TensorNormal
from tests.builders import positive_definite
from tests.environment import array, assert_close, tensor

SHAPES = [(4,), (3, 4), (2, 3, 4), (2, 3, 2, 3), (2, 3, 1, 2, 2)]


def draw(shape):
    rng = np.random.default_rng(0)
    matrices = [positive_definite(rng, size) for size in shape]
    return TensorNormal(tensor(rng.standard_normal(shape)), [tensor(m) for m in matrices]), matrices


@pytest.mark.parametrize("shape", SHAPES)
def test_event_has_one_axis_per_covariance_in_their_order(shape):
    """Event shape d₁ × … × d_K, no batch, order K, the k-th covariance of size d_k."""
    distribution, matrices = draw(shape)
    assert tuple(distribution.event_shape) == shape
    assert tuple(distribution.batch_shape) == ()
    assert distribution.order == len(shape)
    assert [covariance.size for covariance in distribution.covariances] == list(shape)
    for covariance, matrix in zip(distribution.covariances, matrices, strict=True):
        assert_close(covariance.dense(), matrix)


@pytest.mark.parametrize("shape", SHAPES)
def test_samples_have_the_shape_of_the_mean(shape):
    """Sample axes in front of the modes."""
    distribution, _ = draw(shape)
    assert tuple(distribution.rsample().shape) == shape
    assert tuple(distribution.rsample((7, 2)).shape) == (7, 2, *shape)


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_each_covariance_relates_the_rows_of_its_own_matricization(shape):
    """Var(X_i) of the entries along axis k, all other indices 0, is Σ_k times the others' first entries."""
    distribution, matrices = draw(shape)
    variance = array(distribution.variance)
    for mode, matrix in enumerate(matrices):
        others = np.prod([m[0, 0] for k, m in enumerate(matrices) if k != mode])
        along_axis = variance[tuple(slice(None) if k == mode else 0 for k in range(len(shape)))]
        assert_close(along_axis, np.diag(matrix) * others, factor=10)
