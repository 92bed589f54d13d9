"""What all architectures have in common: layers in two parts, and what is known of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from torch import nn

from multirel.networks._preprocessing import Preprocessing

__all__ = ["N_CLASSES", "Architecture", "Layers", "NamedLayers"]

N_CLASSES = 1000
"""Classes of ImageNet."""

NamedLayers: TypeAlias = dict[str, nn.Module]
"""Layers by the names that weight files give them, in the order in which they are evaluated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """The layers of a backbone in the order in which they are evaluated."""

    features: NamedLayers
    """The layers up to the output "features"; they can be frozen while the others are trained."""

    further: NamedLayers = field(default_factory=dict)
    """The layers after that, up to the output that was asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """What `build_backbone` needs to know of an architecture."""

    make_layers: Callable[[str], Layers]
    """Returns new layers up to the output with this name."""

    n_features: Mapping[str, int]
    """Size of every output, from the first to the last."""

    further_layers: Mapping[str, str]
    """The layers that outputs after "features" add, and the prefix of their keys in weight files."""

    preprocessing: Preprocessing
    """What the public weight files expect of images."""

    smallest_side: int
    """Smallest height and width of images that the layers can take."""
