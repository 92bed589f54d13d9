"""Networks as what an estimator has learned."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor, nn

from multirel.estimators._model import Model
from multirel.estimators._network_images import to_images
from multirel.estimators._network_rows import InputUnits
from multirel.estimators._network_separate import SeparateNetworks
from multirel.networks import MultitaskNetwork
from multirel.training._surroundings import evaluating

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NetworkModel"]

ROWS_PER_BATCH = 1024
IMAGES_PER_BATCH = 64


@final
class NetworkModel(Model):
    """Scores by a network, in evaluation mode.

    Layers behind the backbone are evaluated in double precision, so that the scores of a row do not depend
    on the rows beside it.

    Args:
        network: The network of all tasks.
        units: The units in which it sees features; None where it sees images.
        center: What is added to the outputs of every task, "T".
        scale: What they are multiplied by before, "T".
    """

    is_one_vs_rest = False

    def __init__(
        self,
        network: MultitaskNetwork | SeparateNetworks,
        units: InputUnits | None,
        *,
        center: "NDArray[np.float64]",
        scale: "NDArray[np.float64]",
    ) -> None:
        self.network = network
        self.units = units
        self.center = center
        self.scale = scale

    def scores(self, x: Any, task: "NDArray[np.int64]") -> "NDArray[np.float64]":
        layers = _in_double_precision(self.network)
        device = next(layers.parameters()).device
        size = IMAGES_PER_BATCH if self.units is None else ROWS_PER_BATCH
        result = np.empty((len(task), max(self.network.n_outputs)))
        with torch.no_grad(), evaluating(self.network):
            for start in range(0, len(task), size):
                some = slice(start, start + size)
                number = torch.from_numpy(task[some])
                features = self._features(x[some], number, device=device)
                result[some] = layers.forward_features(features, number).cpu().numpy()
        # Only numbers have other units, and they are one output.
        result[:, 0] = result[:, 0] * self.scale[task] + self.center[task]
        return result

    def _features(self, x: Any, task: Tensor, *, device: torch.device) -> Tensor:
        """What the layers behind the backbone see, in double precision."""
        if self.units is not None:
            return torch.from_numpy(self.units.apply(x)).to(device)
        if isinstance(self.network, SeparateNetworks):
            images = to_images(self.network.backbone[0], x).to(device)
            return self.network.features(images, task).double()
        features: Tensor = self.network.backbone(to_images(self.network.backbone, x).to(device))
        return features.double()


def _in_double_precision(network: MultitaskNetwork | SeparateNetworks) -> MultitaskNetwork:
    """A copy of the layers behind the backbone."""
    layers = network.layers if isinstance(network, SeparateNetworks) else network
    # The backbone is not copied.
    copy: MultitaskNetwork = deepcopy(layers, {id(layers.backbone): nn.Identity()})
    return copy.double().eval()
