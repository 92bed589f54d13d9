"""Eq. (8): W ~ TN(M, Σ_T, Σ_O, Σ_I): the penalty of a stack is its negative log-density."""

from math import log, pi

import numpy as np
import pytest

from tests.builders import positive_definite
from tests.environment import DTYPE, array, assert_close
from tests.reference import dense
from tests.reference import prior as reference
from tests.stacks import covariances_of, prior_on, related_weight, set_weight

SHAPES = [(3, 4), (3, 1, 4), (2, 3, 4), (3, 2, 2, 3), (2, 2, 3, 2, 2)]
RELATIVE = {"torch.float64": 1e-10, "torch.float32": 1e-4}[str(DTYPE)]


def start(n_tasks):
    """A task correlation whose pairs differ."""
    matrix = positive_definite(np.random.default_rng(n_tasks), n_tasks)
    deviation = np.sqrt(np.diag(matrix))
    return matrix / np.outer(deviation, deviation)


@pytest.mark.parametrize("shape", SHAPES)
def test_penalty_before_an_update_is_the_quadratic_form_of_the_start(shape):
    """(λ/N) ½ vec(W)ᵀ (Σ_T ⊗ I ⊗ I)⁻¹ vec(W), with the T × T matrix that was given."""
    weight = related_weight(shape)
    matrix = start(shape[0])
    prior, _ = prior_on(weight, start=matrix, strength=3.0, n_samples=20)
    covariances = [matrix, *(np.eye(size) for size in shape[1:])]
    expected = 3.0 / 20 * dense.quadratic_form(covariances, weight) / 2
    assert array(prior()).item() == pytest.approx(expected, rel=RELATIVE)


@pytest.mark.parametrize("scale", ["trace", "free"])
@pytest.mark.parametrize("shape", SHAPES)
def test_penalty_after_an_update_is_the_dense_quadratic_form(shape, scale):
    """The same with all covariances learned, by the inverse of their Kronecker product."""
    weight = related_weight(shape)
    prior, _ = prior_on(weight, scale=scale, jitter=0.1, strength=3.0, n_samples=20)
    prior.update()
    covariances = covariances_of(prior)
    expected = 3.0 / 20 * dense.quadratic_form(covariances, weight) / 2
    assert array(prior()).item() == pytest.approx(expected, rel=RELATIVE)


@pytest.mark.parametrize("shape", SHAPES)
def test_objective_is_the_negative_log_density_without_its_constant(shape):
    """(N/λ) objective + (D/2) ln 2π = −ln p(W), with ε = 0 in the objective."""
    weight = related_weight(shape)
    prior, _ = prior_on(weight, strength=3.0, n_samples=20)
    prior.update()
    expected = -dense.log_density(weight, np.zeros(shape), covariances_of(prior))
    actual = array(prior.objective()).item() * 20 / 3 + weight.size / 2 * log(2 * pi)
    assert actual == pytest.approx(expected, rel=RELATIVE)


def test_mean_is_zero_or_the_initial_weights():
    """M = 0 in the paper; with mean="initial" the penalty is that of W − M."""
    first, then = related_weight((2, 3, 4)), related_weight((2, 3, 4), seed=1)
    for mean, deviation in (("zero", then), ("initial", then - first)):
        prior, network = prior_on(first, mean=mean, n_samples=1)
        set_weight(network, then)
        prior.update()
        precisions = [np.linalg.inv(matrix) for matrix in covariances_of(prior)]
        expected = reference.half_distance(deviation, precisions)
        assert array(prior()).item() == pytest.approx(expected, rel=RELATIVE)


def test_penalties_of_several_stacks_add():
    """The prior is a product over layers."""
    one, other = related_weight((3, 2, 4)), related_weight((3, 5, 2), seed=1)
    prior, _ = prior_on(one, other)
    parts = [prior_on(weight)[0] for weight in (one, other)]
    for each in (prior, *parts):
        each.update()
    assert_close(prior(), array(parts[0]()) + array(parts[1]()))
