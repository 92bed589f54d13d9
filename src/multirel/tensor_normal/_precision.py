"""Precision of the algebra, whatever precision a training loop has chosen for its network."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

__all__ = ["without_autocast"]


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A context that casts nothing to half precision: covariances need more digits than a network.

    Args:
        device: Where the tensors are.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
