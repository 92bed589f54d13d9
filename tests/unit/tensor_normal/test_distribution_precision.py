"""Single precision against double, on the same rounded inputs: the figures that the documentation may state.

Shape (6, 5, 4), every covariance with the given condition number c, worst of 20 seeds, on the CPU.
"""

import numpy as np
import pytest
import torch

from multirel.tensor_normal import (
    DenseCovariance,
    TensorNormal,
    kronecker_color,
    kronecker_prox,
    kronecker_solve,
)
from tests.builders import positive_definite
from tests.environment import array, tensor

SHAPE = (6, 5, 4)
CONDITIONS = [1e1, 1e2, 1e3, 1e4]
SEEDS = range(20)


def draw(condition, seed):
    """A tensor and covariances in single precision, and the same numbers in double."""
    rng = np.random.default_rng(seed)
    matrices = [positive_definite(rng, size, condition=condition) for size in SHAPE]
    single = [tensor(matrix, dtype=torch.float32) for matrix in matrices]
    x = tensor(rng.standard_normal(SHAPE), dtype=torch.float32)
    return x, single, [matrix.double() for matrix in single]


def worst(function, condition):
    """Largest relative error of `function(x, covariances)` over the seeds."""
    errors = []
    for seed in SEEDS:
        x, single, double = draw(condition, seed)
        expected = array(function(x.double(), [DenseCovariance(m) for m in double]))
        actual = array(function(x, [DenseCovariance(m) for m in single]))
        errors.append(np.linalg.norm(actual - expected) / np.linalg.norm(expected))
    return max(errors)


def log_density(x, covariances):
    return TensorNormal(torch.zeros_like(x), covariances).log_prob(x)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_density_anywhere_is_accurate_to_1e_7_times_the_condition_number(condition):
    """At white points, far out where eigenvalues are small: measured 2e-7, 2e-6, 2e-5, 3e-4."""
    assert worst(log_density, condition) <= 1e-7 * condition


@pytest.mark.parametrize("condition", CONDITIONS)
def test_density_of_samples_is_accurate_to_1e_4(condition):
    """At points that the distribution itself draws: measured 1e-7, 1e-7, 2e-6, 4e-5."""
    errors = []
    for seed in SEEDS:
        noise, single, double = draw(condition, seed)
        exact = [DenseCovariance(matrix) for matrix in double]
        x = kronecker_color(exact, noise.double()).float()
        expected = float(log_density(x.double(), exact))
        actual = float(log_density(x, [DenseCovariance(matrix) for matrix in single]))
        errors.append(abs(actual / expected - 1))
    assert max(errors) <= 1e-4


@pytest.mark.parametrize("condition", CONDITIONS)
def test_solve_is_accurate_to_1e_7_times_the_condition_number(condition):
    """P W, relative in the Frobenius norm: measured 4e-7, 3e-6, 2e-5, 3e-4."""
    assert worst(lambda x, c: kronecker_solve(c, x), condition) <= 1e-7 * condition


@pytest.mark.parametrize("condition", CONDITIONS)
def test_samples_are_accurate_to_2e_7_times_the_root_of_the_condition_number(condition):
    """At the same noise: measured 1e-7, 4e-7, 1e-6, 8e-6."""
    assert worst(lambda x, c: kronecker_color(c, x), condition) <= 2e-7 * condition**0.5


@pytest.mark.parametrize("condition", CONDITIONS)
def test_prox_is_accurate_to_5e_4(condition):
    """Through eigenvectors, with step ½: measured 1e-6, 2e-6, 1e-5, 1e-4."""
    assert worst(lambda x, c: kronecker_prox(c, x, 0.5), condition) <= 5e-4


@pytest.mark.parametrize("condition", CONDITIONS)
def test_entropy_is_accurate_to_1e_4(condition):
    """Measured 9e-8, 2e-7, 2e-6, 3e-5."""
    assert worst(lambda x, c: TensorNormal(x, c).entropy(), condition) <= 1e-4
