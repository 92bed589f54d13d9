"""What a network is to predict: outputs, losses and targets of every task."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from multirel.estimators._task_rows import TaskRows
from multirel.training._losses import Loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NetworkTargets", "encode_targets"]

N_BINARY = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkTargets:
    """Targets of all rows, as a network and its losses take them."""

    y: Tensor
    """The targets, "n", or "n C" with NaN in columns that a task does not have."""

    losses: tuple[Loss, ...]
    """The loss of every task."""

    n_outputs: tuple[int, ...]
    """The outputs of every task."""

    center: "NDArray[np.float64]"
    """What is added to the output of every task, "T"; 0 for classes."""

    scale: "NDArray[np.float64]"
    """What the output of every task is multiplied by before, "T"; 1 for classes."""

    loss_scale: float
    """What brings the mean loss back to the user's units: the square of a scale that all tasks share."""


def encode_targets(
    rows: TaskRows, *, loss: str, has_task_intercepts: bool = True
) -> NetworkTargets:
    """The targets of rows.

    Numbers are brought to mean 0 in every task, and to deviation 1: by one scale for all tasks where all
    predict numbers, since that leaves linear models as they are, and by the task's own beside classes.

    Args:
        rows: Labelled rows.
        loss: "logistic" or "squared", of tasks with classes.
        has_task_intercepts: Whether tasks can have means of their own.
    """
    sizes = [0 if classes is None else len(classes) for classes in rows.classes_of]
    is_number = np.array([classes is None for classes in rows.classes_of])
    n_outputs = tuple(size if size > N_BINARY else 1 for size in sizes)
    center, scale = _units(rows, is_number, has_task_intercepts=has_task_intercepts)
    position = (rows.y - center[rows.task]) / scale[rows.task]
    losses = tuple(_loss_of(0 if loss == "squared" else size) for size in sizes)
    if loss == "squared":
        y = _as_columns(position, rows, is_number, n_outputs)
    else:
        y = position
    is_alike = bool(is_number.all())
    return NetworkTargets(
        y=torch.from_numpy(y.astype(np.float32)),
        losses=losses,
        n_outputs=n_outputs,
        center=center,
        scale=scale,
        loss_scale=float(scale[0]) ** 2 if is_alike else 1.0,
    )


def _loss_of(size: int) -> Loss:
    if size == 0:
        return "squared"
    return "binary" if size <= N_BINARY else "cross-entropy"


def _as_columns(
    position: "NDArray[np.float64]",
    rows: TaskRows,
    is_number: "NDArray[np.bool_]",
    n_outputs: tuple[int, ...],
) -> "NDArray[np.float64]":
    """Targets of the squared loss: numbers as they are, and ±1 for classes."""
    width = max(n_outputs)
    y = np.full((len(rows), width), np.nan)
    sizes = np.array(n_outputs)[rows.task]
    binary = (sizes == 1) & ~is_number[rows.task]
    y[:, 0] = np.where(binary, 2 * position - 1, position)
    columns = np.arange(width)
    signs = 2.0 * (position[:, None] == columns) - 1
    signs[columns >= sizes[:, None]] = np.nan
    return np.where(sizes[:, None] > 1, signs, y)


def _units(
    rows: TaskRows, is_number: "NDArray[np.bool_]", *, has_task_intercepts: bool
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Centers and scales of the tasks that predict numbers; those without rows take the average."""
    n_tasks = rows.n_tasks
    totals = np.bincount(rows.task, weights=rows.weight, minlength=n_tasks)
    known = (totals > 0) & is_number
    center, scale = np.zeros(n_tasks), np.ones(n_tasks)
    if not known.any():
        return center, scale
    safe = np.where(totals > 0, totals, 1)
    sums = np.bincount(rows.task, weights=rows.weight * rows.y, minlength=n_tasks)
    if has_task_intercepts:
        center[known] = (sums / safe)[known]
        center[is_number & ~known] = center[known].mean()
    else:
        center[is_number] = sums[known].sum() / totals[known].sum()
    weighted = rows.weight * np.square(rows.y - center[rows.task])
    squares = np.bincount(rows.task, weights=weighted, minlength=n_tasks)
    if is_number.all():
        scale[:] = np.sqrt(squares.sum() / totals.sum())
    else:
        scale[known] = np.sqrt((squares / safe)[known])
        scale[is_number & ~known] = scale[known].mean()
    # What is left of a constant by roundoff is no scale.
    roundoff = 10 * np.finfo(np.float64).eps * np.abs(center)
    return center, np.where(scale > roundoff, scale, 1.0)
