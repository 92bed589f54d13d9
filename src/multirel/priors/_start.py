"""The task correlation that a prior starts from."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal import (
    Covariance,
    DenseCovariance,
    LowRankCovariance,
    correlation_matrix,
)

__all__ = ["Start", "check_start_type", "is_matrix", "start_covariance"]

Start = float | Float[Tensor, ""] | Float[Tensor, "T T"] | NDArray[Any] | Sequence[Sequence[float]]
"""One correlation for all pairs of tasks, or a matrix of any library."""


def is_matrix(start: object) -> bool:
    """Whether `start` is an array with axes, and not a number of any library."""
    return isinstance(start, Sequence | Tensor | np.ndarray) and np.ndim(start) > 0


def check_start_type(start: object) -> None:
    """Raise a TypeError unless `start` is a number or an array of any library."""
    if not isinstance(start, Real | Tensor | np.ndarray) and not is_matrix(start):
        raise TypeError(f"`start` must be a number or a matrix: got {start!r}.")


def start_covariance(start: Start, n_tasks: int) -> Covariance:
    """The task correlation that `start` describes, in double precision.

    One correlation for all pairs is a multiple of the identity and a part of rank 1, whatever T is.

    Raises:
        ValueError: If there are fewer than two tasks, a number is not a correlation that all pairs of
            tasks can have, or a matrix has another shape.
        TypeError: If `start` is no number and no matrix.
        NotPositiveDefiniteError: If a matrix is not positive definite.
    """
    if n_tasks < 2:  # noqa: PLR2004
        raise ValueError(f"`tasks` must be at least two to have a correlation: got {n_tasks}.")
    check_start_type(start)
    if is_matrix(start):
        matrix = torch.as_tensor(start, dtype=torch.float64, device="cpu").detach()
        if tuple(matrix.shape) != (n_tasks, n_tasks):
            raise ValueError(
                f"`start` must be a number or a matrix with a row per task: expected shape "
                f"{(n_tasks, n_tasks)}, got {tuple(matrix.shape)}."
            )
        DenseCovariance(matrix).check("start")
        return DenseCovariance(correlation_matrix(matrix))
    start = float(start)  # type: ignore[arg-type]
    lowest = -1 / (n_tasks - 1)
    if not lowest < start < 1:
        raise ValueError(
            f"`start` must be a correlation that {n_tasks} tasks can have with one another: expected "
            f"more than {lowest:.3g} and less than 1, got {start}."
        )
    ones = torch.full((n_tasks, 1), n_tasks**-0.5, dtype=torch.float64)
    total = torch.tensor([1 + (n_tasks - 1) * start], dtype=torch.float64)
    return LowRankCovariance(ones, total, 1 - start)
