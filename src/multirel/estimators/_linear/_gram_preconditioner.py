"""An inverse of second derivatives by a Gram matrix per task, and a few strongly coupled directions."""

from typing import TYPE_CHECKING, final

import numpy as np

from multirel.estimators._linear._inverse_hessian import InverseHessian, floored
from multirel.estimators._linear._output_channels import OutputChannels
from multirel.estimators._linear._symmetric_solve import SymmetricSystems

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty

__all__ = ["GramPreconditioner", "split_tasks_of"]

LARGEST_COARSE = 1200
"""Coupled directions of the tasks, times coordinates, that one dense matrix is made for."""

CLOSE_ENOUGH = 4.0
"""Ratio of the eigenvalues that one number may stand for."""


@final
class GramPreconditioner(InverseHessian):
    r"""The inverse of G_t + s P_T ⊗ P_I, with one number in place of most eigenvalues of P_T.

    With the eigenvectors U of the smallest eigenvalues p of P_T, and p̃ for all others,
    M = B − s U diag(p̃ − p) Uᵀ ⊗ P_I and B_t = G_t + s p̃ P_I. In coordinates where P_I = I,
    M⁻¹ = B⁻¹ + s p̃ B⁻¹ U S⁻¹ Uᵀ B⁻¹, S = diag(p / (p̃ − p)) + Uᵀ (G B⁻¹) U.
    It is exact if no eigenvalue had to give way.

    Args:
        grams: G, "K T r r", of all outputs (K = 1) or of each.
        penalty: The penalty.
        channels: How its outputs are taken apart.
    """

    def __init__(
        self,
        grams: "NDArray[np.float64]",
        penalty: "QuadraticPenalty",
        channels: OutputChannels,
    ) -> None:
        self._channels, self._input = channels, penalty.input
        n_sets, n_tasks, size = max(len(grams), len(channels.curvatures)), *grams.shape[1:3]
        data = self._whiten(self._whiten(grams, 2), 3) * channels.curvatures[:, None, None, None]
        strength = penalty.strength * channels.precision
        if penalty.input.is_multiple_of_identity:
            strength *= penalty.input.largest
        most = LARGEST_COARSE // max(1, size)
        common, basis, small = split_tasks_of(penalty.task, n_tasks, most=most)
        self._basis, self._level = basis, strength * common
        self._shape = (n_sets, n_tasks, size)
        blocks = data + self._level * np.eye(size)
        self._blocks = SymmetricSystems(blocks.reshape(-1, size, size))
        self._coarse = None
        if basis.shape[1] > 0 and self._level > 0:
            self._coarse = self._coarse_systems(data, small / (common - small))

    def apply(self, gradient: "NDArray[np.float64]") -> "NDArray[np.float64]":
        n_sets, _, size = self._shape
        values = self._whiten(self._channels.forward(gradient), 2)
        # "S T r k": the outputs of one set are columns of the same systems.
        if n_sets == 1:
            columns = values.transpose(0, 2, 1)[None]
        else:
            columns = values.transpose(1, 0, 2)[:, :, :, None]
        solved = self._solve(columns)
        if self._coarse is not None:
            n_columns = columns.shape[3]
            coarse = np.einsum("tk,strc->skrc", self._basis, solved, optimize=True)
            coarse = self._coarse.solve(coarse.reshape(n_sets, -1, n_columns))
            coarse = coarse.reshape(n_sets, -1, size, n_columns)
            spread = np.einsum("tk,skrc->strc", self._basis, coarse, optimize=True)
            solved = solved + self._level * self._solve(spread)
        if n_sets == 1:
            values = solved[0].transpose(0, 2, 1)
        else:
            values = solved[:, :, :, 0].transpose(1, 0, 2)
        return self._channels.backward(self._whiten(values, 2))

    def _whiten(self, values: "NDArray[np.float64]", axis: int) -> "NDArray[np.float64]":
        if self._input.is_multiple_of_identity:
            return values
        return self._input.apply(values, axis, floored(self._input.largest, -0.5))

    def _solve(self, columns: "NDArray[np.float64]") -> "NDArray[np.float64]":
        flat = columns.reshape(-1, *columns.shape[2:])
        return self._blocks.solve(np.ascontiguousarray(flat)).reshape(columns.shape)

    def _coarse_systems(
        self, data: "NDArray[np.float64]", ratios: "NDArray[np.float64]"
    ) -> SymmetricSystems:
        n_sets, n_tasks, size = self._shape
        shares = self._solve(np.broadcast_to(data, (n_sets, n_tasks, size, size)))
        n_coarse = self._basis.shape[1]
        pairs = (self._basis[:, :, None] * self._basis[:, None, :]).reshape(n_tasks, -1)
        flat = shares.reshape(n_sets, n_tasks, -1)
        mixed = (pairs.T @ flat).reshape(n_sets, n_coarse, n_coarse, size, size)
        matrices = mixed.transpose(0, 1, 3, 2, 4).reshape(n_sets, n_coarse * size, -1)
        matrices = (matrices + matrices.transpose(0, 2, 1)) / 2
        diagonal = np.arange(n_coarse * size)
        matrices[:, diagonal, diagonal] += np.repeat(ratios, size)
        return SymmetricSystems(matrices)


def split_tasks_of(
    task: "ModeSpectrum", n_tasks: int, *, most: int
) -> "tuple[float, NDArray[np.float64], NDArray[np.float64]]":
    """One number for most eigenvalues of P_T, and the eigenvectors and eigenvalues that are much smaller.

    Args:
        task: P_T.
        n_tasks: T.
        most: How many eigenvectors there may be.
    """
    if task.basis is None or task.is_multiple_of_identity:
        return task.largest, np.zeros((n_tasks, 0)), np.zeros(0)
    order = np.argsort(task.inside)
    ascending = task.inside[order]
    others = np.zeros(0) if task.is_complete else np.array([task.outside])
    most = min(most, len(order) - (1 if task.is_complete else 0))
    taken = 0
    while True:
        rest = np.concatenate([ascending[taken:], others])
        low, high = float(rest.min()), float(rest.max())
        # A multiple of identity off the basis that is itself small cannot be taken out.
        if taken >= most or high <= CLOSE_ENOUGH * low or ascending[taken] > low:
            break
        taken += 1
    common = high if high <= 0 else max(float(np.sqrt(low * high)), high * 1e-6)
    kept = order[:taken][ascending[:taken] < common]
    return common, task.basis[:, kept], task.inside[kept]
