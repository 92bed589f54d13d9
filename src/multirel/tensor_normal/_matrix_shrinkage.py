"""Shrinkage of covariance matrices that are written out."""

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._covariance import ShrinkageTarget, check_shrinkage

__all__ = ["shrink_matrix", "symmetrize"]


def symmetrize(matrix: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """(A + Aᵀ) / 2."""
    return (matrix + matrix.mT) / 2


def shrink_matrix(
    matrix: Float[Tensor, "*batch d d"], amount: float, target: ShrinkageTarget = "identity"
) -> Float[Tensor, "*batch d d"]:
    """(1 − α) Σ + α (tr Σ / d) T, with T as in `Covariance.shrink`."""
    check_shrinkage(amount, target)
    size = matrix.shape[-1]
    identity = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    total_variance = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
    variance = (total_variance / size)[..., None, None]
    if target == "identity" or size == 1:
        return (1 - amount) * matrix + amount * variance * identity
    covariance = (matrix.sum((-2, -1)) - total_variance)[..., None, None] / (size * (size - 1))
    ones = torch.ones_like(identity)
    return (1 - amount) * matrix + amount * ((variance - covariance) * identity + covariance * ones)
