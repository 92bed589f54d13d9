"""Backbones that timm or torchvision bring, where these packages are installed."""

from collections.abc import Callable, Mapping
from importlib import import_module
from math import floor
from typing import Any

import torch
from torch import nn

from multirel.networks._architecture import Layers
from multirel.networks._backbone import Backbone
from multirel.networks._preprocessing import Preprocessing
from multirel.networks._weight_file import WeightFile
from multirel.networks._weight_keys import load_weights

__all__ = ["PACKAGES", "make_from_package"]

PACKAGES = ("timm", "torchvision")


def make_from_package(
    package: str, model: str, *, file: WeightFile | None, frozen: bool
) -> Backbone:
    """The backbone of a model in timm or torchvision: all but its last linear layer.

    Args:
        package: "timm" or "torchvision".
        model: The name of the model there.
        file: The weights of the whole model, or None for the package's random ones.
        frozen: Whether the weights are held.

    Raises:
        ImportError: If the package does not import.
        ValueError: If it has no such model, or the weights do not fit.
    """
    module = _import(package)
    make = _make_from_timm if package == "timm" else _make_from_torchvision
    name = f"{package}:{model}"
    network, preprocessing, remove_classifier = make(module, model, file)
    if file is not None:
        shapes = {key: value.shape for key, value in network.state_dict().items()}
        load_weights(network, file, name=name, known=shapes, absent={})
    remove_classifier()
    return Backbone(
        Layers(features={"model": network}),
        preprocessing,
        name=name,
        output="features",
        n_features=_count_features(network, preprocessing.crop, name),
        frozen=frozen,
        weights_checksum=None if file is None else file.checksum,
    )


Made = tuple[nn.Module, Preprocessing, Callable[[], None]]
"""A model, what it expects of images, and the function that takes its classifier away."""


def _make_from_timm(timm: Any, model: str, file: WeightFile | None) -> Made:
    del file  # The name of the model, with its tag, says which preprocessing belongs to it.
    if not timm.is_model(model):
        raise _unknown_model("timm", model)
    network: nn.Module = timm.create_model(model, pretrained=False)
    settings = import_module("timm.data").resolve_model_data_config(network)
    side = settings["input_size"][-1]
    preprocessing = _make_preprocessing(
        f"timm:{model}",
        resize=floor(side / settings["crop_pct"]),
        crop=side,
        settings=settings,
        is_known=settings["input_size"][-2] == side and settings["crop_mode"] == "center",
    )
    return network, preprocessing, lambda: network.reset_classifier(0)  # type: ignore[operator]


def _make_from_torchvision(torchvision: Any, model: str, file: WeightFile | None) -> Made:
    models = torchvision.models
    if model not in models.list_models(module=models):
        raise _unknown_model("torchvision", model)
    network: nn.Module = models.get_model(model, weights=None)
    if hasattr(network, "aux_logits"):
        # Inception and GoogLeNet would return three vectors while they train.
        network.aux_logits = False  # type: ignore[assignment]
    transforms = _choose_weights(models.get_model_weights(model), file).transforms()
    settings = {
        "mean": transforms.mean,
        "std": transforms.std,
        "interpolation": transforms.interpolation.value,
    }
    preprocessing = _make_preprocessing(
        f"torchvision:{model}",
        resize=transforms.resize_size[0],
        crop=transforms.crop_size[0],
        settings=settings,
        is_known=len(transforms.resize_size) == len(transforms.crop_size) == 1,
    )
    return network, preprocessing, lambda: _remove_last_linear(network, model)


def _choose_weights(known: Any, file: WeightFile | None) -> Any:
    """The entry of torchvision's table whose file has the same name, else the default one."""
    for entry in known:
        if file is not None and entry.url.rpartition("/")[2] == file.path.name:
            return entry
    return known.DEFAULT


def _remove_last_linear(network: nn.Module, model: str) -> None:
    """Replace the last linear layer, which torchvision's classifiers end with, by the identity."""
    names = [name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not names:
        raise ValueError(
            f"`name` must name a model that ends with a linear layer: got torchvision:{model}, which has "
            f"none. Choose another model."
        )
    parent, _, child = names[-1].rpartition(".")
    setattr(network.get_submodule(parent), child, nn.Identity())


def _make_preprocessing(
    name: str, *, resize: int, crop: int, settings: Mapping[str, Any], is_known: bool
) -> Preprocessing:
    interpolation = settings["interpolation"]
    if not is_known or interpolation not in ("bilinear", "bicubic") or resize < crop:
        raise ValueError(
            f"`name` must name a model whose images are resized and cropped to a square at the center: "
            f"expected bilinear or bicubic interpolation, got other settings for {name}. "
            f"Choose another model."
        )
    red, green, blue = settings["mean"]
    red_std, green_std, blue_std = settings["std"]
    return Preprocessing(
        resize=resize,
        crop=crop,
        mean=(red, green, blue),
        std=(red_std, green_std, blue_std),
        interpolation=interpolation,
    )


def _count_features(network: nn.Module, side: int, name: str) -> int:
    """The size of what the model returns, from an image of zeros."""
    network.eval()
    with torch.no_grad():
        features = network(torch.zeros(1, 3, side, side))
    if not isinstance(features, torch.Tensor) or features.ndim != 2:  # noqa: PLR2004
        raise ValueError(
            f"`name` must name a model that returns one vector per image: got something else from {name}. "
            f"Choose another model."
        )
    return features.shape[1]


def _unknown_model(package: str, model: str) -> ValueError:
    return ValueError(
        f"`name` must name a model of {package}: expected one that {package} lists, got {model!r}. "
        f"See {package}'s list_models()."
    )


def _import(package: str) -> Any:
    # A version of torch that is asked for by name is not replaced by another build of it.
    torch_version = torch.__version__.partition("+")[0]
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"`name` must belong to a package that is installed: expected {package}, got {error}. "
            f"Run: pip install {package} torch=={torch_version}"
        ) from error
    # torchvision made for another build of torch raises RuntimeError.
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"`name` must belong to a package that imports: expected {package}, got "
            f"{type(error).__name__}: {error}. torchvision must be made for the same build of torch "
            f"({torch.__version__}): install the pair as https://pytorch.org says."
        ) from error
