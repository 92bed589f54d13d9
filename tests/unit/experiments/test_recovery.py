"""`recover_covariances`."""

import numpy as np
import pytest
import torch

from multirel.experiments import recover_covariances


@pytest.fixture(scope="module")
def recovery():
    return recover_covariances(n_samples=200, seed=3)


def test_two_hundred_draws_recover_every_covariance(recovery):
    # Design, "Recovery": .08 for each trace-normalized factor from 200 samples of a smaller array.
    assert max(recovery.relative_errors) < 0.08
    assert recovery.converged


def test_more_draws_recover_better(recovery):
    few = recover_covariances(n_samples=5, seed=3)

    assert np.mean(recovery.relative_errors) < np.mean(few.relative_errors) / 2


def test_one_draw_is_enough_for_an_estimate():
    assert recover_covariances(n_samples=1, seed=0).n_samples == 1


def test_pairs_are_those_of_the_matrices(recovery):
    names = recovery.labels[0]
    true, recovered = recovery.true_correlations[0], recovery.recovered_correlations[0]
    off_diagonal = recovered[~np.eye(len(names), dtype=bool)]

    assert recovery.most_alike.recovered == off_diagonal.max()
    assert recovery.most_opposed.recovered == off_diagonal.min()
    assert recovery.furthest_off.error == np.abs(recovered - true).max()
    pair = recovery.most_opposed
    assert recovered[names.index(pair.first), names.index(pair.second)] == pair.recovered
    assert true[names.index(pair.first), names.index(pair.second)] == pair.true


def test_the_seed_decides_and_the_global_random_state_does_not():
    torch.manual_seed(1)
    first = recover_covariances(n_samples=2, seed=5)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = recover_covariances(n_samples=2, seed=5)
    other = recover_covariances(n_samples=2, seed=6)

    np.testing.assert_array_equal(first.recovered_correlations[0], second.recovered_correlations[0])
    assert (first.recovered_correlations[0] != other.recovered_correlations[0]).any()
    assert torch.equal(torch.get_rng_state(), state)


def test_no_draws_are_refused():
    with pytest.raises(ValueError, match="`n_samples` must be at least 1: got 0. Draw more"):
        recover_covariances(n_samples=0)
