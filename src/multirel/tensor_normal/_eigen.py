"""Eigenvectors and orthonormal columns of small matrices, quickly where the weights are on a GPU."""

import torch
from torch import Tensor

from multirel._annotations import Float

__all__ = ["accurate_product", "eigh", "orthonormal"]

SMALL_MATRIX = 128
"""Matrices of at most this size are decomposed on the CPU, where a GPU would hardly have started."""

LARGEST_GAP = 1e-6
"""Entries of Uᵀ U − I up to which columns count as orthonormal."""


def eigh(
    matrix: Float[Tensor, "*batch d d"],
) -> tuple[Float[Tensor, "*batch d"], Float[Tensor, "*batch d d"]]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric matrix.

    Args:
        matrix: The matrix, or a batch of them.

    Example:
        >>> eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))[0]
        tensor([1., 2.])
    """
    is_small = matrix.ndim == 2 and len(matrix) <= SMALL_MATRIX  # noqa: PLR2004
    if matrix.is_cuda and is_small and not torch.compiler.is_compiling():
        values, vectors = torch.linalg.eigh(matrix.cpu())
        return values.to(matrix.device), vectors.to(matrix.device)
    values, vectors = torch.linalg.eigh(matrix)
    return values, vectors


def accurate_product(
    left: Float[Tensor, "*batch n r"], right: Float[Tensor, "*batch r m"]
) -> Float[Tensor, "*batch n m"]:
    """The product with every bit of its type, also where products on a GPU may round their factors.

    Bases are multiplied so, since they would not stay orthonormal otherwise.

    Args:
        left: A matrix, or a batch of them.
        right: Another.
    """
    return (left.double() @ right.double()).to(left.dtype)


def orthonormal(columns: Float[Tensor, "*batch d r"]) -> Float[Tensor, "*batch d r"]:
    """Orthonormal columns whose span holds that of `columns`.

    On a GPU by the Cholesky factor of the columns' products in double precision, which takes a fraction of
    the time of Householder reflections, unless the columns are nearly dependent.

    Args:
        columns: A matrix with at least as many rows as columns, or a batch of them.
    """
    basis: Tensor | None = None
    if columns.is_cuda and columns.ndim == 2 and not columns.requires_grad:  # noqa: PLR2004
        basis = _by_cholesky(columns)
    if basis is None:
        basis = torch.linalg.qr(columns).Q
    return basis


def _by_cholesky(columns: Tensor) -> Tensor | None:
    """The columns times the inverse of their Cholesky factor, or None if they are nearly dependent."""
    wide = columns.double()
    factor, failures = torch.linalg.cholesky_ex(wide.mT @ wide)
    basis = torch.linalg.solve_triangular(factor, wide.mT, upper=False).mT
    identity = torch.eye(basis.shape[1], dtype=basis.dtype, device=basis.device)
    gap = (basis.mT @ basis - identity).abs().max()
    is_orthonormal = bool((failures == 0) & (gap <= LARGEST_GAP))
    return basis.to(columns) if is_orthonormal else None
