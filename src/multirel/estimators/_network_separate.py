"""A network for every task, with a backbone of its own."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from multirel._annotations import Float, Int
from multirel.networks import MultitaskNetwork

__all__ = ["SeparateNetworks"]


class SeparateNetworks(nn.Module):
    """A copy of a backbone for every task, and the layers behind them.

    Attributes:
        backbone: The backbones, in the order of the tasks.
        layers: The layers behind them.

    Args:
        backbone: The backbone that all copies start from.
        layers: A network of features, whose layers are the tasks' own.
    """

    def __init__(self, backbone: nn.Module, layers: MultitaskNetwork) -> None:
        super().__init__()
        self.backbone = nn.ModuleList(deepcopy(backbone) for _ in range(layers.n_tasks))
        # What starts from random weights is told by this, as with a single backbone.
        checksum = getattr(backbone, "weights_checksum", "")
        self.backbone.weights_checksum = checksum  # type: ignore[assignment]
        self.layers = layers

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return self.layers.tasks

    @property
    def n_outputs(self) -> tuple[int, ...]:
        """Outputs of every task."""
        return self.layers.n_outputs

    def forward(self, x: Tensor, task: Int[Tensor, "n"]) -> Float[Tensor, "n outputs"]:
        """The outputs for every row, by the backbone and the layers of its task."""
        return self.layers.forward_features(self.features(x, task), task)

    def features(self, x: Tensor, task: Int[Tensor, "n"]) -> Float[Tensor, "n F"]:
        """What the backbone of its task makes of every row."""
        parts, places = [], []
        for number in task.unique().tolist():
            mine = (task == number).nonzero().squeeze(1)
            parts.append(self.backbone[number](x[mine.to(x.device)]))
            places.append(mine)
        order = torch.cat(places).argsort()
        return torch.cat(parts)[order.to(x.device)]
