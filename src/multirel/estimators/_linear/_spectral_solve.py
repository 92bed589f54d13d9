"""Learning problems with a spectral penalty: every output, and every task."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final
from weakref import WeakKeyDictionary

import numpy as np

from multirel.estimators._linear._last_intercepts import all_intercepts
from multirel.estimators._linear._problem import LinearProblem, LinearSolution
from multirel.estimators._linear._profiled_loss import ProfiledLoss
from multirel.estimators._linear._spectral_curvature import TaskCurvature
from multirel.estimators._linear._spectral_newton import minimize_output, tasks_with_slopes
from multirel.estimators._linear._spectral_penalty import SpectralPenalty

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SpectralSolution", "solve_spectral"]

SHARE_FOR_ONE_CLASS = 0.01
"""Part of the tolerance that finite intercepts of tasks with one class take: their best are infinite."""

_curvatures: "WeakKeyDictionary[LinearProblem, TaskCurvature]" = WeakKeyDictionary()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SpectralSolution:
    """A solution, and the blocks whose sum its weights are."""

    solution: LinearSolution
    """The solution."""

    blocks: "NDArray[np.float64]"
    """ "B T C r"."""


def solve_spectral(
    problem: LinearProblem,
    penalty: SpectralPenalty,
    *,
    tolerance: float,
    start: "NDArray[np.float64] | None" = None,
) -> SpectralSolution:
    """The minimizer of the loss plus a penalty on the weights of every output.

    The outputs are independent problems, the objective is their sum. Tasks without rows get no weights and
    the average of the other tasks' intercepts.

    Args:
        problem: The problem, with the squared or the binary loss and an intercept per task.
        penalty: The penalty, relative to the mean loss.
        tolerance: The largest relative gap.
        start: Blocks "B T C r" that may be near.
    """
    minima, intercepts, added = [], [], 0.0
    for output in range(problem.n_outputs):
        loss = ProfiledLoss(replace(problem, targets=problem.targets[:, [output]]))
        minimum = minimize_output(
            loss,
            penalty,
            tolerance=tolerance * (1 - SHARE_FOR_ONE_CLASS),
            start=None if start is None else start[:, :, output],
            curvature=_squared_curvature(problem, loss),
        )
        point, most_added = minimum.point, SHARE_FOR_ONE_CLASS * tolerance * minimum.scale
        found, more = all_intercepts(loss, point.products, point.intercepts, most_added=most_added)
        minima.append(minimum)
        intercepts.append(found[:, 0])
        added += more
    blocks = np.stack([minimum.blocks for minimum in minima], axis=2)
    objective = sum(minimum.objective for minimum in minima) + added
    solution = LinearSolution(
        weights=blocks.sum(axis=0),
        intercepts=np.stack(intercepts, axis=1),
        objective=objective * problem.objective_scale,
        gap=(sum(minimum.gap for minimum in minima) + added) / sum(m.scale for m in minima),
        n_iterations=sum(minimum.n_iterations for minimum in minima),
        converged=all(minimum.is_found for minimum in minima),
    )
    return SpectralSolution(solution=solution, blocks=blocks)


def _squared_curvature(problem: LinearProblem, loss: ProfiledLoss) -> TaskCurvature | None:
    """The curvature of the squared loss, which is the same for all outputs and on a path of strengths."""
    if problem.loss != "squared":
        return None
    if problem not in _curvatures:
        tasks = tasks_with_slopes(loss)
        _curvatures[problem] = TaskCurvature(problem.design, 2 * problem.coefficients, tasks)
    return _curvatures[problem]
