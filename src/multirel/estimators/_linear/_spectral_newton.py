"""A loss of one output with a spectral penalty: Newton's method, certified by the dual problem."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from multirel.estimators._linear._duality import (
    LossPoint,
    loss_conjugate,
    loss_point,
    smallest_scale,
)
from multirel.estimators._linear._interruption import is_interrupted
from multirel.estimators._linear._profiled_loss import ProfiledLoss
from multirel.estimators._linear._progress import tell
from multirel.estimators._linear._spectral_curvature import TaskCurvature
from multirel.estimators._linear._spectral_penalty import SpectralPenalty
from multirel.estimators._linear._spectral_splitting import (
    LARGEST_IMBALANCE,
    QuadraticModel,
    SplitPoint,
    balanced_weight,
    minimize_model,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Minimum", "minimize_output", "tasks_with_slopes"]

MOST_MODELS = {"squared": 4, "binary": 60}
"""Quadratic models of the loss at most; mostly 1 and 5 are enough."""

MOST_HALVINGS = {"squared": 1, "binary": 30}
"""How often a step is tried at most: the model of the squared loss is exact."""

SHARE_FOR_MODEL = 0.3
"""Part of the tolerance that the minimum of a model may take."""

SHARE_LEFT = 0.1
"""What that part is multiplied by where a model that is the loss itself was not minimized far enough."""

SHARE_OF_GAP = 0.01
"""Part of the gap that the minimum of a model may leave where the loss is no quadratic."""

SMALLEST_GAP = 1e-4
"""A gap is not wanted below this part of the floor of the scale, 1e-13 of the loss without weights: that much
roundoff is in the residuals of the rows."""

ROUNDOFF = 1e-14
"""Differences of objectives that mean nothing, relative to them."""

SMALLEST_CURVATURE = 1e-12
"""Second derivatives of a row's loss are at least this part of what the row counts."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Minimum:
    """Where a loss plus a penalty is nearly smallest."""

    blocks: "NDArray[np.float64]"
    """ "B T r"."""

    point: LossPoint
    """The loss there."""

    objective: float
    """The loss plus the penalty."""

    gap: float
    """How far the objective may be above the smallest."""

    scale: float
    """What a relative gap is relative to."""

    is_found: bool
    """Whether the gap is as small as it should be, or roundoff."""

    n_iterations: int
    """Iterations of the splitting."""


def tasks_with_slopes(loss: ProfiledLoss) -> "NDArray[np.int64]":
    """The numbers of the tasks whose loss depends on the weights once the intercepts are the best.

    That of others does not: they have fewer than two rows, or a single class.
    """
    return np.flatnonzero((loss.problem.design.counts > 1) & loss.is_finite[:, 0])


def minimize_output(
    loss: ProfiledLoss,
    penalty: SpectralPenalty,
    *,
    tolerance: float,
    start: "NDArray[np.float64] | None" = None,
    curvature: TaskCurvature | None = None,
) -> Minimum:
    """The minimum of a loss of one output plus a penalty.

    Every quadratic model of the loss is minimized by splitting. The model of the squared loss is the loss
    itself, so one is enough up to roundoff.

    Args:
        loss: The loss, "squared" or "binary".
        penalty: The penalty.
        tolerance: The largest relative gap.
        start: Blocks "B T r" that may be near.
        curvature: The curvature of the squared loss at `tasks_with_slopes`, if it is known.
    """
    search = _Search(loss, penalty, start=start, curvature=curvature)
    share = SHARE_FOR_MODEL * tolerance
    for _ in range(MOST_MODELS[loss.kind]):
        gap = search.gap()
        tell(partial(_words, search.n_iterations, gap / search.scale))
        if gap <= search.aim(tolerance) or is_interrupted():
            break
        if loss.kind == "squared":
            went_down = search.step(absolute=share * search.floor, relative=share)
            share *= SHARE_LEFT
        else:
            absolute = max(share * search.scale, SHARE_OF_GAP * gap)
            went_down = search.step(absolute=absolute, relative=0.0)
        if not went_down:
            break
    return Minimum(
        blocks=search.blocks,
        point=search.point,
        objective=search.objective,
        gap=max(float(search.gap()), 0.0),
        scale=search.scale,
        is_found=bool(search.gap() <= search.aim(tolerance)),
        n_iterations=search.n_iterations,
    )


def _words(n_iterations: int, gap: float) -> str:
    return f"{n_iterations} iterations, relative gap {gap:.1e}"


@final
class _Search:
    """Where the search stands, and the largest lower bound so far."""

    def __init__(
        self,
        loss: ProfiledLoss,
        penalty: SpectralPenalty,
        *,
        start: "NDArray[np.float64] | None",
        curvature: TaskCurvature | None,
    ) -> None:
        design = loss.problem.design
        self._loss = loss
        self._penalty = penalty
        self._curvature = curvature
        self._tasks = tasks_with_slopes(loss)
        self._split: SplitPoint | None = None
        self.floor = smallest_scale(loss)
        self.n_iterations = 0
        self.blocks = np.zeros((penalty.n_blocks, design.n_tasks, design.n_coordinates))
        if start is not None:
            self.blocks[:, self._tasks] = start[:, self._tasks]
        self.point = loss_point(loss, self.blocks.sum(axis=0))
        self.objective = self.point.value + penalty.value(self.blocks)
        self._bound = self._bound_at(self.point)

    @property
    def scale(self) -> float:
        """What a relative gap is relative to."""
        return max(self.objective, self.floor)

    def aim(self, tolerance: float) -> float:
        """The largest gap that is small enough."""
        return max(tolerance * self.scale, SMALLEST_GAP * self.floor)

    def gap(self) -> float:
        """How far the objective may be above the smallest."""
        return self.objective - self._bound

    def step(self, *, absolute: float, relative: float) -> bool:
        """Go to the minimum of a model, or as far towards it as the objective falls; whether it does."""
        model = self._model()
        start = self._split or self._first_split(model)
        split = minimize_model(
            model, self._penalty, start=start, absolute=absolute, relative=relative
        )
        self.n_iterations += split.n_iterations
        self._split = split
        direction = split.blocks - self.blocks[:, self._tasks]
        length = 1.0
        for _ in range(MOST_HALVINGS[self._loss.kind]):
            if self._try(direction, length):
                return True
            length /= 2
        return False

    def _try(self, direction: "NDArray[np.float64]", length: float) -> bool:
        """Go a part of the way, if that is better."""
        blocks = self.blocks.copy()
        blocks[:, self._tasks] += length * direction
        point = loss_point(self._loss, blocks.sum(axis=0), intercepts=self.point.intercepts)
        objective = point.value + self._penalty.value(blocks)
        bound = max(self._bound, self._bound_at(point))
        is_lower = objective < self.objective
        # Close to the minimum the objective is equal up to roundoff, but the bound is not.
        is_equal = objective <= self.objective + ROUNDOFF * self.scale
        if not (is_lower or (is_equal and objective - bound < self.gap())):
            return False
        self.blocks, self.point, self.objective, self._bound = blocks, point, objective, bound
        return True

    def _bound_at(self, point: LossPoint) -> float:
        """The dual objective at the slopes of a point, which no objective is below."""
        factors = self._penalty.factors(point.slopes)
        conjugate = loss_conjugate(self._loss, point.row_slopes, factors)
        return -conjugate - self._penalty.conjugate(-point.slopes * factors[:, None])

    def _model(self) -> QuadraticModel:
        """The loss up to second order."""
        loss, point, tasks = self._loss, self.point, self._tasks
        diagonal = loss.curvature(point.products, point.intercepts).diagonal
        diagonal = np.maximum(diagonal, SMALLEST_CURVATURE * loss.c)
        curvature = self._curvature or TaskCurvature(loss.problem.design, diagonal[:, 0], tasks)
        weights = self.blocks[:, tasks].sum(axis=0)
        linear = curvature.times(weights) - point.slopes[tasks]
        squares = np.divide(
            point.row_slopes**2, 2 * diagonal, out=np.zeros_like(diagonal), where=diagonal > 0
        )
        constants = loss.problem.design.sums(squares)[tasks, 0]
        constants -= 0.5 * np.einsum("ti,ti->t", weights, point.slopes[tasks] - linear)
        return QuadraticModel(curvature=curvature, linear=linear, constants=constants)

    def _first_split(self, model: QuadraticModel) -> SplitPoint:
        """Where the splitting starts: at a step along the slopes, unless there are weights already."""
        slopes = -self.point.slopes[self._tasks]
        square = float(np.vdot(slopes, slopes))
        along = float(np.vdot(slopes, model.curvature.times(slopes)))
        weight = self._penalty.n_blocks * along / square if along > 0 else 1.0
        blocks = self.blocks[:, self._tasks]
        if blocks.any():
            slopes = np.broadcast_to(slopes, blocks.shape)
        else:
            far = np.broadcast_to(slopes / weight, blocks.shape)
            blocks, _ = self._penalty.prox(far, weight=weight)
            slopes = weight * (far - blocks)
        weight = balanced_weight(slopes, blocks, weight=weight)
        last = model.curvature.last_shift * len(blocks)
        if weight / LARGEST_IMBALANCE <= last <= weight * LARGEST_IMBALANCE:
            weight = last
        return SplitPoint(blocks=blocks, slopes=slopes, weight=weight)
