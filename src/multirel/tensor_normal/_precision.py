"""Precision of the algebra, whatever precision a training loop has chosen for its network."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from multirel._annotations import Float

__all__ = ["accurate_product", "without_autocast"]


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


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A context that casts nothing to half precision: covariances need more digits than a network.

    Args:
        device: Where the tensors are.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
