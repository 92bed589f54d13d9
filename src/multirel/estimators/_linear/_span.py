"""Rows of many features in the few coordinates of their span."""

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SpanBasis", "is_reducible", "reduce_to_span"]

LARGEST_SHARE = 0.8
"""Rows over features from which on there is nothing to gain."""

FEW_SPARSE_ROWS = 1000
"""Sparse rows whose dense coordinates cost little; those of more rows may not hold more than the rows do."""

RELATIVE_CUTOFF = 1e-12
"""Eigenvalues of the products of rows, relative to the largest, that are zero but for roundoff."""

WELL_CONDITIONED = 1e-7
"""A smallest pivot, relative to the largest, with which products of rows give columns orthonormal to 1e-9."""


def is_reducible(x: Any) -> bool:
    """Whether rows are better written in a basis of their span.

    Args:
        x: "n F", an array or a CSR array.
    """
    n_rows, n_features = x.shape
    if n_rows > LARGEST_SHARE * n_features:
        return False
    return not sparse.issparse(x) or n_rows <= FEW_SPARSE_ROWS or n_rows**2 <= x.nnz


def reduce_to_span(x: Any) -> "tuple[NDArray[np.float64], NDArray[np.float64] | SpanBasis]":
    """Coordinates z of the rows, "n r", and the orthonormal basis Q, "F r", with x = z Qᵀ.

    It comes from the products of the rows with each other; where these are too nearly singular, for arrays
    from a QR decomposition, which takes several times as long.

    Args:
        x: "n F", an array or a CSR array of fewer rows than columns.
    """
    if sparse.issparse(x):
        return _by_eigenvectors(x)
    # What rows have beyond the span of others only by roundoff, squared; the rows themselves are rounded too.
    roundoff = len(x) * max(np.finfo(x.dtype).eps ** 2, np.finfo(np.float64).eps)
    x = x.astype(np.float64, copy=False)
    factor, order, rank, _ = dpstrf(x @ x.T, lower=1, tol=-1.0)
    pivots = np.square(np.diagonal(factor))
    largest = pivots[0] if len(pivots) else 0.0
    kept = int(np.count_nonzero(pivots[:rank] > roundoff * largest))
    if kept == 0 or pivots[kept - 1] < WELL_CONDITIONED * largest:
        basis, triangle = np.linalg.qr(x.T)
        return np.ascontiguousarray(triangle.T), basis
    lower = np.tril(factor)[:, :kept]
    order = order - 1
    z = np.empty_like(lower)
    z[order] = lower
    # Q = Xᵀ Pᵀ L⁻ᵀ of the rows that were chosen.
    mixing = solve_triangular(lower[:kept], np.eye(kept), lower=True).T
    return z, SpanBasis(x[order[:kept]], mixing)


def _by_eigenvectors(x: Any) -> "tuple[NDArray[np.float64], SpanBasis]":
    x = x.astype(np.float64)
    products = (x @ x.T).toarray()
    values, vectors = np.linalg.eigh((products + products.T) / 2)
    kept = values > RELATIVE_CUTOFF * max(values[-1], 0.0)
    root = np.sqrt(values[kept])
    return vectors[:, kept] * root, SpanBasis(x, vectors[:, kept] / root)


@final
class SpanBasis:
    """Orthonormal columns Q = Xᵀ A of rows X, which are never written out.

    It is multiplied from both sides as an array of shape (F, r) is.

    Args:
        rows: X, "n F", an array or a CSR array.
        mixing: A, "n r".
    """

    # So that numpy leaves products with it to `__rmatmul__`.
    __array_ufunc__ = None

    def __init__(self, rows: Any, mixing: "NDArray[np.float64]") -> None:
        self._rows, self._mixing = rows, mixing

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (F, r)."""
        return (int(self._rows.shape[1]), int(self._mixing.shape[1]))

    @property
    def T(self) -> "_TransposedBasis":
        """Qᵀ."""
        return _TransposedBasis(self)

    def __matmul__(self, other: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Q times an array of shape (r, k)."""
        return np.asarray(self._rows.T @ (self._mixing @ other))

    def __rmatmul__(self, other: Any) -> "NDArray[np.float64]":
        """Rows of shape (m, F), sparse or not, times Q."""
        products = other @ self._rows.T
        dense = products.toarray() if sparse.issparse(products) else products
        return np.asarray(dense @ self._mixing)


@final
class _TransposedBasis:
    __array_ufunc__ = None

    def __init__(self, basis: SpanBasis) -> None:
        self._basis = basis

    def __rmatmul__(self, other: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """An array whose last axis has size r, times Qᵀ."""
        flat = other.reshape(-1, other.shape[-1])
        result = (self._basis @ flat.T).T
        return np.ascontiguousarray(result).reshape(*other.shape[:-1], -1)
