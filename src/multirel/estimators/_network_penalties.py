"""Penalties on weights that have no prior: λ/N times half of their squares."""

from collections.abc import Iterable, Sequence
from typing import final

import torch
from torch import Tensor, nn

from multirel._annotations import Float
from multirel.networks import FactorizedTaskLinear
from multirel.priors._step_size import find_groups, rate_of_groups

__all__ = ["ComposedRidge", "Ridge", "weights_to_shrink"]


@final
class Ridge:
    """(rate / 2) Σ ‖w‖², applied to the weights as a proximal step: w ← w / (1 + c · rate).

    Weight decay has the same minimum. This is stable for any rate, as the priors' proximal step is, of
    which it is the special case without covariances.

    Args:
        parameters: The weights.
        rate: λ/N.
    """

    application = "proximal"

    def __init__(self, parameters: Sequence[nn.Parameter], rate: float) -> None:
        self.parameters = list(parameters)
        self.rate = rate

    def __call__(self) -> Float[Tensor, ""]:
        """The penalty."""
        return _half_squares(self.parameters, self.rate)

    @torch.no_grad()
    def apply(self, optimizer: torch.optim.Optimizer) -> None:
        """Shrink the weights, for one step of the optimizer."""
        for parameter in self.parameters:
            groups = find_groups(optimizer, [parameter], layer="ridge")
            step_size = float(rate_of_groups(optimizer, groups, layer="ridge"))
            parameter.div_(1 + step_size * self.rate)

    def update(self) -> None:
        """There is nothing to learn."""

    def step(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Shrink the weights after a step of the optimizer."""
        if optimizer is not None:
            self.apply(optimizer)


@final
class ComposedRidge:
    """(rate / 2) Σ ‖W‖² of the weights that factors compose, in the gradient of the factors.

    So with full ranks the objective is that of the weights themselves.

    Args:
        layers: The layers.
        rate: λ/N.
    """

    application = "gradient"

    def __init__(self, layers: Sequence[FactorizedTaskLinear], rate: float) -> None:
        self.layers = list(layers)
        self.rate = rate

    def __call__(self) -> Float[Tensor, ""]:
        """The penalty, differentiable in the factors."""
        return _half_squares([layer.weight for layer in self.layers], self.rate)

    def apply(self, optimizer: torch.optim.Optimizer) -> None:
        """There is nothing to apply: the penalty is in the gradient."""

    def update(self) -> None:
        """There is nothing to learn."""

    def step(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """There is nothing to do after a step."""


def _half_squares(weights: Iterable[Tensor], rate: float) -> Tensor:
    squares = [weight.square().sum() for weight in weights]
    return 0.5 * rate * torch.stack(squares).sum()


def weights_to_shrink(module: nn.Module, *, without: Iterable[Tensor] = ()) -> list[nn.Parameter]:
    """The weights that train, without biases, normalizations, factors, and those that have a prior.

    Args:
        module: The network.
        without: Weights that have a prior.
    """
    left_out = {id(weight) for weight in without}
    for layer in module.modules():
        if isinstance(layer, FactorizedTaskLinear):
            left_out |= {id(factor) for factor in layer.parameters()}
    return [
        parameter
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
        and parameter.ndim > 1
        and not name.rpartition(".")[2].startswith("bias")
        and id(parameter) not in left_out
    ]
