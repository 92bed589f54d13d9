"""Eq. (10): the gradient of the penalty is (λ/N) P (W − M)."""

import numpy as np
import pytest
import torch

from tests.environment import array, assert_close, tensor
from tests.reference import prior as reference
from tests.reference.dense import kronecker
from tests.stacks import covariances_of, prior_on, related_weight, set_weight

SHAPES = [(3, 4), (2, 3, 4), (3, 2, 2, 3), (2, 2, 3, 2, 2)]
STRENGTH, N_SAMPLES = 3.0, 20
FACTOR = 100.0


def updated_prior(shape, **settings):
    """A prior with learned covariances, its network, and W − M."""
    first, then = related_weight(shape), related_weight(shape, seed=1)
    prior, network = prior_on(first, strength=STRENGTH, n_samples=N_SAMPLES, **settings)
    set_weight(network, then)
    prior.update()
    return prior, network, then - first if settings.get("mean") == "initial" else then


@pytest.mark.parametrize("mean", ["zero", "initial"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_the_precision_times_the_deviation(shape, mean):
    """By the D × D precision."""
    prior, network, deviation = updated_prior(shape, mean=mean)
    prior().backward()
    precisions = [np.linalg.inv(matrix) for matrix in covariances_of(prior)]
    expected = STRENGTH / N_SAMPLES * reference.gradient(deviation, precisions)
    assert_close(network["a"].weight.grad, expected, factor=FACTOR)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_that_of_autograd_through_the_dense_form(shape):
    """½ vec(W)ᵀ P vec(W), differentiated by torch."""
    prior, network, deviation = updated_prior(shape)
    prior().backward()
    precision = tensor(kronecker([np.linalg.inv(matrix) for matrix in covariances_of(prior)]))
    weight = tensor(deviation).requires_grad_()
    flat = weight.flatten()
    (expected,) = torch.autograd.grad(
        STRENGTH / N_SAMPLES * torch.dot(flat, precision @ flat) / 2, weight
    )
    assert_close(network["a"].weight.grad, array(expected), factor=FACTOR)


def test_gradient_adds_to_that_of_a_loss_and_is_scaled_with_it():
    """As one term of a sum, times what comes from above."""
    prior, network, deviation = updated_prior((2, 3, 4))
    weight = network["a"].weight
    (5 * prior() + weight.sum()).backward()
    precisions = [np.linalg.inv(matrix) for matrix in covariances_of(prior)]
    expected = 5 * STRENGTH / N_SAMPLES * reference.gradient(deviation, precisions) + 1
    assert_close(weight.grad, expected, factor=FACTOR)


def test_prior_counts_once_and_not_once_per_row():
    """Twice as many rows halve the gradient of the mean loss's companion."""
    gradients = []
    for n_samples in (10, 20):
        prior, network = prior_on(related_weight((2, 3, 4)), n_samples=n_samples)
        prior().backward()
        gradients.append(array(network["a"].weight.grad))
    assert_close(gradients[0], 2 * gradients[1])
