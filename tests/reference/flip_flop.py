"""Eq. (5) written as in the paper: unfold, form the Kronecker product of the others, invert, multiply."""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod

import numpy as np

from tests.reference.dense import Array, kronecker


def unfold(tensor: Array, mode: int) -> Array:
    """Mode-`mode` matricization with the other axes ascending, the last one fastest."""
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def unfold_column_major(tensor: Array, mode: int) -> Array:
    """The paper's matricization: the other axes ascending, the first one fastest."""
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1, order="F")


def update(centered: Array, covariances: Sequence[Array], mode: int) -> Array:
    """One covariance of Eq. (5), row-major: the other covariances ascending in the product."""
    others = [matrix for k, matrix in enumerate(covariances) if k != mode]
    inverse = np.linalg.inv(kronecker(others)) if others else np.eye(1)
    total = sum(unfold(x, mode) @ inverse @ unfold(x, mode).T for x in centered)
    return total / (len(centered) * prod(centered.shape[1:]) / centered.shape[1 + mode])


def update_column_major(centered: Array, covariances: Sequence[Array], mode: int) -> Array:
    """One covariance of Eq. (5) as printed: the other covariances descending, Σ₃ ⊗ Σ₂."""
    others = [matrix for k, matrix in enumerate(covariances) if k != mode]
    inverse = np.linalg.inv(kronecker(others[::-1])) if others else np.eye(1)
    total = sum(
        unfold_column_major(x, mode) @ inverse @ unfold_column_major(x, mode).T for x in centered
    )
    return total / (len(centered) * prod(centered.shape[1:]) / centered.shape[1 + mode])


def sweeps(samples: Array, *, mean: Array | None = None) -> Iterator[list[Array]]:
    """Covariances after each sweep of Eq. (5) from the identity, the mean estimated unless given.

    Every covariance but the last is scaled to trace d_k between sweeps; only the product counts.
    """
    centered = samples - (samples.mean(axis=0) if mean is None else mean)
    covariances = [np.eye(size) for size in samples.shape[1:]]
    while True:
        for mode in range(len(covariances)):
            matrix = update(centered, covariances, mode)
            covariances[mode] = (matrix + matrix.T) / 2
        covariances = normalize(covariances)
        yield covariances


def flip_flop(samples: Array, *, n_sweeps: int, mean: Array | None = None) -> list[Array]:
    """Covariances after `n_sweeps` sweeps."""
    return next(islice(sweeps(samples, mean=mean), n_sweeps - 1, None))


def normalize(covariances: Sequence[Array]) -> list[Array]:
    """The same Kronecker product, every covariance but the last with trace d_k."""
    scales = [len(matrix) / np.trace(matrix) for matrix in covariances[:-1]]
    return [
        *(matrix * scale for matrix, scale in zip(covariances[:-1], scales, strict=True)),
        covariances[-1] / prod(scales),
    ]
