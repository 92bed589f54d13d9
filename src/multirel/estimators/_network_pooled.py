"""One network for all tasks."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multirel._annotations import Float, Int
from multirel.networks import MultitaskNetwork, TaskLinear

__all__ = ["PooledNetwork"]


class PooledNetwork(nn.Module):
    """The layers of a network whose hidden layers are shared, with one output layer for all tasks.

    Args:
        network: The network, all of whose hidden layers are shared.
        has_task_intercepts: Whether every task has output biases of its own.
    """

    def __init__(self, network: MultitaskNetwork, *, has_task_intercepts: bool) -> None:
        super().__init__()
        self.backbone = network.backbone
        self.shared = network.shared
        (n_outputs,) = set(network.n_outputs)
        self.weight = nn.Parameter(torch.zeros(n_outputs, _output_layer(network).in_features))
        self.bias = nn.Parameter(
            torch.zeros(network.n_tasks if has_task_intercepts else 1, n_outputs)
        )
        # Its own heads do not train, so it is kept where torch does not look for layers.
        self._whole = (network,)

    def forward(self, x: Tensor, task: Int[Tensor, "n"]) -> Float[Tensor, "n outputs"]:
        """The outputs for every row; `task` only decides the biases, if these are the tasks' own."""
        features = self.backbone(x)
        for layer in self.shared.values():
            features = F.relu(layer(features))
        number = task if len(self.bias) > 1 else torch.zeros_like(task)
        return F.linear(features, self.weight) + self.bias[number.to(self.bias.device)]

    @torch.no_grad()
    def to_multitask(self) -> MultitaskNetwork:
        """The same as a network of the tasks, whose heads have equal weights."""
        (network,) = self._whole
        head = _output_layer(network).to(self.weight.device)
        for mine, shared in zip((head.weight, head.bias), (self.weight, self.bias), strict=True):
            if mine is not None:
                mine.copy_(shared.expand_as(mine))
        return network


def _output_layer(network: MultitaskNetwork) -> TaskLinear:
    """The output layer of a network whose tasks all have the same outputs."""
    *_, layer = network.heads.values()
    if not isinstance(layer, TaskLinear):
        raise TypeError(f"`network` must have a stack of heads: got {type(layer).__name__}.")
    return layer
