"""Samples have the moments of the distribution, at a fixed seed, for every type of covariance."""

import numpy as np
import pytest
import torch

from multirel.tensor_normal import (
    DenseCovariance,
    IdentityCovariance,
    LowRankCovariance,
    PseudoInverseCovariance,
    TensorNormal,
)
from tests.builders import positive_definite, singular
from tests.environment import DEVICE, DTYPE, array, tensor
from tests.reference.dense import kronecker, vec

N_SAMPLES = 20_000
STANDARD_ERRORS = 5.0
"""Some hundred moments are compared: one beyond 5 standard errors has odds below 1 in 10 000."""


def dense_(rng, size):
    return DenseCovariance(tensor(positive_definite(rng, size)))


def identity(rng, size):
    return IdentityCovariance(size, dtype=DTYPE, device=DEVICE)


def low_rank(rng, size):
    return LowRankCovariance.from_matrix(tensor(positive_definite(rng, size)), size - 1)


def pseudo_inverse(rng, size):
    return PseudoInverseCovariance(tensor(singular(rng, size, size - 1)))


def assert_moments(samples, mean, covariance):
    """Mean and covariance of the rows of `samples` within some standard errors of what they should be."""
    n = len(samples)
    variances = np.diag(covariance)
    roundoff = 1e-6
    mean_error = np.sqrt(variances / n) * STANDARD_ERRORS + roundoff
    assert (np.abs(samples.mean(axis=0) - mean) <= mean_error).all()
    centered = samples - mean
    estimate = centered.T @ centered / n
    spread = np.sqrt((np.outer(variances, variances) + covariance**2) / n)
    assert (np.abs(estimate - covariance) <= STANDARD_ERRORS * spread + roundoff).all()


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("kind", [dense_, identity, low_rank, pseudo_inverse])
def test_samples_have_the_mean_and_the_kronecker_covariance(kind, shape):
    """vec of the samples, first and second moments."""
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(shape)
    covariances = [kind(rng, size) for size in shape]
    torch.manual_seed(0)

    samples = TensorNormal(tensor(mean), covariances).rsample((N_SAMPLES,))

    expected = kronecker([array(covariance.dense()) for covariance in covariances])
    assert_moments(array(samples).reshape(N_SAMPLES, -1), vec(mean), expected)


def test_samples_of_mixed_types_have_the_kronecker_covariance():
    """Every mode its own type."""
    rng = np.random.default_rng(1)
    shape = (2, 3, 2, 3)
    kinds = [dense_, low_rank, identity, pseudo_inverse]
    covariances = [kind(rng, size) for kind, size in zip(kinds, shape, strict=True)]
    torch.manual_seed(1)
    loc = torch.zeros(shape, dtype=DTYPE, device=DEVICE)
    samples = TensorNormal(loc, covariances).rsample((N_SAMPLES,))
    expected = kronecker([array(covariance.dense()) for covariance in covariances])
    assert_moments(array(samples).reshape(N_SAMPLES, -1), np.zeros(36), expected)


def test_every_entry_of_a_batch_has_its_own_moments():
    """Batched covariances and means, sampled together."""
    rng = np.random.default_rng(2)
    first = positive_definite(rng, 2, batch=(3,))
    second = positive_definite(rng, 3)
    mean = rng.standard_normal((3, 2, 3))
    torch.manual_seed(2)
    samples = TensorNormal(tensor(mean), [tensor(first), tensor(second)]).rsample((N_SAMPLES,))
    for entry in range(3):
        one = array(samples)[:, entry].reshape(N_SAMPLES, -1)
        assert_moments(one, vec(mean[entry]), kronecker([first[entry], second]))


def test_entries_of_an_expanded_batch_are_independent():
    """`expand` does not repeat the same noise."""
    torch.manual_seed(3)
    eye = torch.eye(2, dtype=DTYPE, device=DEVICE)
    one = TensorNormal(torch.zeros(2, dtype=DTYPE, device=DEVICE), [eye])
    samples = array(one.expand((2,)).rsample((N_SAMPLES,))).reshape(N_SAMPLES, -1)
    assert_moments(samples, np.zeros(4), np.eye(4))


def test_same_seed_gives_the_same_samples_and_sample_carries_no_gradient():
    """Randomness comes from torch's generator only."""
    matrix = torch.eye(2, dtype=DTYPE, device=DEVICE, requires_grad=True)
    distribution = TensorNormal(torch.zeros(2, dtype=DTYPE, device=DEVICE), [matrix])
    torch.manual_seed(4)
    one = distribution.rsample((3,))
    torch.manual_seed(4)
    other = distribution.sample((3,))
    np.testing.assert_array_equal(array(one), array(other))
    assert one.requires_grad
    assert not other.requires_grad
