"""Quadratic models of losses with a spectral penalty, by Douglas–Rachford splitting with Anderson mixing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from multirel.estimators._linear._interruption import is_interrupted
from multirel.estimators._linear._spectral_curvature import TaskCurvature
from multirel.estimators._linear._spectral_mixing import AndersonMixing
from multirel.estimators._linear._spectral_penalty import SpectralPenalty

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["QuadraticModel", "SplitPoint", "balanced_weight", "minimize_model"]

MEMORY = 10
MOST_ITERATIONS = 3000

ROUNDOFF = 3e-16
"""A residual that is no longer than this part of the point is not going to be shorter."""

CLOSE = 1e-8
"""A residual that is no longer than this part of the point is worth computing exactly."""

MOST_STALE = 20
"""Checks after which a residual that is short but not half as long as before is not going to be shorter."""

CHECK_EVERY = 5
"""Iterations from one check of the gap to the next."""

LARGEST_IMBALANCE = 5.0
"""How far the weight of the splitting may be from the ratio of slopes to weights."""

LARGEST_CHANGE = 100.0
"""How much that weight is changed at once: weights that are nearly zero say little."""

MOST_BALANCES = 6
"""How often that weight is changed: every change takes new factors."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticModel:
    """½⟨W, A W⟩ − ⟨B, W⟩ + Σ constants: a loss, or what it looks like near some weights."""

    curvature: TaskCurvature
    """A, one matrix per task."""

    linear: "NDArray[np.float64]"
    """B, "T r"."""

    constants: "NDArray[np.float64]"
    """What the weights do not change, "T"; the model is a sum of squares, so it is never negative."""

    def values(
        self, weights: "NDArray[np.float64]", slopes: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """The model of every task, from weights and A W − B."""
        return self.constants + 0.5 * np.einsum("ti,ti->t", weights, slopes - self.linear)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SplitPoint:
    """Where a splitting stands: enough to go on from there, with another model too."""

    blocks: "NDArray[np.float64]"
    """Blocks of weights, "B T r", with the zeros that the penalty makes."""

    slopes: "NDArray[np.float64]"
    """Nearly minus the derivative of the loss, "B T r": in the limit the same for all blocks."""

    weight: float
    """The weight μ of the splitting."""

    n_iterations: int = 0
    """Iterations made from the start."""


def balanced_weight(
    slopes: "NDArray[np.float64]", blocks: "NDArray[np.float64]", *, weight: float
) -> float:
    """How much longer slopes are than weights, but not far from the weight so far.

    Args:
        slopes: "B T r".
        blocks: Blocks of weights, "B T r".
        weight: The weight so far.
    """
    lengths = float(np.linalg.norm(slopes)), float(np.linalg.norm(blocks))
    if min(lengths) == 0:
        return weight
    lowest, highest = np.log(weight / LARGEST_CHANGE), np.log(weight * LARGEST_CHANGE)
    return float(np.exp(np.clip(np.log(lengths[0]) - np.log(lengths[1]), lowest, highest)))


def minimize_model(
    model: QuadraticModel,
    penalty: SpectralPenalty,
    *,
    start: SplitPoint,
    absolute: float,
    relative: float,
) -> SplitPoint:
    """The minimizer of a quadratic model plus a penalty.

    Args:
        model: The model.
        penalty: The penalty.
        start: Where to start.
        absolute: A difference from the smallest objective that is small enough.
        relative: Such a difference as a part of the objective; the larger of both counts.
    """
    splitting = _Splitting(model, penalty, start)
    for iteration in range(MOST_ITERATIONS):
        splitting.apply_penalty()
        if iteration % CHECK_EVERY == 0:
            splitting.balance()
            objective, gap = splitting.certify()
            if gap <= max(absolute, relative * objective) or splitting.has_settled():
                break
            if is_interrupted():
                break
        splitting.apply_model()
    return splitting.point(iteration + 1)


@final
class _Splitting:
    """z ↦ z + u − w with w = prox of the penalty at z and u = prox of the model at 2w − z."""

    def __init__(self, model: QuadraticModel, penalty: SpectralPenalty, start: SplitPoint) -> None:
        self._model = model
        self._penalty = penalty
        self._mixing = AndersonMixing(start.blocks.size, memory=MEMORY)
        self._best_bound = -np.inf
        self._n_balances = 0
        self._is_close = False
        self._n_stale, self._last_shortest = 0, np.inf
        self._near = start.blocks
        self._set_weight(start.weight)
        self._point = start.blocks + start.slopes / self._weight

    def apply_penalty(self) -> None:
        self._near, self._value = self._penalty.prox(self._point, weight=self._weight)

    def apply_model(self) -> None:
        beyond = 2 * self._near - self._point
        center = beyond.sum(axis=0)
        # The sum of the blocks is as if it were alone, with its share of the weight.
        weights = self._solution + self._shift * self._resolvent(center)
        if self._is_close:
            # Inverses leave more roundoff than there is in one step of refinement.
            left = self._model.linear + self._shift * (center - weights)
            weights = weights + self._resolvent(left - self._model.curvature.times(weights))
        image = self._point - self._near + beyond + (weights - center) / len(beyond)
        self._point = self._mixing.next_point(self._point, image)

    def certify(self) -> tuple[float, float]:
        """The objective at the blocks, and a bound on how far it is above its smallest value."""
        weights = self._near.sum(axis=0)
        slopes = self._model.curvature.times(weights) - self._model.linear
        losses = self._model.values(weights, slopes)
        factors = self._penalty.factors(slopes)
        # A sum of squares Σ r² with derivative s · 2 r Xᵀ: the conjugate at a part s of the slopes.
        crossed = np.einsum("ti,ti->t", weights, self._model.linear) - 2 * self._model.constants
        conjugates = factors**2 * losses + factors * crossed
        bound = -conjugates.sum() - self._penalty.conjugate(-slopes * factors[:, None])
        self._best_bound = max(self._best_bound, bound)
        objective = float(losses.sum() + self._value)
        return objective, objective - self._best_bound

    def has_settled(self) -> bool:
        """Whether what is left is roundoff."""
        length, shortest = float(np.linalg.norm(self._point)), self._mixing.shortest
        self._is_close = self._is_close or shortest <= CLOSE * length
        self._n_stale = 0 if shortest < self._last_shortest / 2 else self._n_stale + 1
        self._last_shortest = min(shortest, self._last_shortest)
        is_stale = self._is_close and self._n_stale >= MOST_STALE
        return is_stale or shortest <= ROUNDOFF * length

    def balance(self) -> None:
        """Bring the weight near the ratio of slopes to weights, where both halves make progress."""
        slopes = self._weight * (self._point - self._near)
        weight = balanced_weight(slopes, self._near, weight=self._weight)
        imbalance = max(weight / self._weight, self._weight / weight)
        if imbalance > LARGEST_IMBALANCE and self._n_balances < MOST_BALANCES:
            self._n_balances += 1
            self._set_weight(weight)
            self._point = self._near + slopes / weight
            self._mixing.forget()

    def point(self, n_iterations: int) -> SplitPoint:
        return SplitPoint(
            blocks=self._near,
            slopes=self._weight * (self._point - self._near),
            weight=self._weight,
            n_iterations=n_iterations,
        )

    def _set_weight(self, weight: float) -> None:
        self._weight = weight
        self._shift = weight / len(self._near)
        self._resolvent = self._model.curvature.resolvent(self._shift)
        self._solution = self._resolvent(self._model.linear)
