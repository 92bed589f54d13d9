"""Backbones by name, with random weights or those of a file."""

import os
import warnings
from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from multirel.exceptions import MultirelWarning
from multirel.networks._architectures import ARCHITECTURES, known_shapes
from multirel.networks._backbone import Backbone, Frozen
from multirel.networks._initialize import initialize
from multirel.networks._package_backbone import PACKAGES, make_from_package
from multirel.networks._weight_file import WeightFile, read_weights
from multirel.networks._weight_keys import absent_layers, load_weights

__all__ = ["build_backbone"]


def build_backbone(
    name: str,
    *,
    weights: str | os.PathLike[str] | None = None,
    frozen: Frozen = False,
    output: str = "features",
) -> Backbone:
    """A backbone that turns images into features, with the preprocessing that belongs to it.

    Args:
        name: `alexnet`, `vgg16`, `squeezenet1_0`, `mobilenet_v2`, `efficientnet_lite0` or `small-cnn`; or
            `timm:NAME` or `torchvision:NAME` where these packages are installed.
        weights: A file with the keys that torchvision uses (timm for `efficientnet_lite0`), ending in
            .safetensors, .pth or .pt. None means random weights: He's in the architectures that are
            written here, the package's own in the others.
        frozen: True keeps all weights as the file has them; "features" keeps those up to that output,
            and the layers after it train.
        output: "features" (after the last pooling, flattened), "logits" (the 1000 classes of ImageNet),
            and for `alexnet` and `vgg16` also "fc6" and "fc7", with the ReLU, and in training the
            dropout, that the originals have after them. What comes later is left out, also where the
            file holds it.

    Raises:
        ValueError: If a name is unknown, the file does not fit, or a frozen layer would be random.
        ImportError: If the package of `timm:NAME` or `torchvision:NAME` does not import.

    Warns:
        MultirelWarning: If the file ends before `output`, so that the layers after it are random.

    Example:
        >>> backbone = build_backbone("small-cnn")
        >>> images = backbone.preprocess(torch.zeros(5, 28, 28, dtype=torch.uint8).unsqueeze(1))
        >>> backbone(images).shape
        torch.Size([5, 128])
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be the name of a backbone: got {type(name).__name__}.")
    package, _, model = name.partition(":")
    if package not in PACKAGES and name not in ARCHITECTURES:
        raise _unknown(name, [*ARCHITECTURES, *(f"{package}:NAME" for package in PACKAGES)])
    _check_frozen(frozen, weights)
    if package in PACKAGES:
        _check_output(output, ["features"], name)
        file = None if weights is None else read_weights(weights)
        return make_from_package(package, model, file=file, frozen=bool(frozen))
    _check_output(output, ARCHITECTURES[name].n_features, name)
    file = None if weights is None else read_weights(weights)
    return _build(name, file, frozen=frozen, output=output)


def _build(name: str, file: WeightFile | None, *, frozen: Frozen, output: str) -> Backbone:
    architecture = ARCHITECTURES[name]
    # Made without memory, or torch would draw weights only to have them replaced.
    with torch.device("meta"):
        layers = architecture.make_layers(output)
    whole = nn.ModuleDict({**layers.features, **layers.further})
    whole.to_empty(device=torch.get_default_device())
    absent: dict[str, str] = {}
    if file is None:
        initialize(whole)
    else:
        absent = absent_layers(whole, file, architecture.further_layers)
        load_weights(whole, file, name=name, known=known_shapes(name), absent=absent)
    if file is not None and absent:
        _check_absent(absent, file, frozen=frozen, output=output)
        for prefix in absent.values():
            initialize(whole.get_submodule(prefix.removesuffix(".")))
    return Backbone(
        layers,
        architecture.preprocessing,
        name=name,
        output=output,
        n_features=architecture.n_features[output],
        frozen=frozen,
        smallest_side=architecture.smallest_side,
        weights_checksum=None if file is None else file.checksum,
        new_layers=tuple(absent),
    )


def _check_frozen(frozen: Any, weights: str | os.PathLike[str] | None) -> None:
    # Compared by type, since 1 is equal to True and would pass for it here only.
    if not isinstance(frozen, bool) and not (isinstance(frozen, str) and frozen == "features"):
        raise ValueError(
            f'`frozen` must be True, False or "features": got {frozen!r}. '
            f'"features" freezes the layers up to the output with that name.'
        )
    if frozen and weights is None:
        raise ValueError(
            f"`frozen` must be False where weights are random: expected a file in `weights`, got None and "
            f"frozen={frozen!r}. Name a weight file, or train the backbone."
        )


def _check_output(output: str, known: Collection[str], name: str) -> None:
    if output not in known:
        raise ValueError(
            f"`output` must name an output of {name}: expected one of {', '.join(known)}, "
            f"got {output!r}. Choose one of them."
        )


def _unknown(name: str, known: list[str]) -> ValueError:
    return ValueError(
        f"`name` must name a backbone: expected one of {', '.join(known)}, got {name!r}. "
        f"Choose one of them."
    )


def _check_absent(absent: dict[str, str], file: WeightFile, *, frozen: Frozen, output: str) -> None:
    """Refuse random layers that would be frozen, and say which layers are random."""
    layers = " and ".join(absent)
    if frozen is True:
        raise ValueError(
            f"`weights` must hold every layer that is frozen: expected those up to {output}, got none of "
            f'{layers} in {file.path}. Use output="features", or frozen="features" to train {layers}.'
        )
    warnings.warn(
        f"`weights` does not hold {layers}: {file.path} ends before. They start from random weights.",
        MultirelWarning,
        stacklevel=4,
    )
