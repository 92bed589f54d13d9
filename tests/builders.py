"""Random covariances with a known spectrum, and samples, from a seed: what the tests of the maths draw."""

from collections.abc import Sequence

import numpy as np


def spectrum(size: int, condition: float) -> np.ndarray:
    """Eigenvalues spaced evenly on a log scale from 1/√condition to √condition."""
    if size == 1:
        return np.ones(1)
    return np.geomspace(condition**-0.5, condition**0.5, size)


def rotation(rng: np.random.Generator, size: int) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def positive_definite(
    rng: np.random.Generator, size: int, *, condition: float = 4.0, batch: Sequence[int] = ()
) -> np.ndarray:
    """Random symmetric matrices, "*batch d d", with the given condition number."""
    result = np.empty((*batch, size, size))
    for index in np.ndindex(*batch):
        basis = rotation(rng, size)
        matrix = (basis * spectrum(size, condition)) @ basis.T
        result[index] = (matrix + matrix.T) / 2
    return result


def singular(
    rng: np.random.Generator, size: int, rank: int, *, batch: Sequence[int] = ()
) -> np.ndarray:
    """Random symmetric matrices, "*batch d d", with `rank` eigenvalues from ½ to 2 and the rest 0."""
    result = np.empty((*batch, size, size))
    for index in np.ndindex(*batch):
        basis = rotation(rng, size)[:, :rank]
        matrix = (basis * spectrum(rank, 4.0)) @ basis.T
        result[index] = (matrix + matrix.T) / 2
    return result


def color(covariances: Sequence[np.ndarray], noise: np.ndarray) -> np.ndarray:
    """Noise "n d_1 … d_K" with the Cholesky factor of Σ_k multiplied in along every mode."""
    for mode, matrix in enumerate(covariances, start=1):
        factor = np.linalg.cholesky(matrix)
        noise = np.moveaxis(np.tensordot(factor, noise, axes=([1], [mode])), 0, mode)
    return noise
