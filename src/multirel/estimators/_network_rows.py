"""Rows as the training loop takes them, none of which is copied per task."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse
from torch import Tensor

from multirel._annotations import Float, Int
from multirel.estimators._linear import standardized
from multirel.estimators._task_rows import TaskRows
from multirel.training import Batch, Rows
from multirel.training._checksum import checksum_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["InputUnits", "LabelledRows", "find_units"]


@dataclass(frozen=True, kw_only=True, eq=False)
class InputUnits:
    """Features x become (x − center) / scale."""

    center: "NDArray[np.float64]"
    """What is taken off every feature, "F"."""

    scale: "NDArray[np.float64]"
    """What every feature is divided by, "F"."""

    def apply(self, x: Any) -> "NDArray[np.float64]":
        """Rows of features, dense and in double precision.

        Args:
            x: An array or a CSR array.
        """
        dense = x.toarray() if sparse.issparse(x) else x
        units: NDArray[np.float64] = (dense.astype(np.float64) - self.center) / self.scale
        return units


def find_units(rows: TaskRows, *, standardize: bool) -> InputUnits:
    """The units in which a network sees the features of rows.

    Args:
        rows: Rows of features.
        standardize: Whether to bring them to mean 0 and deviation 1; sparse features are only scaled.
    """
    n_features = rows.x.shape[1]
    if not standardize:
        return InputUnits(center=np.zeros(n_features), scale=np.ones(n_features))
    some, inverse = np.unique(rows.source, return_inverse=True)
    weight = np.bincount(inverse, weights=rows.weight).astype(np.float64)
    center, scale = standardized(rows.x[some], weight)
    return InputUnits(center=center, scale=scale)


@final
class LabelledRows(Rows):
    """Labelled rows, several of which may share what the network sees.

    Args:
        x: What the network sees, on its device.
        source: The row of `x` of every labelled row.
        y: Targets, on the device of the network.
        task: The index of each row's task.
        weight: What each row counts.
        n_tasks: The number of tasks.
    """

    def __init__(
        self,
        x: Tensor,
        source: Int[Tensor, "n"],
        y: Tensor,
        *,
        task: Int[Tensor, "n"],
        weight: Float[Tensor, "n"],
        n_tasks: int,
    ) -> None:
        self._x, self._source, self._y = x, source, y
        self._task, self._weight, self._n_tasks = task, weight, n_tasks

    @property
    def task(self) -> Int[Tensor, "n"]:
        return self._task

    @property
    def n_tasks(self) -> int:
        return self._n_tasks

    @property
    def n_samples(self) -> float:
        return float(self._weight.sum())

    def take(self, index: Int[Tensor, "n"]) -> Batch:
        return Batch(
            x=self._x[self._source[index].to(self._x.device)],
            task=self._task[index],
            y=self._y[index.to(self._y.device)],
            weight=self._weight[index],
        )

    def select(self, index: Int[Tensor, "n"]) -> "LabelledRows":
        return LabelledRows(
            self._x,
            self._source[index],
            self._y[index.to(self._y.device)],
            task=self._task[index],
            weight=self._weight[index],
            n_tasks=self._n_tasks,
        )

    def without_missing(self) -> "LabelledRows":
        return self

    def checksum(self) -> int:
        return checksum_of([self._task, self._weight, self._y])
