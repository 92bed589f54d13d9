"""Eq. (12): the task covariance entry by entry, by the trace of products of two tasks' weights."""

import numpy as np
import pytest

from tests.environment import assert_close
from tests.stacks import covariances_of, prior_on, related_weight, set_weight

JITTER = 0.1


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 1, 4), (5, 3, 2)])
def test_entries_are_inner_products_of_whitened_weights(shape):
    """(Σ_T)_st = (1/OI) tr(W_sᵀ Σ_O⁻¹ W_t Σ_I⁻¹) + ε δ_st, with the covariances of the sweep before."""
    n_tasks, n_outputs, n_inputs = shape
    prior, network = prior_on(related_weight(shape), scale="free", jitter=JITTER)
    prior.update()
    _, outputs, inputs = covariances_of(prior)
    weight = related_weight(shape, seed=1)
    set_weight(network, weight)
    prior.update()

    expected = np.empty((n_tasks, n_tasks))
    for s in range(n_tasks):
        for t in range(n_tasks):
            whitened = np.linalg.inv(outputs) @ weight[t] @ np.linalg.inv(inputs)
            entry = np.trace(weight[s].T @ whitened) / (n_outputs * n_inputs)
            expected[s, t] = entry + JITTER * (s == t)
    assert_close(covariances_of(prior)[0], expected, factor=1000)


def test_correlation_of_two_tasks_is_the_cosine_of_their_whitened_weights():
    """With identity covariances of outputs and inputs and ε → 0."""
    weight = related_weight((3, 2, 4))
    prior, _ = prior_on(weight, modes=("task",), shrinkage=0.0, jitter=0.0)
    prior.update()
    rows = weight.reshape(3, -1)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert_close(prior.correlations("a"), rows @ rows.T)
