"""Curvature of losses of several tasks: one positive semi-definite matrix per task, and its resolvent."""

from collections.abc import Callable
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._design import Design

__all__ = ["TaskCurvature"]

DENSE_FACTOR = 4
"""Matrices of all tasks may take this many times the room of the rows."""


@final
class TaskCurvature:
    """The matrices A_t = Σ_n h_n (x_n − x̄)(x_n − x̄)ᵀ over the rows of task t, x̄ their weighted mean.

    That is the second derivative in W of a loss that has been minimized over the intercepts. Tasks with
    fewer rows than coordinates keep their rows instead of a matrix, so that nothing is larger than the rows.

    Args:
        design: The features.
        row_curvature: h, "n": the second derivative of each row's loss, not negative.
        tasks: The numbers of the tasks to take, each with a row whose h is positive.
    """

    def __init__(
        self, design: "Design", row_curvature: "NDArray[np.float64]", tasks: "NDArray[np.int64]"
    ) -> None:
        counts, size = design.counts[tasks], design.n_coordinates
        if len(tasks) * size <= DENSE_FACTOR * counts.sum():
            has_matrix = np.ones(len(tasks), dtype=bool)
        else:
            has_matrix = counts >= size
        self._with_matrix = np.flatnonzero(has_matrix)
        self._all_matrices = bool(has_matrix.all())
        self._matrices = _centered_grams(design, row_curvature, tasks[has_matrix])
        self._inverses = self._matrices
        self.last_shift = 0.0
        """The shift of the last resolvent, whose factors are kept; 0 if there was none."""
        self._with_rows = np.flatnonzero(~has_matrix).tolist()
        self._rows = [
            _CenteredRows(design, row_curvature, task) for task in tasks[~has_matrix].tolist()
        ]

    def times(self, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """A_t w_t for every task, "T r"."""
        if self._all_matrices:
            return _apply(self._matrices, weights)
        result = np.empty_like(weights)
        result[self._with_matrix] = _apply(self._matrices, weights[self._with_matrix])
        for index, rows in zip(self._with_rows, self._rows, strict=True):
            result[index] = rows.pull_back(rows.products(weights[index]))
        return result

    def resolvent(self, shift: float) -> "Callable[[NDArray[np.float64]], NDArray[np.float64]]":
        """The function v ↦ (A_t + shift · I)⁻¹ v_t of "T r"; the factors are computed here, once."""
        if shift != self.last_shift:
            self._inverses, self.last_shift = _inverses(self._matrices, shift), shift
        inverses = self._inverses
        if self._all_matrices:
            return lambda values: _apply(inverses, values)

        def solve(values: "NDArray[np.float64]") -> "NDArray[np.float64]":
            result = np.empty_like(values)
            result[self._with_matrix] = _apply(inverses, values[self._with_matrix])
            for index, rows in zip(self._with_rows, self._rows, strict=True):
                result[index] = rows.solve(values[index], shift)
            return result

        return solve


@final
class _CenteredRows:
    """The rows √h (x − x̄) of one task, which are never formed.

    Args:
        design: The features.
        row_curvature: h of all rows.
        task: The number of the task.
    """

    def __init__(self, design: "Design", row_curvature: "NDArray[np.float64]", task: int) -> None:
        rows = slice(int(design.starts[task]), int(design.starts[task + 1]))
        curvature = row_curvature[rows]
        self._x = design.x[rows]
        self._root = np.sqrt(curvature)
        self._share = curvature / curvature.sum()
        inner = design.row_products(rows)
        means = inner @ self._share
        inner = inner - means - (means - self._share @ means)[:, None]
        values, self._basis = np.linalg.eigh(inner * self._root * self._root[:, None])
        self._values = np.maximum(values, 0.0)

    def products(self, weight: "NDArray[np.float64]") -> "NDArray[np.float64]":
        outputs = self._x @ weight
        return self._root * (outputs - self._share @ outputs)

    def pull_back(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        values = self._root * values
        result: NDArray[np.float64] = self._x.T @ (values - self._share * values.sum())
        return result

    def solve(self, value: "NDArray[np.float64]", shift: float) -> "NDArray[np.float64]":
        """(A + shift · I)⁻¹ value, by the matrix inversion lemma."""
        inside = (self.products(value) @ self._basis) / (self._values + shift)
        return (value - self.pull_back(self._basis @ inside)) / shift


def _apply(matrices: "NDArray[np.float64]", values: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return np.matmul(matrices, values[:, :, None])[:, :, 0]


def _inverses(matrices: "NDArray[np.float64]", shift: float) -> "NDArray[np.float64]":
    shifted = matrices.copy()
    diagonal = np.arange(matrices.shape[1])
    shifted[:, diagonal, diagonal] += shift
    return np.asarray(np.linalg.inv(shifted), dtype=np.float64)


def _centered_grams(
    design: "Design", row_curvature: "NDArray[np.float64]", tasks: "NDArray[np.int64]"
) -> "NDArray[np.float64]":
    if len(tasks) == 0:
        return np.zeros((0, design.n_coordinates, design.n_coordinates))
    if 2 * len(tasks) < design.n_tasks:
        row_curvature = row_curvature[design.rows_of(tasks)]
        design, tasks = design.of_tasks(tasks), np.arange(len(tasks))
    grams = design.grams(row_curvature)[tasks]
    column = row_curvature[:, None]
    sums = design.pull_back(column)[tasks]
    grams -= sums * (sums / design.sums(column)[tasks][:, :, None]).transpose(0, 2, 1)
    return grams
