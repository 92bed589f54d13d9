import numpy as np
import pytest
from numpy.testing import assert_allclose

from multirel.estimators._linear import Design, LinearSolution
from multirel.estimators._linear._unlabeled_tasks import (
    conditional_weights,
    labeled_problem,
    with_unlabeled_tasks,
)
from tests.builders import positive_definite
from tests.unit.estimators.linear.learned_priors import problem_of

HAS_ROWS = np.array([True, False, True, True, False])


def test_the_problem_of_labeled_tasks_has_the_same_rows():
    problem = problem_of(3, 1, 2, n_rows=4)
    starts = np.array([0, 4, 4, 8, 12, 12])
    gappy = type(problem)(**{**vars(problem), "design": Design(problem.design.x, starts)})

    labeled, has_rows = labeled_problem(gappy)

    assert has_rows.tolist() == HAS_ROWS.tolist()
    assert labeled.design.starts.tolist() == [0, 4, 8, 12]
    assert labeled_problem(problem)[0] is problem


def dense_conditional_mean(weights, covariance):
    """Σ_ul Σ_ll⁻¹ W."""
    cross = covariance[np.ix_(~HAS_ROWS, HAS_ROWS)]
    gain = cross @ np.linalg.inv(covariance[np.ix_(HAS_ROWS, HAS_ROWS)])
    return np.tensordot(gain, weights, axes=1)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_unknown_weights_are_the_conditional_mean_at_one_correlation(correlation):
    weights = np.random.default_rng(0).standard_normal((3, 2, 4))
    covariance = (1 - correlation) * np.eye(5) + correlation

    found = conditional_weights(weights, HAS_ROWS, start=correlation, mean="zero")

    expected = dense_conditional_mean(weights, covariance)
    assert_allclose(np.broadcast_to(found, expected.shape), expected, atol=1e-12)


def test_unknown_weights_are_the_conditional_mean_at_a_matrix():
    weights = np.random.default_rng(0).standard_normal((3, 2, 4))
    covariance = positive_definite(np.random.default_rng(1), 5)

    found = conditional_weights(weights, HAS_ROWS, start=covariance, mean="zero")

    assert_allclose(found, dense_conditional_mean(weights, covariance), atol=1e-12)


@pytest.mark.parametrize("start", [0.5, 0.5 * np.eye(5) + 0.5])
def test_unknown_weights_are_the_average_where_that_is_the_mean(start):
    weights = np.random.default_rng(0).standard_normal((3, 2, 4))

    found = conditional_weights(weights, HAS_ROWS, start=start, mean="task-average")

    expected = np.broadcast_to(weights.mean(axis=0), (2, 2, 4))
    assert_allclose(np.broadcast_to(found, (2, 2, 4)), expected, atol=1e-12)


def test_unknown_intercepts_are_the_average():
    rng = np.random.default_rng(0)
    weights, intercepts = rng.standard_normal((3, 2, 4)), rng.standard_normal((3, 2))
    solution = LinearSolution(
        weights=weights,
        intercepts=intercepts,
        objective=1.0,
        gap=0.0,
        n_iterations=1,
        converged=True,
    )

    full = with_unlabeled_tasks(solution, HAS_ROWS, start=0.5, mean="zero")

    assert_allclose(full.weights[HAS_ROWS], weights)
    assert_allclose(full.intercepts[~HAS_ROWS], [intercepts.mean(axis=0)] * 2)
    assert with_unlabeled_tasks(solution, np.ones(3, bool), start=0.5, mean="zero") is solution
