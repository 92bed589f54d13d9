"""What training asks of anything that is added to the loss."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from multirel._annotations import Float

__all__ = ["Penalty"]


@runtime_checkable
class Penalty(Protocol):
    """A term of the objective that acts on weights, and may learn from them."""

    def __call__(self) -> Float[Tensor, ""]:
        """The penalty as a differentiable scalar; changes nothing."""

    def apply(self, optimizer: torch.optim.Optimizer) -> None:
        """Act on the weights by a proximal step, with that optimizer's rates."""

    def update(self) -> None:
        """Estimate again what the penalty has learned."""

    def step(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """`apply` and `update` on the penalty's own schedule, after `optimizer.step()`."""
