"""Eq. (1): vec(X) ~ N(vec(M), Σ₁ ⊗ … ⊗ Σ_K)."""

from math import prod

import numpy as np
import pytest

from multirel.tensor_normal import TensorNormal, as_covariance, kronecker_color
from tests.builders import positive_definite
from tests.environment import array, assert_close, tensor
from tests.reference.dense import kronecker, vec

SHAPES = [(4,), (3, 4), (2, 3, 4), (2, 3, 2, 3), (2, 3, 1, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_coloring_unit_tensors_gives_a_square_root_of_the_kronecker_product(shape):
    """vec(X) = vec(M) + F z with white z has the covariance F Fᵀ = Σ₁ ⊗ … ⊗ Σ_K, row-major."""
    rng = np.random.default_rng(0)
    matrices = [positive_definite(rng, size) for size in shape]
    covariances = [as_covariance(tensor(matrix)) for matrix in matrices]

    units = np.eye(prod(shape)).reshape(-1, *shape)
    factor = np.stack(
        [vec(array(kronecker_color(covariances, tensor(unit)))) for unit in units], axis=1
    )

    assert_close(factor @ factor.T, kronecker(matrices), factor=10)


@pytest.mark.parametrize("shape", SHAPES)
def test_mean_and_variance_are_those_of_the_vec(shape):
    """`mean` is M and vec(`variance`) the diagonal of Σ₁ ⊗ … ⊗ Σ_K."""
    rng = np.random.default_rng(0)
    matrices = [positive_definite(rng, size) for size in shape]
    mean = rng.standard_normal(shape)

    distribution = TensorNormal(tensor(mean), [tensor(matrix) for matrix in matrices])

    assert_close(distribution.mean, mean)
    assert_close(distribution.variance, np.diag(kronecker(matrices)).reshape(shape))
