"""Checks of what users pass in, and the sentences that say what is wrong with it."""

import torch
from torch import Tensor

from multirel.exceptions import NotFiniteError, NotPositiveDefiniteError

__all__ = ["check_finite", "check_matrix", "check_symmetric", "positive_definite_error"]

SYMMETRY_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Largest |A − Aᵀ| over the largest |A|; half precisions use `COARSE_SYMMETRY_TOLERANCE`."""

COARSE_SYMMETRY_TOLERANCE = 1e-2


def check_matrix(name: str, matrix: Tensor) -> None:
    """Raise unless `matrix` is a square matrix of floating type, or a batch of them."""
    if not isinstance(matrix, Tensor):
        raise TypeError(f"`{name}` must be a tensor: got {type(matrix).__name__}.")
    if not matrix.is_floating_point():
        raise TypeError(f"`{name}` must be of floating type: got {matrix.dtype}. Use `.double()`.")
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2] or matrix.shape[-1] == 0:  # noqa: PLR2004
        raise ValueError(
            f"`{name}` must be a square matrix or a batch of them: got shape {tuple(matrix.shape)}."
        )


def check_finite(name: str, value: Tensor) -> None:
    """Raise unless every entry of `value` is a number."""
    is_finite = torch.isfinite(value)
    if not is_finite.all():
        n_bad = int((~is_finite).sum())
        raise NotFiniteError(
            f"`{name}` must be finite: got NaN or infinity in {n_bad} of {value.numel()} entries."
        )


def check_symmetric(name: str, matrix: Tensor) -> None:
    """Raise unless `matrix` equals its transpose up to roundoff."""
    tolerance = SYMMETRY_TOLERANCE.get(matrix.dtype, COARSE_SYMMETRY_TOLERANCE)
    matrix = matrix.detach()
    gap = float((matrix - matrix.mT).abs().max())
    if gap > tolerance * float(matrix.abs().max()):
        raise ValueError(
            f"`{name}` must be symmetric: expected {name}[i, j] = {name}[j, i], "
            f"got a difference of {gap:.3g}. Use (A + A.mT) / 2."
        )


def positive_definite_error(name: str, matrix: Tensor) -> NotPositiveDefiniteError:
    """The error that names a covariance which is not positive definite, its size and eigenvalue."""
    symmetric = (matrix + matrix.mT).detach() / 2
    if not torch.isfinite(symmetric).all():
        smallest = "NaN"
    else:
        smallest = f"{float(torch.linalg.eigvalsh(symmetric).min()):.3g}"
    return NotPositiveDefiniteError(
        f"`{name}` of size {matrix.shape[-1]} must be positive definite: expected every eigenvalue "
        f"above 0, got a smallest eigenvalue of {smallest}. Shrink it, add jitter to its diagonal, "
        f"or use PseudoInverseCovariance if it is meant to be singular."
    )
