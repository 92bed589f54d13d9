"""Covariances and correlations that an estimator has learned, written out from factors on request."""

from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LearnedMatrix", "as_correlations"]


@final
class LearnedMatrix:
    """An attribute of estimators: the covariance of a mode, or its correlations.

    It is written out each time it is asked for: the estimator keeps factors, which are small where there
    are thousands of tasks or features.

    Args:
        mode: The mode.
        correlations: Whether it is scaled to a unit diagonal.
    """

    def __init__(
        self, mode: Literal["task", "output", "input"], *, correlations: bool = False
    ) -> None:
        self.mode = mode
        self.correlations = correlations

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        relations = estimator.__dict__.get("relations_")
        if relations is None:
            raise AttributeError(
                f"{type(estimator).__name__!r} object has no attribute {self.name!r}"
            )
        matrix = getattr(relations, self.mode).dense()
        if self.correlations:
            matrix = as_correlations(matrix)
        return matrix if self.mode != "task" else _with_unknown(matrix, relations.has_rows)


def as_correlations(matrix: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """A covariance scaled to a unit diagonal; entries without variance have no correlation."""
    deviation = np.sqrt(np.diagonal(matrix).clip(min=0))
    scale = np.where(deviation > 0, 1 / np.where(deviation > 0, deviation, 1), 0)
    correlations = (scale[:, None] * matrix * scale).clip(-1, 1)
    np.fill_diagonal(correlations, 1.0)
    return correlations


def _with_unknown(
    matrix: "NDArray[np.float64]", has_rows: "NDArray[np.bool_]"
) -> "NDArray[np.float64]":
    """A matrix for all tasks, NaN for those that had no rows."""
    if has_rows.all():
        return matrix
    full = np.full((len(has_rows), len(has_rows)), np.nan)
    full[np.ix_(has_rows, has_rows)] = matrix
    return full
