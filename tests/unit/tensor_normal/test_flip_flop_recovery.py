"""How near the truth the estimates come: 20 seeds, condition number 10 per mode, mean estimated."""

import numpy as np
import pytest

from multirel.tensor_normal import fit_tensor_normal
from tests.builders import color, positive_definite
from tests.environment import array, tensor
from tests.reference.dense import kronecker

SEEDS = range(20)


def relative(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


def with_trace_of_its_size(matrix):
    return matrix * len(matrix) / np.trace(matrix)


def errors(n_samples, shape, seed):
    """Relative Frobenius error of the Kronecker covariance, and the largest of the factors'."""
    rng = np.random.default_rng(seed)
    truth = [positive_definite(rng, size, condition=10.0) for size in shape]
    samples = rng.standard_normal(shape) + color(truth, rng.standard_normal((n_samples, *shape)))
    fit = fit_tensor_normal(tensor(samples), tolerance=1e-6)
    found = [array(covariance.dense()) for covariance in fit.distribution.covariances]
    factors = [
        relative(with_trace_of_its_size(one), with_trace_of_its_size(other))
        for one, other in zip(found, truth, strict=True)
    ]
    return relative(kronecker(found), kronecker(truth)), *factors


@pytest.mark.parametrize(
    ("n_samples", "shape", "whole", "factor"),
    [
        (2000, (4, 5, 6), 0.04, 0.03),
        (3000, (6, 3, 7), 0.04, 0.03),
        (200, (4, 5, 6), 0.12, 0.08),
        (50, (3, 4, 5, 2), 0.20, 0.14),
    ],
)
def test_covariances_are_recovered(n_samples, shape, whole, factor):
    """Mean error over the seeds of the Kronecker product, and of each factor scaled to trace d_k."""
    error, *factors = np.mean([errors(n_samples, shape, seed) for seed in SEEDS], axis=0)
    assert error <= whole
    assert max(factors) <= factor
