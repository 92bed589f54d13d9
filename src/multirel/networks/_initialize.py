"""Random weights to start from."""

from torch import nn

__all__ = ["initialize"]


def initialize(module: nn.Module) -> None:
    """Draw weights with variance 2 / (inputs of one output), and set biases to 0 (He et al., 2015).

    Normalizations start as the identity. The weights come from torch's global generator.

    Args:
        module: Module whose convolutions, linear layers and normalizations are set, at any depth.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d | nn.GroupNorm):
            layer.reset_parameters()
