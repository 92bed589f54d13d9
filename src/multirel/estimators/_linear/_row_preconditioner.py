"""An inverse of second derivatives by a kernel matrix of the rows."""

from typing import TYPE_CHECKING, final

import numpy as np

from multirel.estimators._linear._design import Design
from multirel.estimators._linear._inverse_hessian import InverseHessian, floored
from multirel.estimators._linear._output_channels import OutputChannels
from multirel.estimators._linear._row_groups import RowGroups
from multirel.estimators._linear._symmetric_solve import SymmetricSystems

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._quadratic_penalty import QuadraticPenalty

__all__ = ["RowPreconditioner"]


@final
class RowPreconditioner(InverseHessian):
    r"""The inverse of Xᵀ D X + s P for rows X whose values are centered, by a matrix of the size of the rows.

    With Z = Π D^½ X, (s P + Zᵀ Z)⁻¹ = (s P)⁻¹ − (s P)⁻¹ Zᵀ (I + Z (s P)⁻¹ Zᵀ)⁻¹ Z (s P)⁻¹. Tasks that are
    not coupled have a matrix each.

    Args:
        design: X.
        diagonal: D of all outputs, "n 1", or of each, "n C".
        groups: The rows of every intercept, which Π centers.
        penalty: The penalty, of a strength above 0.
        channels: How its outputs are taken apart.
    """

    def __init__(
        self,
        design: Design,
        diagonal: "NDArray[np.float64]",
        *,
        groups: RowGroups,
        penalty: "QuadraticPenalty",
        channels: OutputChannels,
    ) -> None:
        self._design, self._penalty, self._channels = design, penalty, channels
        self._root = np.sqrt(diagonal)
        self._groups = groups
        self._group = groups.of_row
        totals = groups.sums(diagonal)
        self._totals = np.where(totals > 0, totals, 1.0)
        self._strength = penalty.strength * channels.precision
        is_apart = penalty.task.is_multiple_of_identity
        starts = design.starts if is_apart else np.array([0, design.n_rows])
        pairs = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        self._blocks = [slice(*pair) for pair in pairs]
        self._blocks = [rows for rows in self._blocks if rows.stop > rows.start]
        self._systems = [self._system(rows) for rows in self._blocks]

    def apply(self, gradient: "NDArray[np.float64]") -> "NDArray[np.float64]":
        smooth = self._unpenalize(self._channels.forward(gradient))
        values = self._center(self._root * self._design.products(smooth))
        values = values * np.sqrt(self._channels.curvatures)
        for rows, system in zip(self._blocks, self._systems, strict=True):
            part = values[rows]
            if self._n_sets == 1:
                values[rows] = system.solve(part[None])[0]
            else:
                values[rows] = system.solve(part.T[:, :, None])[:, :, 0].T
        values = self._root * self._center(values) * np.sqrt(self._channels.curvatures)
        solved = smooth - self._unpenalize(self._design.pull_back(values))
        return self._channels.backward(solved)

    @property
    def _n_sets(self) -> int:
        return max(self._root.shape[1], len(self._channels.curvatures))

    def _center(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Π: values of the rows without their projection on D^½ 1 of each intercept."""
        means = self._groups.sums(self._root * values) / self._totals
        return values - self._root * means[self._group]

    def _unpenalize(self, gradient: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """(s P)⁻¹ in the channels, without zeros."""
        task, inner = self._penalty.task, self._penalty.input
        result = task.apply(gradient, 0, floored(task.largest, -1.0))
        return inner.apply(result, 2, floored(inner.largest, -1.0)) / self._strength

    def _system(self, rows: slice) -> SymmetricSystems:
        """I + μ Z (s P)⁻¹ Zᵀ for the rows of a block and every set of outputs."""
        task = self._penalty.task
        kernel = self._products(rows)
        relation = task.apply(np.eye(self._design.n_tasks), 0, floored(task.largest, -1.0))
        mine = self._design.task[rows]
        kernel = kernel * relation[np.ix_(mine, mine)] / self._strength
        outputs = range(self._root.shape[1])
        centered = np.stack([self._centered_kernel(kernel, rows, k) for k in outputs])
        matrices = centered * self._channels.curvatures[:, None, None]
        matrices[:, np.arange(len(mine)), np.arange(len(mine))] += 1
        return SymmetricSystems(matrices)

    def _products(self, rows: slice) -> "NDArray[np.float64]":
        """x P_I⁻¹ xᵀ of some rows."""
        inner, plain = self._penalty.input, self._design.row_products(rows)
        if inner.basis is None or inner.is_multiple_of_identity:
            return plain / inner.largest
        inverse = floored(inner.largest, -1.0)
        outside = 0.0 if inner.is_complete else float(inverse(np.array([inner.outside]))[0])
        turned = self._design.x[rows] @ inner.basis
        return outside * plain + (turned * (inverse(inner.inside) - outside)) @ turned.T

    def _centered_kernel(
        self, kernel: "NDArray[np.float64]", rows: slice, output: int
    ) -> "NDArray[np.float64]":
        """Π D^½ K D^½ Π of a block."""
        root = self._root[rows, output]
        group = self._group[rows] - self._group[rows.start]
        groups = RowGroups(np.concatenate([[0], np.cumsum(np.bincount(group))]))
        totals = self._totals[self._group[rows.start] :][: len(groups), output, None]
        result = root[:, None] * kernel * root
        for _ in range(2):
            means = groups.sums(root[:, None] * result) / totals
            result = (result - root[:, None] * means[group]).T
        return result
