"""The second derivative of an objective with a quadratic penalty, and what stands for its inverse."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from multirel.estimators._linear._design import Design
from multirel.estimators._linear._gram_preconditioner import GramPreconditioner
from multirel.estimators._linear._inverse_hessian import InverseHessian, InversePenalty
from multirel.estimators._linear._output_channels import OutputChannels
from multirel.estimators._linear._row_groups import RowGroups
from multirel.estimators._linear._row_preconditioner import RowPreconditioner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._problem import LinearProblem
    from multirel.estimators._linear._profiled_loss import Curvature
    from multirel.estimators._linear._quadratic_penalty import QuadraticPenalty

__all__ = ["MadeInverse", "SecondDerivative", "centered_grams", "inverse_hessian"]

MOST_ENTRIES = 2**25
"""The largest matrices of a preconditioner, in numbers of 8 bytes."""

OPERATIONS_OF_PRODUCT = 8
"""What an entry of the rows takes in a product with the second derivative: to the rows and back."""

COST_OF_A_CALL = 1e6
"""Operations that take about as long as a few calls."""


@final
class SecondDerivative:
    """Products with the second derivative of loss and penalty, intercepts always at their best.

    Args:
        problem: The problem.
        curvature: The second derivative of its loss by the outputs.
        penalty: The penalty.
        grams: Those of the squared loss, "T r r", where they are known.
    """

    def __init__(
        self,
        problem: "LinearProblem",
        curvature: "Curvature",
        *,
        penalty: "QuadraticPenalty",
        grams: "NDArray[np.float64] | None" = None,
    ) -> None:
        self._design, self._curvature, self._penalty = problem.design, curvature, penalty
        self._grams = grams

    def product(self, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The second derivative times weights, "T C r"."""
        if self._grams is not None:
            return weights @ self._grams + self._penalty.product(weights)
        values = self._curvature.product(self._design.products(weights))
        return self._design.pull_back(values) + self._penalty.product(weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeInverse:
    """An approximate inverse, and what is known with it."""

    inverse: InverseHessian
    """The inverse."""

    grams: "NDArray[np.float64] | None" = None
    """The Gram matrices of the squared loss, "T r r", where it has them."""

    n_products: int = 0
    """Products with the second derivative that cost about as much as making it."""


def inverse_hessian(
    problem: "LinearProblem", curvature: "Curvature", penalty: "QuadraticPenalty"
) -> MadeInverse:
    """The inverse that costs least to make, of those that are small enough."""
    channels = OutputChannels(
        penalty.output, problem.n_outputs, is_softmax=problem.loss == "softmax"
    )
    design, diagonal = problem.design, curvature.diagonal
    if problem.loss == "squared":
        diagonal = diagonal[:, :1]
    elif not channels.are_outputs:
        diagonal = diagonal.mean(axis=1, keepdims=True)
    choice, cost = _cheapest(design, penalty, diagonal.shape[1], len(channels.curvatures))
    if choice is None and diagonal.shape[1] > 1:
        diagonal = diagonal.mean(axis=1, keepdims=True)
        choice, cost = _cheapest(design, penalty, 1, len(channels.curvatures))
    if choice is None:
        return MadeInverse(inverse=InversePenalty(penalty, float(diagonal.sum())))
    n_entries = max(1, design.n_rows * design.n_coordinates * problem.n_outputs)
    n_products = int(cost / (OPERATIONS_OF_PRODUCT * n_entries))
    if choice == "rows":
        inverse = RowPreconditioner(
            design,
            diagonal,
            groups=curvature.loss.groups,
            penalty=penalty,
            channels=channels,
        )
        return MadeInverse(inverse=inverse, n_products=n_products)
    if problem.loss == "squared":
        grams = _squared_grams(design, diagonal, curvature.loss.groups)
        inner = GramPreconditioner(grams[None], penalty, channels)
        return MadeInverse(inverse=inner, grams=grams)
    inner = GramPreconditioner(
        centered_grams(design, diagonal, curvature.loss.groups), penalty, channels
    )
    return MadeInverse(inverse=inner, n_products=n_products)


def centered_grams(
    design: Design, diagonal: "NDArray[np.float64]", groups: RowGroups
) -> "NDArray[np.float64]":
    """Σ d (x − x̄)(x − x̄)ᵀ of every task, "K T r r", with the mean x̄ over the rows of an intercept.

    Args:
        design: The rows x.
        diagonal: d, "n K".
        groups: The rows of every intercept; each group is within a task.
    """
    totals = groups.sums(diagonal)
    totals = np.where(totals > 0, totals, 1.0)
    by_group = design if groups is design.groups else Design(design.x, groups.starts)
    sums = by_group.pull_back(diagonal) / np.sqrt(totals)[:, :, None]
    result = np.empty((diagonal.shape[1], design.n_tasks, *(design.n_coordinates,) * 2))
    for output in range(diagonal.shape[1]):
        result[output] = design.grams(diagonal[:, output])
        mine = sums[:, output]
        if by_group is design:
            result[output] -= mine[:, :, None] * mine[:, None, :]
        else:
            owner = design.task[groups.starts[:-1][groups.filled]]
            for task in np.unique(owner).tolist():
                part = mine[groups.filled][owner == task]
                result[output, task] -= part.T @ part
    return result


def _squared_grams(
    design: Design, diagonal: "NDArray[np.float64]", groups: RowGroups
) -> "NDArray[np.float64]":
    """Those of the squared loss, made once for all solutions of a problem."""
    key = (groups.starts.tobytes(), diagonal.tobytes())
    if key not in design.known_grams:
        design.known_grams.clear()
        design.known_grams[key] = centered_grams(design, diagonal, groups)[0]
    return design.known_grams[key]


def _cheapest(
    design: Design, penalty: "QuadraticPenalty", n_diagonals: int, n_channels: int
) -> tuple[str | None, float]:
    """Gram matrices or a kernel of the rows, and the operations it takes; None where both are too large."""
    counts = design.counts.astype(float)
    size, n_sets = float(design.n_coordinates), max(n_diagonals, n_channels)
    cost = {"grams": np.inf, "rows": np.inf}
    if n_sets * design.n_tasks * size**2 <= MOST_ENTRIES:
        cost["grams"] = n_diagonals * counts.sum() * size**2 + 2 * n_sets * (
            design.n_tasks * size**3
        )
    blocks = counts if penalty.task.is_multiple_of_identity else counts.sum()[None]
    if not penalty.is_singular and n_sets * (blocks**2).sum() <= MOST_ENTRIES:
        cost["rows"] = float((blocks**2).sum() * size + n_sets * (blocks**3).sum() / 3)
        # One small matrix after the other, where Gram matrices take one batch.
        cost["rows"] += len(blocks) * COST_OF_A_CALL
    best = min(cost, key=cost.__getitem__)
    return (best if cost[best] < np.inf else None), cost[best]
