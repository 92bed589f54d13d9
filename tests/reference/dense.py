"""The tensor normal distribution through its full D x D covariance, with explicit inverses.

Row-major vec, first mode leftmost: vec(X) ~ N(vec(M), Σ₁ ⊗ … ⊗ Σ_K). A precision is the pseudo-inverse,
which is the inverse where there is one, so singular covariances need no second set of formulas.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from math import log, pi, prod

import numpy as np

Array = np.ndarray


def vec(tensor: Array) -> Array:
    """The entries of `tensor` in row-major order: the last mode runs fastest."""
    return np.reshape(tensor, -1, order="C")


def kronecker(matrices: Sequence[Array]) -> Array:
    """Σ₁ ⊗ … ⊗ Σ_K, first mode leftmost."""
    return reduce(np.kron, matrices)


def symmetric_pseudo_inverse(matrix: Array) -> Array:
    """Σ⁺ by eigenvalues, dropping those below a billionth of the largest."""
    eigenvalues, basis = np.linalg.eigh(matrix)
    kept = eigenvalues > 1e-9 * eigenvalues[-1]
    return (basis[:, kept] / eigenvalues[kept]) @ basis[:, kept].T


def log_pseudo_determinant(matrix: Array) -> float:
    """Sum of the logarithms of the eigenvalues that are not zero."""
    eigenvalues = np.linalg.eigvalsh(matrix)
    return float(np.log(eigenvalues[eigenvalues > 1e-9 * eigenvalues[-1]]).sum())


def rank(matrix: Array) -> int:
    """Number of eigenvalues above a billionth of the largest."""
    eigenvalues = np.linalg.eigvalsh(matrix)
    return int((eigenvalues > 1e-9 * eigenvalues[-1]).sum())


def precision(covariances: Sequence[Array]) -> Array:
    """P = (Σ₁ ⊗ … ⊗ Σ_K)⁻¹ as one D x D matrix."""
    return kronecker([symmetric_pseudo_inverse(matrix) for matrix in covariances])


def quadratic_form(covariances: Sequence[Array], weight: Array) -> float:
    """⟨W, P W⟩."""
    return float(vec(weight) @ precision(covariances) @ vec(weight))


def log_determinant(covariances: Sequence[Array]) -> float:
    """ln|Σ₁ ⊗ … ⊗ Σ_K|, of the eigenvalues that are not zero."""
    return log_pseudo_determinant(kronecker(covariances))


def prox(covariances: Sequence[Array], weight: Array, step: float) -> Array:
    """(I + step·P)⁻¹ W."""
    matrix = np.eye(weight.size) + step * precision(covariances)
    return (np.linalg.inv(matrix) @ vec(weight)).reshape(weight.shape)


def log_density(x: Array, mean: Array, covariances: Sequence[Array]) -> float:
    """Log of Eq. (2), with the normal density of vec(X)."""
    covariance = kronecker(covariances)
    return float(
        -rank(covariance) / 2 * log(2 * pi)
        - log_pseudo_determinant(covariance) / 2
        - quadratic_form(covariances, x - mean) / 2
    )


def entropy(covariances: Sequence[Array]) -> float:
    """½ ln|2πe Σ|."""
    covariance = kronecker(covariances)
    return float((rank(covariance) * (1 + log(2 * pi)) + log_pseudo_determinant(covariance)) / 2)


def kl_divergence(
    mean_p: Array, covariances_p: Sequence[Array], mean_q: Array, covariances_q: Sequence[Array]
) -> float:
    """KL(p ‖ q) between two normal distributions of vec(X)."""
    covariance_p, covariance_q = kronecker(covariances_p), kronecker(covariances_q)
    precision_q = np.linalg.inv(covariance_q)
    difference = vec(mean_q - mean_p)
    log_ratio = np.linalg.slogdet(covariance_q)[1] - np.linalg.slogdet(covariance_p)[1]
    distance = difference @ precision_q @ difference
    return float(np.trace(precision_q @ covariance_p) + distance - difference.size + log_ratio) / 2


def _positions(shape: Sequence[int], indices: Mapping[int, Sequence[int]]) -> Array:
    """Places in vec(X) of the entries whose index along every mode of `indices` is listed there."""
    numbers = np.arange(prod(shape)).reshape(shape)
    for mode, kept in indices.items():
        numbers = np.take(numbers, list(kept), axis=mode)
    return vec(numbers)


def marginal(
    mean: Array, covariances: Sequence[Array], indices: Mapping[int, Sequence[int]]
) -> tuple[Array, Array]:
    """Mean vector and covariance matrix of the kept slices."""
    kept = _positions(mean.shape, indices)
    return vec(mean)[kept], kronecker(covariances)[np.ix_(kept, kept)]


def condition(
    mean: Array, covariances: Sequence[Array], mode: int, observed: Sequence[int], value: Array
) -> tuple[Array, Array]:
    """Mean vector and covariance matrix of the other slices of `mode`, given those `observed`."""
    others = [index for index in range(mean.shape[mode]) if index not in list(observed)]
    a = _positions(mean.shape, {mode: others})
    b = _positions(mean.shape, {mode: observed})
    covariance = kronecker(covariances)
    gain = covariance[np.ix_(a, b)] @ symmetric_pseudo_inverse(covariance[np.ix_(b, b)])
    conditional_mean = vec(mean)[a] + gain @ (vec(value) - vec(mean)[b])
    return conditional_mean, covariance[np.ix_(a, a)] - gain @ covariance[np.ix_(b, a)]


def constant_correlation_target(matrix: Array) -> Array:
    """The orthogonal projection of `matrix` on span{I, 11ᵀ}, by least squares."""
    size = len(matrix)
    design = np.stack([np.eye(size).ravel(), np.ones(size * size)], axis=1)
    coefficients, *_ = np.linalg.lstsq(design, matrix.ravel(), rcond=None)
    return (design @ coefficients).reshape(size, size)
