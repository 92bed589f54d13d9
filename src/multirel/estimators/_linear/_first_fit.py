"""Fits that several settings begin with."""

from weakref import WeakKeyDictionary

import numpy as np

from multirel.estimators._linear._problem import LinearProblem, LinearSolution
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty

__all__ = ["solve_once"]

_LAST: "WeakKeyDictionary[LinearProblem, tuple[QuadraticPenalty, float, LinearSolution]]" = (
    WeakKeyDictionary()
)
"""The last penalty, tolerance and solution of every problem that is still there."""


def solve_once(
    problem: LinearProblem,
    penalty: QuadraticPenalty,
    *,
    tolerance: float,
    start: LinearSolution | None = None,
) -> LinearSolution:
    """What `solve_quadratic` gives, which is kept until the same problem comes with another penalty.

    Settings that say how covariances are estimated, such as the shrinkage, have the first fit in common.

    Args:
        problem: The problem.
        penalty: The penalty of the first fit.
        tolerance: Largest relative gap that counts as solved.
        start: A solution that may be near.
    """
    if problem in _LAST:
        known, reached, solution = _LAST[problem]
        if reached == tolerance and _is_same(known, penalty):
            return solution
    solution = solve_quadratic(problem, penalty, tolerance=tolerance, start=start)
    _LAST[problem] = (penalty, tolerance, solution)
    return solution


def _is_same(one: QuadraticPenalty, other: QuadraticPenalty) -> bool:
    modes = zip(one.modes, other.modes, strict=True)
    return one.strength == other.strength and all(_is_same_mode(*pair) for pair in modes)


def _is_same_mode(one: ModeSpectrum, other: ModeSpectrum) -> bool:
    if one.outside != other.outside or not np.array_equal(one.inside, other.inside):
        return False
    if one.basis is None or other.basis is None:
        return one.basis is other.basis
    return np.array_equal(one.basis, other.basis)
