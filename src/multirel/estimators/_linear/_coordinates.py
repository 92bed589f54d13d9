"""From the features of the user to the coordinates of a problem, and weights back again."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from multirel.estimators._linear._row_blocks import chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._span import SpanBasis

__all__ = ["Coordinates", "standardize_rows", "standardized"]

CHUNK_ENTRIES = 2**20
"""Numbers that are in double precision at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Coordinates:
    """Rows x become (x − center) / scale, and then, in an orthonormal basis Q, Qᵀ of that."""

    center: "NDArray[np.float64]"
    """What is taken off every feature, "F"."""

    scale: "NDArray[np.float64]"
    """What every feature is divided by, "F"."""

    basis: "NDArray[np.float64] | SpanBasis | None" = None
    """Q, "F r": the span of the rows; None where the features themselves are the coordinates."""

    def to_features(
        self, weights: "NDArray[np.float64]", intercepts: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Weights and intercepts in the user's units, from those of a problem.

        Args:
            weights: "T C r".
            intercepts: "T C".
        """
        full = weights if self.basis is None else weights @ self.basis.T
        full = full / self.scale
        return full, intercepts - full @ self.center


def standardized(
    x: Any, weight: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Weighted mean and standard deviation of every column; sparse columns keep their zeros.

    A constant column is divided by one. Arrays are read in double precision by chunks of rows.

    Args:
        x: "n F", an array or a CSR array.
        weight: What every row counts.
    """
    share = weight / weight.sum()
    if sparse.issparse(x):
        mean = np.asarray(share @ x, dtype=np.float64)
        square = np.asarray(share @ x.multiply(x).tocsr(), dtype=np.float64)
        variance = square - mean**2
        largest = np.sqrt(square)
        mean = np.zeros_like(mean)
    else:
        mean = _mean_by_chunks(x, share, center=None)
        variance = _mean_by_chunks(x, share, center=mean)
        largest = np.abs(mean)
    deviation = np.sqrt(np.maximum(variance, 0))
    # What is left of a constant by roundoff is no scale.
    roundoff = 10 * np.finfo(x.dtype).eps * largest
    return mean, np.where(deviation > roundoff, deviation, 1.0)


def standardize_rows(x: Any, center: "NDArray[np.float64]", scale: "NDArray[np.float64]") -> Any:
    """(x − center) / scale: a new CSR array, or the array itself, which is overwritten."""
    if sparse.issparse(x):
        return sparse.csr_array(x @ sparse.diags_array(1 / scale).astype(x.dtype))
    for rows in _row_chunks(x):
        # In double precision also where the rows are not: a large mean would cost digits.
        x[rows] = (x[rows] - center) / scale
    return x


def _mean_by_chunks(
    x: "NDArray[np.float64]",
    share: "NDArray[np.float64]",
    *,
    center: "NDArray[np.float64] | None",
) -> "NDArray[np.float64]":
    """The weighted mean of the columns, or of their squared distances from `center`."""
    total = np.zeros(x.shape[1])
    for rows in _row_chunks(x):
        part = x[rows].astype(np.float64, copy=False)
        if center is not None:
            part = np.square(part - center)
        total += share[rows] @ part
    return total


def _row_chunks(x: "NDArray[np.float64]") -> list[slice]:
    return list(chunks(slice(0, len(x)), max(1, CHUNK_ENTRIES // max(1, x.shape[1]))))
