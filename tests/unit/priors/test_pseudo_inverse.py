"""inverse="pseudo": what lies off the span of the weights costs nothing, and is left alone."""

import numpy as np
import pytest
import torch

from tests.environment import array, assert_close
from tests.reference import prior as reference
from tests.stacks import covariances_of, prior_on, random_weight, set_weight, weight_of

SHAPE = (3, 2, 8)
FACTOR = 1000.0


def spanned(seed=0):
    """Weights whose inputs span four of eight dimensions, and a basis of the other four."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    return random_weight((3, 2, 4), seed) @ basis[:, :4].T, basis[:, 4:].T


def updated(**settings):
    weight, rest = spanned()
    prior, network = prior_on(weight, inverse="pseudo", n_samples=1, **settings)
    prior.update()
    return prior, network, weight, rest


def generalized_inverses(prior):
    """Σ_k⁺, where eigenvalues that are zero up to roundoff count as zero."""
    return [np.linalg.pinv(matrix, rcond=1e-5, hermitian=True) for matrix in covariances_of(prior)]


@pytest.mark.parametrize("settings", [{}, {"scale": "free"}, {"modes": ("input",)}])
def test_penalty_is_that_of_the_generalized_inverses(settings):
    """½⟨W, (Σ_T⁺ ⊗ Σ_O⁺ ⊗ Σ_I⁺) W⟩ and its gradient."""
    prior, network, _, _ = updated(**settings)
    weight = random_weight(SHAPE, 3)
    set_weight(network, weight)
    prior().backward()
    precisions = generalized_inverses(prior)
    assert_close(prior(), reference.half_distance(weight, precisions), factor=FACTOR)
    expected = reference.gradient(weight, precisions)
    assert_close(network["a"].weight.grad, expected, factor=FACTOR)


def test_directions_off_the_span_cost_nothing_and_are_left_alone():
    """Where the ridge costs 1/ε."""
    prior, network, _, rest = updated(modes=("input",))
    off = random_weight((3, 2, 4), 5) @ rest
    set_weight(network, off)
    with torch.no_grad():
        assert abs(array(prior()).item()) < 1e-6
    prior.apply(torch.optim.SGD(network.parameters(), lr=10.0))
    assert_close(weight_of(network), off, factor=FACTOR)


def test_application_is_the_dense_solve():
    """On the span and off it."""
    prior, network, _, _ = updated()
    weight = random_weight(SHAPE, 3)
    set_weight(network, weight)
    precisions = generalized_inverses(prior)
    prior.apply(torch.optim.SGD(network.parameters(), lr=0.3))
    assert_close(weight_of(network), reference.prox(weight, precisions, 0.3), factor=FACTOR)


def test_covariances_are_the_bare_scatter():
    """Scaled to trace d_k, or not with a free scale; neither jitter nor shrinkage."""
    for scale in ("trace", "free"):
        prior, _, weight, _ = updated(modes=("task",), scale=scale, start=0.0)
        scatter = reference.scatter(weight, [np.eye(size) for size in SHAPE], 0)
        factor = 3 / np.trace(scatter) if scale == "trace" else 1.0
        assert_close(covariances_of(prior)[0], factor * scatter)


def test_updates_keep_the_span():
    """Again and again: roundoff off the span does not grow into it."""
    prior, _, _, _ = updated()
    for _ in range(5):
        prior.update()
    eigenvalues = np.linalg.eigvalsh(covariances_of(prior)[2])
    assert (eigenvalues > 1e-4 * eigenvalues[-1]).sum() == 4


def test_task_averages_lie_off_the_span():
    """mean="task-average" with the generalized inverse of the centered scatter."""
    prior, network, weight, _ = updated(mean="task-average", modes=("task",))
    shifted = weight + 3.0
    value = array(prior()).item()
    set_weight(network, shifted)
    np.testing.assert_allclose(array(prior()).item(), value, rtol=1e-4)


def test_condition_number_is_infinite():
    """In the summary, where some direction is free."""
    prior, _, _, _ = updated()
    assert prior.summary().rows[0].condition == float("inf")
