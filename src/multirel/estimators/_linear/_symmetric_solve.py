"""Many systems with symmetric positive definite matrices of the same size."""

from typing import TYPE_CHECKING, final

import numpy as np
from scipy.linalg import cho_factor, cho_solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SymmetricSystems"]

LARGEST_INVERTED = 160
"""Up to this size one batched call costs less than a factorization for every matrix."""

RELATIVE_JITTER = 1e-13
"""What is added to a diagonal, in units of its mean: matrices may be singular."""

LARGER = 100.0
MOST_ATTEMPTS = 5


@final
class SymmetricSystems:
    """Solutions of systems with B symmetric matrices, with a jitter that makes them definite.

    Args:
        matrices: "B m m", positive semidefinite; they are overwritten.
    """

    def __init__(self, matrices: "NDArray[np.float64]") -> None:
        size = matrices.shape[-1]
        diagonal = np.arange(size)
        mean = matrices[:, diagonal, diagonal].mean(axis=1, keepdims=True) if size else 0.0
        matrices[:, diagonal, diagonal] += RELATIVE_JITTER * np.where(mean > 0, mean, 1.0)
        self._inverses, self._factors = None, []
        if size <= LARGEST_INVERTED:
            self._inverses = np.linalg.inv(matrices)
        else:
            self._factors = [_factor(matrix) for matrix in matrices]

    def solve(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The solutions, "B m k", for right-hand sides "B m k"."""
        if self._inverses is not None:
            return self._inverses @ values
        result = np.empty_like(values)
        for number, factor in enumerate(self._factors):
            result[number] = cho_solve(factor, values[number], check_finite=False)
        return result


def _factor(matrix: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], bool]":
    jitter = RELATIVE_JITTER * float(np.trace(matrix)) / len(matrix)
    for _ in range(MOST_ATTEMPTS):
        try:
            return cho_factor(matrix, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            jitter *= LARGER
            matrix = matrix + jitter * np.eye(len(matrix))
    return np.eye(len(matrix)) * np.sqrt(np.trace(matrix) / len(matrix)), True
