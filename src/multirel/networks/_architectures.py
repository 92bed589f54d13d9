"""The table of the architectures that are written here, and what their weight files hold."""

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor, nn

from multirel.networks._alexnet import ALEXNET
from multirel.networks._architecture import Architecture, Layers
from multirel.networks._efficientnet_lite import EFFICIENTNET_LITE0
from multirel.networks._mobilenet_v2 import MOBILENET_V2
from multirel.networks._small_cnn import SMALL_CNN
from multirel.networks._squeezenet import SQUEEZENET1_0
from multirel.networks._vgg import VGG16

__all__ = ["ARCHITECTURES", "find_architecture", "known_shapes", "shapes_of"]

ARCHITECTURES: dict[str, Architecture] = {
    "alexnet": ALEXNET,
    "vgg16": VGG16,
    "squeezenet1_0": SQUEEZENET1_0,
    "mobilenet_v2": MOBILENET_V2,
    "efficientnet_lite0": EFFICIENTNET_LITE0,
    "small-cnn": SMALL_CNN,
}


@cache
def known_shapes(name: str) -> dict[str, torch.Size]:
    """The keys and shapes of a whole weight file of an architecture, its scores included.

    Args:
        name: A key of `ARCHITECTURES`.
    """
    architecture = ARCHITECTURES[name]
    last_output = list(architecture.n_features)[-1]
    with torch.device("meta"):
        return shapes_of(architecture.make_layers(last_output))


def shapes_of(layers: Layers) -> dict[str, torch.Size]:
    """The keys and shapes of `layers` in a weight file."""
    whole = nn.ModuleDict({**layers.features, **layers.further})
    return {key: value.shape for key, value in whole.state_dict().items()}


def find_architecture(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the architecture that all these tensors belong to, or None."""
    for name in ARCHITECTURES:
        shapes = known_shapes(name)
        if tensors and all(shapes.get(key) == value.shape for key, value in tensors.items()):
            return name
    return None
