"""Singular values of weights of several tasks, and weights with other singular values."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "largest_singular_value",
    "map_singular_values",
    "shrink_by_squared_sum",
    "singular_values",
]


def singular_values(matrix: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """The singular values, largest first; small ones to full relative accuracy.

    Args:
        matrix: "T r".
    """
    if min(matrix.shape) == 0:
        return np.zeros(0)
    return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)


def largest_singular_value(matrix: "NDArray[np.float64]") -> float:
    """‖·‖_op, from the smaller of the two Gram matrices.

    Args:
        matrix: "T r".
    """
    if min(matrix.shape) == 0:
        return 0.0
    return float(np.sqrt(max(np.linalg.eigvalsh(_smaller_gram(matrix))[-1], 0.0)))


def map_singular_values(
    matrix: "NDArray[np.float64]",
    function: "Callable[[NDArray[np.float64]], NDArray[np.float64]]",
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """U diag(function(s)) Vᵀ for a matrix U diag(s) Vᵀ, and function(s).

    The smaller Gram matrix gives s and one of U and V. Singular values below 1e-8 of the largest come out
    inaccurate: `function` must take them to zero or hardly change them.

    Args:
        matrix: "T r".
        function: From singular values, largest first, to new ones, zeros last.
    """
    values, basis = np.linalg.eigh(_smaller_gram(matrix))
    old = np.sqrt(np.maximum(values[::-1], 0.0))
    new = function(old)
    rank = int(np.count_nonzero(new))
    inside = basis[:, ::-1][:, :rank]
    ratio = new[:rank] / old[:rank]
    if matrix.shape[0] < matrix.shape[1]:
        return (inside * ratio) @ (inside.T @ matrix), new
    return (matrix @ inside) @ (inside * ratio).T, new


def shrink_by_squared_sum(
    values: "NDArray[np.float64]", *, strength: float
) -> "NDArray[np.float64]":
    """The minimizer over s ≥ 0 of ½ ‖s − values‖² + strength · (Σ s)².

    It is (values − θ)₊ with θ = 2 · strength · Σ s, which the number of positive entries decides.

    Args:
        values: Not negative, largest first.
        strength: The factor of the squared sum.

    Example:
        >>> shrink_by_squared_sum(np.array([3.0, 1.0]), strength=0.5)
        array([1.5, 0. ])
    """
    counts = np.arange(1, len(values) + 1)
    thresholds = 2 * strength * np.cumsum(values) / (1 + 2 * strength * counts)
    n_positive = int(np.count_nonzero(values > thresholds))
    threshold = thresholds[n_positive - 1] if n_positive else 0.0
    return np.maximum(values - threshold, 0.0)


def _smaller_gram(matrix: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
