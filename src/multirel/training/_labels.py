"""Tasks, labels and weights of rows: what must hold, and which labels are missing."""

from typing import Any

import torch
from torch import Tensor

from multirel._annotations import Float, Int

__all__ = [
    "check_tasks",
    "check_weights",
    "fill_missing",
    "is_missing",
    "row_is_missing",
    "to_tensor",
]

HINTS = {
    "task": "Name tasks by their index.",
    "y": "Number the classes from 0, and write NaN where a label is missing.",
}
"""What to do about rows that are no numbers."""


def to_tensor(name: str, values: Any) -> Tensor:
    """Numbers of any library as a tensor.

    Raises:
        TypeError: If they are no numbers.
    """
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"`{name}` must hold numbers: expected a tensor, an array or lists of one length, got "
            f"{type(values).__name__}, which torch cannot convert ({error}). {HINTS.get(name, '')}".rstrip()
        ) from error


def check_tasks(task: Any, n_tasks: int | None) -> tuple[Int[Tensor, "n"], int]:
    """The index of each row's task on the CPU, and the number of tasks.

    Raises:
        TypeError: If `task` holds anything but whole numbers, or `n_tasks` is none.
        ValueError: If there are no rows, or `task` holds the index of no task.
    """
    index = to_tensor("task", task)
    if index.numel() == 0:
        raise ValueError("`task` must have at least one row: got none. Training needs rows.")
    is_whole = isinstance(n_tasks, int) and not isinstance(n_tasks, bool)
    if n_tasks is not None and not is_whole:
        raise TypeError(f"`n_tasks` must be a whole number or None: got {type(n_tasks).__name__}.")
    if index.ndim != 1 or index.is_floating_point() or index.dtype == torch.bool:
        raise TypeError(
            f"`task` must hold one whole number per row: expected shape (n,), got "
            f"{tuple(index.shape)} of {index.dtype}. Name tasks by their index."
        )
    index = index.detach().to(device="cpu", dtype=torch.int64)
    low, high = int(index.min()), int(index.max())
    n_found = high + 1 if n_tasks is None else n_tasks
    if low < 0 or high >= n_found:
        raise ValueError(
            f"`task` must hold indices of tasks: expected 0 to {n_found - 1}, got "
            f"{low if low < 0 else high}."
        )
    return index, n_found


def check_weights(weight: Any, n_rows: int) -> Float[Tensor, "n"]:
    """The weights of the rows on the CPU, in double precision.

    Raises:
        TypeError: If they are no numbers.
        ValueError: If their number is another, or one is negative or not finite.
    """
    if weight is None:
        return torch.ones(n_rows, dtype=torch.float64)
    weights = to_tensor("weight", weight).detach().to(device="cpu", dtype=torch.float64)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"`weight` must have one entry per row: expected shape ({n_rows},), got "
            f"{tuple(weights.shape)}."
        )
    wrong = weights[~(weights.isfinite() & (weights >= 0))]
    if len(wrong) > 0:
        raise ValueError(
            f"`weight` must be finite and not negative: got {float(wrong[0])}. Leave out rows that count "
            f"nothing, or give them 0."
        )
    return weights


def is_missing(y: Tensor, missing_label: int | None) -> Tensor:
    """Which labels are missing: NaN, and `missing_label` if there is one."""
    missing = y.isnan()
    return missing if missing_label is None else missing | (y == missing_label)


def row_is_missing(y: Tensor, missing_label: int | None) -> Tensor:
    """Which rows have no label at all."""
    return is_missing(y, missing_label).reshape(len(y), -1).all(1)


def fill_missing(
    y: Tensor, weight: Tensor, missing_label: int | None
) -> tuple[Tensor, Float[Tensor, "n"]]:
    """The labels, and weights that are 0 where a row has none; its label is 0 then.

    NaN stays where a row misses only some of its labels: losses pass over it.
    """
    if not y.is_floating_point() and missing_label is None:
        return y, weight
    missing = row_is_missing(y, missing_label)
    if missing_label is not None and y.ndim > 1:
        numbers = y if y.is_floating_point() else y.to(torch.get_default_dtype())
        y = numbers.masked_fill(is_missing(y, missing_label), torch.nan)
    shape = (-1, *(1 for _ in y.shape[1:]))
    filled = y.masked_fill(missing.reshape(shape), 0)
    return filled, weight.masked_fill(missing.cpu(), 0)
