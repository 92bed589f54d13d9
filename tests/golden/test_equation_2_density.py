"""Eq. (2): the density of the tensor normal distribution."""

from math import log, pi, prod

import numpy as np
import pytest
from scipy import stats

from multirel.tensor_normal import TensorNormal
from tests.builders import positive_definite
from tests.environment import DTYPE, array, tensor
from tests.reference import dense

SHAPES = [(5,), (3, 4), (2, 3, 4), (2, 3, 2, 3), (2, 3, 2, 2, 2)]
RELATIVE = {"torch.float64": 1e-10, "torch.float32": 1e-4}[str(DTYPE)]


def draw(shape, *, condition=10.0):
    """A point, a mean and covariances, all random."""
    rng = np.random.default_rng(sum(shape))
    matrices = [positive_definite(rng, size, condition=condition) for size in shape]
    return rng.standard_normal(shape), rng.standard_normal(shape), matrices


def log_density(x, mean, matrices):
    distribution = TensorNormal(tensor(mean), [tensor(matrix) for matrix in matrices])
    return array(distribution.log_prob(tensor(x))).item()


@pytest.mark.parametrize("shape", SHAPES)
def test_density_is_the_formula_of_the_paper(shape):
    """(2π)^(−d/2) ∏ |Σ_k|^(−d/2d_k) exp(−½ (x − μ)ᵀ Σ₁:K⁻¹ (x − μ)), factor by factor."""
    x, mean, matrices = draw(shape)
    d = prod(shape)
    expected = -d / 2 * log(2 * pi)
    for matrix in matrices:
        expected += -d / (2 * len(matrix)) * log(np.linalg.det(matrix))
    difference = dense.vec(x - mean)
    expected -= difference @ np.linalg.inv(dense.kronecker(matrices)) @ difference / 2

    assert log_density(x, mean, matrices) == pytest.approx(expected, rel=RELATIVE)


@pytest.mark.parametrize("shape", SHAPES)
def test_density_is_that_of_the_dense_reference(shape):
    """The same as the normal density of vec(X) with explicit inverse and determinant."""
    x, mean, matrices = draw(shape)
    expected = dense.log_density(x, mean, matrices)
    assert log_density(x, mean, matrices) == pytest.approx(expected, rel=RELATIVE)


@pytest.mark.parametrize("shape", SHAPES)
def test_density_is_that_of_scipy_multivariate_normal(shape):
    """scipy.stats.multivariate_normal with the Kronecker product as covariance."""
    x, mean, matrices = draw(shape)
    expected = stats.multivariate_normal.logpdf(
        dense.vec(x), dense.vec(mean), dense.kronecker(matrices)
    )
    assert log_density(x, mean, matrices) == pytest.approx(float(expected), rel=RELATIVE)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (5, 2), (4, 1)])
def test_density_of_a_matrix_is_that_of_scipy_matrix_normal(shape):
    """K = 2: scipy.stats.matrix_normal with row covariance Σ₁ and column covariance Σ₂."""
    x, mean, (rows, columns) = draw(shape)
    expected = stats.matrix_normal.logpdf(x, mean=mean, rowcov=rows, colcov=columns)
    assert log_density(x, mean, (rows, columns)) == pytest.approx(float(expected), rel=RELATIVE)


def test_density_of_a_vector_and_of_a_scalar_are_the_usual_ones():
    """K = 1 is the multivariate normal; with d₁ = 1 it is the normal."""
    expected = stats.norm.logpdf(1.3, loc=0.4, scale=2.0)
    value = log_density(np.array([1.3]), np.array([0.4]), [np.array([[4.0]])])
    assert value == pytest.approx(float(expected), rel=RELATIVE)
