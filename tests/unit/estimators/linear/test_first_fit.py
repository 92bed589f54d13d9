"""The first fit is made once for settings that have it in common, and never given to another problem."""

import numpy as np
import pytest

from multirel.estimators._linear import Design, LinearProblem, _first_fit
from multirel.estimators._linear._first_fit import solve_once
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty


@pytest.fixture
def calls(monkeypatch):
    """How often problems have been solved."""
    made = []

    def count(*args, **kwargs):
        made.append(args)
        return solve_quadratic(*args, **kwargs)

    monkeypatch.setattr(_first_fit, "solve_quadratic", count)
    return made


def problem(seed=0):
    rng = np.random.default_rng(seed)
    return LinearProblem(
        design=Design(rng.standard_normal((30, 4)), np.array([0, 10, 20, 30])),
        targets=rng.standard_normal((30, 1)),
        coefficients=np.full(30, 1 / 30),
        loss="squared",
        n_samples=30.0,
        n_features=4,
    )


def penalty(strength=0.1, correlation=0.5):
    covariance = np.full((3, 3), correlation) + (1 - correlation) * np.eye(3)
    one = ModeSpectrum.identity()
    task = ModeSpectrum.from_covariance(covariance)
    return QuadraticPenalty(strength=strength, task=task, output=one, input=one)


def test_an_equal_penalty_is_not_solved_again(calls):
    same = problem()
    first = solve_once(same, penalty(), tolerance=1e-6)
    assert solve_once(same, penalty(), tolerance=1e-6) is first
    assert len(calls) == 1
    expected = solve_quadratic(same, penalty(), tolerance=1e-6)
    np.testing.assert_allclose(first.weights, expected.weights)


@pytest.mark.parametrize(
    ("other", "tolerance"),
    [
        (penalty(strength=0.2), 1e-6),
        (penalty(correlation=0.6), 1e-6),
        (penalty(), 1e-8),
        (QuadraticPenalty.ridge(0.1), 1e-6),
    ],
)
def test_another_penalty_or_tolerance_is(calls, other, tolerance: float):
    same = problem()
    solve_once(same, penalty(), tolerance=1e-6)
    found = solve_once(same, other, tolerance=tolerance)
    assert len(calls) == 2
    expected = solve_quadratic(same, other, tolerance=tolerance)
    np.testing.assert_allclose(found.weights, expected.weights)


def test_another_problem_is_solved_for_itself(calls):
    solve_once(problem(0), penalty(), tolerance=1e-6)
    other = problem(1)
    found = solve_once(other, penalty(), tolerance=1e-6)
    assert len(calls) == 2
    expected = solve_quadratic(other, penalty(), tolerance=1e-6)
    np.testing.assert_allclose(found.weights, expected.weights)


def test_nothing_is_kept_of_problems_that_are_gone():
    gone = problem()
    solve_once(gone, penalty(), tolerance=1e-6)
    n_known = len(_first_fit._LAST)
    del gone
    assert len(_first_fit._LAST) == n_known - 1
