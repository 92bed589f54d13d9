"""The prior on a stack written as in docs/theory.md: D × D precisions, explicit inverses, loops over modes.

A prior is a list of covariances Σ_k, task first, and the list of precisions Q_k by which it acts: their
inverses, unless the scale or the mean says otherwise.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tests.reference.dense import (
    Array,
    constant_correlation_target,
    kronecker,
    symmetric_pseudo_inverse,
    vec,
)
from tests.reference.flip_flop import unfold, unfold_column_major

Step = Callable[[Array], Array]
"""From the scatter of a mode to its covariance."""


def half_distance(deviation: Array, precisions: Sequence[Array]) -> float:
    """½⟨W − M, P (W − M)⟩ with P = Q_1 ⊗ … ⊗ Q_K."""
    return float(vec(deviation) @ kronecker(precisions) @ vec(deviation)) / 2


def gradient(deviation: Array, precisions: Sequence[Array]) -> Array:
    """P (W − M), Eq. (10) without λ/N."""
    return (kronecker(precisions) @ vec(deviation)).reshape(deviation.shape)


def prox(deviation: Array, precisions: Sequence[Array], step: float) -> Array:
    """(I + c P)⁻¹ (W − M)."""
    matrix = np.eye(deviation.size) + step * kronecker(precisions)
    return np.linalg.solve(matrix, vec(deviation)).reshape(deviation.shape)


def log_terms(covariances: Sequence[Array], jitter: float = 0.0) -> float:
    """Σ_k (D / d_k)(ln |Σ_k| + ε tr Σ_k⁻¹), Eq. (9)."""
    total = 0.0
    n_weights = prod(len(matrix) for matrix in covariances)
    for matrix in covariances:
        trace = np.trace(np.linalg.inv(matrix)) if jitter else 0.0
        total += n_weights / len(matrix) * (np.linalg.slogdet(matrix)[1] + jitter * trace)
    return float(total)


def scatter(deviation: Array, precisions: Sequence[Array], mode: int) -> Array:
    """S_k = (d_k / D) (W − M)_(k) (⊗_{j ≠ k} Q_j) (W − M)_(k)ᵀ, Eq. (11), row-major."""
    rows = unfold(deviation, mode)
    others = [matrix for k, matrix in enumerate(precisions) if k != mode]
    middle = kronecker(others) if others else np.eye(1)
    return rows @ middle @ rows.T / rows.shape[1]


def scatter_column_major(deviation: Array, covariances: Sequence[Array], mode: int) -> Array:
    """S_k as the paper prints it: W_(k) (Σ_K ⊗ … ⊗ Σ_1)⁻¹ W_(k)ᵀ without Σ_k, columns column-major."""
    rows = unfold_column_major(deviation, mode)
    others = [matrix for k, matrix in enumerate(covariances) if k != mode]
    return rows @ np.linalg.inv(kronecker(others[::-1])) @ rows.T / rows.shape[1]


def square_root(matrix: Array) -> Array:
    """The symmetric square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values.clip(0))) @ vectors.T


def trace_scaled(
    matrix: Array,
    *,
    shrinkage: float,
    target: str = "identity",
    jitter: float = 0.0,
    root: bool = False,
) -> Array:
    """(1 − α) S d / tr S + α T + jitter I, then trace d; S^½ in the place of S with `root`."""
    size = len(matrix)
    matrix = square_root(matrix) if root else matrix
    matrix = matrix * size / np.trace(matrix)
    aim = np.eye(size) if target == "identity" else constant_correlation_target(matrix)
    matrix = (1 - shrinkage) * matrix + shrinkage * aim + jitter * np.eye(size)
    return matrix * size / np.trace(matrix)


def low_rank(matrix: Array, *, rank: int, shrinkage: float) -> Array:
    """The `rank` largest eigenvalues s of S kept apart, and a = α + (1−α)(d/tr S)(tr S − Σ s)/(d − r)."""
    size, trace = len(matrix), np.trace(matrix)
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[size - rank :], vectors[:, size - rank :]
    rest = shrinkage + (1 - shrinkage) * size / trace * (trace - values.sum()) / (size - rank)
    inside = shrinkage + (1 - shrinkage) * size / trace * values
    return (vectors * (inside - rest)) @ vectors.T + rest * np.eye(size)


def unit_determinant(matrix: Array, *, shrinkage: float, jitter: float = 0.0) -> Array:
    """Σ ∝ (1 − α) S + (α + jitter)(tr S / d) I with |Σ| = 1."""
    size = len(matrix)
    weight = (shrinkage + jitter) * np.trace(matrix) / size
    matrix = (1 - shrinkage) * matrix + weight * np.eye(size)
    return matrix / np.exp(np.linalg.slogdet(matrix)[1] / size)


def shrunk_precision(covariance: Array, *, shrinkage: float, jitter: float = 0.0) -> Array:
    """R = [(1 − α) Σ⁻¹ + (α + jitter)(tr Σ⁻¹ / d) I] / (1 + jitter)."""
    inverse = np.linalg.inv(covariance)
    mean = np.trace(inverse) / len(inverse)
    matrix = (1 - shrinkage) * inverse + (shrinkage + jitter) * mean * np.eye(len(inverse))
    return matrix / (1 + jitter)


def released_precision(task_rows: Array) -> Array:
    """The task precision of the released code, from W_(T)."""
    values, vectors = np.linalg.eigh(task_rows @ task_rows.T + 1e-5 * np.eye(len(task_rows)))
    matrix = vectors @ np.diag(np.where(values > 0.1, 1 / values, values)) @ vectors.T
    return matrix * min(1.0, 3000 / np.trace(matrix))


def centering(size: int) -> Array:
    """C = I − 11ᵀ/T."""
    return np.eye(size) - np.ones((size, size)) / size


def task_average_precision(precision: Array, strength: float) -> Array:
    """C Q C + μ 11ᵀ/T."""
    size = len(precision)
    center = centering(size)
    return center @ precision @ center + strength * np.ones((size, size)) / size


def sweep(
    weight: Array,
    covariances: Sequence[Array],
    steps: Sequence[Step | None],
    *,
    precision_of: Callable[[int, Array], Array] = lambda mode, matrix: symmetric_pseudo_inverse(
        matrix
    ),
    center_tasks: bool = False,
    task_strength: float = 0.0,
) -> list[Array]:
    """The covariances after one sweep task → output → input; a mode without step stays.

    Args:
        weight: W − M, as far as M is fixed.
        covariances: Σ_k before the sweep.
        steps: From S_k to Σ_k, per mode.
        precision_of: From the mode and Σ_k to Q_k.
        center_tasks: Whether M is the average over the tasks.
        task_strength: The weight μ of this average.
    """
    covariances = list(covariances)
    for mode, step in enumerate(steps):
        if step is None:
            continue
        precisions = [precision_of(k, matrix) for k, matrix in enumerate(covariances)]
        rows = weight
        if center_tasks:
            precisions[0] = task_average_precision(precisions[0], task_strength)
            if mode == 0:
                rows = weight - weight.mean(axis=0)
        covariances[mode] = step(scatter(rows, precisions, mode))
    return covariances
