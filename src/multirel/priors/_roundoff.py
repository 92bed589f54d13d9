"""Eigenvalues of which nothing but roundoff is left."""

import torch
from torch import Tensor

from multirel._annotations import Float

__all__ = ["without_roundoff"]


def without_roundoff(
    values: Float[Tensor, "*copies r"], *, largest: Float[Tensor, "*copies 1"], size: int
) -> Float[Tensor, "*copies r"]:
    """Eigenvalues that are not negative, and zero where nothing but roundoff is left of them.

    Args:
        values: Eigenvalues.
        largest: The largest eigenvalue of the matrix.
        size: The size of the matrix.
    """
    roundoff = size * torch.finfo(values.dtype).eps * largest
    return values.masked_fill(values <= roundoff, 0.0)
