"""What a prior knows before its first update."""

import numpy as np
import pytest

from multirel.priors import TaskRelationship
from tests.builders import positive_definite
from tests.environment import array, assert_close
from tests.stacks import covariances_of, prior_on, related_weight

SHAPE = (3, 2, 4)


def correlation(n_tasks):
    matrix = positive_definite(np.random.default_rng(0), n_tasks, condition=10.0)
    deviation = np.sqrt(np.diag(matrix))
    return matrix / np.outer(deviation, deviation)


def test_tasks_start_with_one_correlation_for_all_pairs():
    """One half unless another is given; all other modes are the identity."""
    prior, _ = prior_on(related_weight(SHAPE))
    task, output, inputs = covariances_of(prior)
    assert_close(task, 0.5 * np.eye(3) + 0.5)
    np.testing.assert_array_equal(output, np.eye(2))
    np.testing.assert_array_equal(inputs, np.eye(4))


@pytest.mark.parametrize("settings", [{}, {"scale": "free"}, {"inverse": "pseudo"}])
def test_a_matrix_is_taken_as_it_is(settings):
    """A correlation matrix has trace T already."""
    matrix = correlation(3)
    prior, _ = prior_on(related_weight(SHAPE), start=matrix, **settings)
    assert_close(covariances_of(prior)[0], matrix)
    assert_close(prior.correlations("a", raw=True), matrix)


def test_a_matrix_is_brought_to_unit_determinant_where_that_is_the_scale():
    """The correlations stay."""
    matrix = correlation(3)
    prior, _ = prior_on(related_weight(SHAPE), start=matrix, scale="determinant")
    task = covariances_of(prior)[0]
    assert_close(np.linalg.det(task), 1.0)
    assert_close(prior.correlations("a", raw=True), matrix)


def test_no_updates_hold_the_start():
    """n_updates=0: a fixed correlation."""
    prior, _ = prior_on(
        related_weight(SHAPE), start=0.8, n_updates=0, update_every=1, application="gradient"
    )
    for _ in range(3):
        prior.step()
    assert prior.n_updates == 0
    assert_close(covariances_of(prior)[0], 0.2 * np.eye(3) + 0.8)


def test_the_first_penalty_is_that_of_the_start():
    """Related tasks with a positive correlation cost less than unrelated ones of the same norm."""
    related, unrelated = np.ones(SHAPE), np.ones(SHAPE)
    unrelated[0] *= -1
    costs = [array(prior_on(w, start=0.8)[0]()).item() for w in (related, unrelated)]
    assert costs[0] < costs[1] / 5


def test_a_shared_covariance_starts_where_its_relationship_does():
    """As given there, for all layers."""
    relationship = TaskRelationship(3, start=correlation(3))
    assert_close(relationship.correlations(), correlation(3))
    prior, _ = prior_on(
        related_weight(SHAPE), related_weight((3, 5, 2)), share_task_covariance=relationship
    )
    for layer in "ab":
        assert_close(covariances_of(prior, layer)[0], correlation(3))
