"""The rule for the existence of a maximum, against runs of the naive flip-flop on borderline shapes."""

from itertools import islice

import numpy as np
import pytest

from multirel.tensor_normal import is_likelihood_bounded, n_samples_needed
from tests.reference.flip_flop import sweeps

SWEEPS = 220
DIVERGED = 1e11
"""A condition number that grows by a factor per sweep passes this; one that settles stays far below."""

BOUNDED = [
    ((4,), 4), ((1, 4), 4), ((2, 3), 2), ((3, 4), 2), ((4, 6), 2), ((3, 3), 1), ((3, 3), 2), ((2, 5), 3),
    ((3, 8), 3), ((3, 7), 3), ((2, 2, 2), 1), ((2, 2, 3), 1), ((2, 3, 3), 1), ((2, 3, 4), 1), ((2, 2, 4), 1),
    ((3, 3, 8), 1), ((2, 4, 5), 1), ((2, 4, 6), 1), ((2, 2, 3), 2), ((2, 2, 2, 3), 1), ((2, 2, 2, 7), 1),
    ((2, 2, 2, 8), 1),
]  # fmt: skip
UNBOUNDED_AT_ONCE = [
    ((4,), 3),
    ((1, 4), 3),
    ((2, 3), 1),
    ((2, 5), 2),
    ((2, 2, 5), 1),
    ((2, 2, 2, 9), 1),
]
UNBOUNDED_SLOWLY = [
    ((3, 5), 2), ((4, 7), 2), ((5, 7), 2), ((4, 11), 3), ((2, 3, 5), 1), ((2, 4, 7), 1), ((3, 4, 11), 1),
]  # fmt: skip


def conditions(shape, n_samples, *, n_sweeps=SWEEPS):
    """Largest condition number of a covariance after each sweep, until one has no inverse."""
    samples = np.random.default_rng(0).standard_normal((n_samples, *shape))
    found = []
    try:
        for covariances in islice(sweeps(samples, mean=np.zeros(shape)), n_sweeps):
            found.append(max(np.linalg.cond(matrix) for matrix in covariances))
            if not found[-1] < DIVERGED:
                break
    except np.linalg.LinAlgError:
        found.append(np.inf)
    return found


@pytest.mark.parametrize(("shape", "n_samples"), BOUNDED)
def test_where_the_rule_says_bounded_the_flip_flop_settles(shape, n_samples):
    """Condition numbers stop growing: the same after half of the sweeps, and far from singular."""
    assert is_likelihood_bounded(shape, n_samples)
    found = conditions(shape, n_samples)
    assert found[-1] == pytest.approx(found[SWEEPS // 2], rel=0.01)
    assert found[-1] < 1e8


@pytest.mark.parametrize(("shape", "n_samples"), UNBOUNDED_AT_ONCE)
def test_where_a_mode_exceeds_all_others_the_first_sweep_is_singular(shape, n_samples):
    """The largest size is above n times the product of the others."""
    assert not is_likelihood_bounded(shape, n_samples)
    assert conditions(shape, n_samples, n_sweeps=1)[0] >= DIVERGED


@pytest.mark.parametrize(("shape", "n_samples"), UNBOUNDED_SLOWLY)
def test_where_the_rule_says_unbounded_the_flip_flop_diverges(shape, n_samples):
    """Every update is positive definite, and still the condition number grows without limit."""
    assert not is_likelihood_bounded(shape, n_samples)
    found = conditions(shape, n_samples)
    assert len(found) > 20
    assert found[-1] >= DIVERGED


@pytest.mark.parametrize(
    "shape", [(4,), (3, 5), (5, 3), (4, 30), (2, 3, 5), (256, 64, 4), (7, 1, 1)]
)
def test_samples_needed_is_the_first_number_that_does(shape):
    """And the rule does not depend on the order of the modes."""
    enough = n_samples_needed(shape)
    assert is_likelihood_bounded(shape, enough)
    assert not any(is_likelihood_bounded(shape, fewer) for fewer in range(enough))
    assert is_likelihood_bounded(shape[::-1], enough)
    assert n_samples_needed(shape, more_than=enough) > enough


@pytest.mark.parametrize("n_samples", [0, -1])
def test_without_samples_nothing_is_bounded(n_samples):
    """One sample whose mean is estimated leaves none."""
    assert not is_likelihood_bounded((1, 1), n_samples)


def test_enough_samples_for_the_full_covariance_are_enough():
    """With n ≥ D every shape is bounded."""
    for shape in [(2, 2), (3, 4), (2, 3, 4), (1, 7)]:
        assert is_likelihood_bounded(shape, int(np.prod(shape)))
