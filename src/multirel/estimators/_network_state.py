"""Models as named tensors and a description in JSON, and back, with nothing that runs in between."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from multirel.estimators._model import LinearModel, Model
from multirel.estimators._network_build import build_layers
from multirel.estimators._network_images import BackboneModel
from multirel.estimators._network_model import NetworkModel
from multirel.estimators._network_rows import InputUnits
from multirel.estimators._network_separate import SeparateNetworks
from multirel.networks import Backbone, FactorizedTaskLinear, MultitaskNetwork, build_backbone

__all__ = ["model_from_state", "model_to_state"]

Tensors = dict[str, Tensor]
OWN = "own"


def model_to_state(model: Model) -> tuple[Tensors, dict[str, Any]]:
    """What a model consists of: tensors by name, and a description that JSON can hold.

    Args:
        model: A model of an estimator.

    Raises:
        TypeError: If it is of another type.
    """
    if isinstance(model, LinearModel):
        return _linear_to_state(model)
    if isinstance(model, NetworkModel):
        return _network_to_state(model)
    if isinstance(model, BackboneModel):
        inner, description = model_to_state(model.inner)
        tensors = _prefixed("inner.", inner) | _prefixed("backbone.", model.backbone.state_dict())
        backbone = _describe_backbone(model.backbone)
        return _detached(tensors), {"form": "features", "backbone": backbone, "inner": description}
    raise TypeError(f"`model` must be linear or a network: got {type(model).__name__}.")


def model_from_state(
    tensors: Mapping[str, Tensor],
    description: Mapping[str, Any],
    *,
    network: nn.Module | None = None,
    device: torch.device | str = "cpu",
) -> Model:
    """The model that `model_to_state` has described, with the same predictions.

    Args:
        tensors: The tensors by name.
        description: The description.
        network: A module like the backbone, where that is one of the user's own; its weights are replaced.
        device: Where networks run.

    Raises:
        ValueError: If tensors and description do not belong together, or a backbone is missing.
    """
    form = description.get("form")
    if form == "linear":
        return _linear_from_state(tensors, description)
    if form == "features":
        backbone = _make_backbone(description["backbone"], network)
        _load(backbone, _below("backbone.", tensors))
        backbone.requires_grad_(False).to(device).eval()
        inner = model_from_state(_below("inner.", tensors), description["inner"], device=device)
        return BackboneModel(backbone, inner, device=device)
    if form == "network":
        return _network_from_state(tensors, description, network=network, device=device)
    raise ValueError(
        f"`description` must be that of a model: expected the form 'linear', 'network' or 'features', got "
        f"{form!r}."
    )


def _linear_to_state(model: LinearModel) -> tuple[Tensors, dict[str, Any]]:
    tensors: Tensors = {}
    for number, (weight, intercept) in enumerate(zip(model.weights, model.intercepts, strict=True)):
        tensors[f"weights.{number}"] = torch.from_numpy(np.array(weight))
        tensors[f"intercepts.{number}"] = torch.from_numpy(np.array(intercept))
    description = {
        "form": "linear",
        "n_tasks": len(model.intercepts),
        "is_list": isinstance(model.weights, list),
        "is_one_vs_rest": bool(model.is_one_vs_rest),
    }
    return tensors, description


def _linear_from_state(tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> Model:
    numbers = range(description["n_tasks"])
    _check_names(tensors, {f"{part}.{n}" for part in ("weights", "intercepts") for n in numbers})
    weights = [tensors[f"weights.{number}"].numpy() for number in numbers]
    intercepts = [tensors[f"intercepts.{number}"].numpy() for number in numbers]
    is_one_vs_rest = description["is_one_vs_rest"]
    if description["is_list"]:
        return LinearModel(weights, intercepts, is_one_vs_rest=is_one_vs_rest)
    return LinearModel(np.stack(weights), np.stack(intercepts), is_one_vs_rest=is_one_vs_rest)


def _network_to_state(model: NetworkModel) -> tuple[Tensors, dict[str, Any]]:
    network = model.network
    layers = network.layers if isinstance(network, SeparateNetworks) else network
    tensors = _prefixed("network.", network.state_dict())
    tensors["targets.center"] = torch.from_numpy(model.center)
    tensors["targets.scale"] = torch.from_numpy(model.scale)
    if model.units is not None:
        tensors["units.center"] = torch.from_numpy(model.units.center)
        tensors["units.scale"] = torch.from_numpy(model.units.scale)
    hidden: list[Any] = [*layers.shared.values(), *[*layers.heads.values()][:-1]]
    backbone = network.backbone[0] if isinstance(network, SeparateNetworks) else network.backbone
    description = {
        "form": "network",
        "is_separate": isinstance(network, SeparateNetworks),
        "tasks": list(layers.tasks),
        "n_outputs": list(layers.n_outputs),
        "n_features": layers.n_features,
        "hidden_sizes": [int(layer.out_features) for layer in hidden],
        "n_shared": len(layers.shared),
        "factorized": {
            name: {"factorization": layer.factorization, "ranks": list(layer.ranks)}
            for name, layer in layers.heads.items()
            if isinstance(layer, FactorizedTaskLinear)
        },
        "backbone": None if model.units is not None else _describe_backbone(backbone),
        "standardizes": model.units is not None,
    }
    return _detached(tensors), description


def _network_from_state(
    tensors: Mapping[str, Tensor],
    description: Mapping[str, Any],
    *,
    network: nn.Module | None,
    device: torch.device | str,
) -> NetworkModel:
    backbone = None
    if description["backbone"] is not None:
        backbone = _make_backbone(description["backbone"], network)
    is_separate = description["is_separate"] and backbone is not None
    layers = build_layers(
        None if is_separate else backbone,
        n_features=description["n_features"],
        tasks=description["tasks"],
        n_outputs=description["n_outputs"],
        hidden_sizes=description["hidden_sizes"],
        n_shared=description["n_shared"],
    )
    for name, form in description["factorized"].items():
        _factorize(layers, name, form)
    whole: MultitaskNetwork | SeparateNetworks = layers
    if is_separate and backbone is not None:
        whole = SeparateNetworks(backbone, layers)
    _load(whole, _below("network.", tensors))
    expected = {"targets.center", "targets.scale"}
    if description["standardizes"]:
        expected |= {"units.center", "units.scale"}
    _check_names([name for name in tensors if not name.startswith("network.")], expected)
    units = None
    if description["standardizes"]:
        units = InputUnits(
            center=tensors["units.center"].numpy(), scale=tensors["units.scale"].numpy()
        )
    return NetworkModel(
        whole.to(device).eval(),
        units,
        center=tensors["targets.center"].numpy(),
        scale=tensors["targets.scale"].numpy(),
    )


def _factorize(layers: MultitaskNetwork, name: str, form: Mapping[str, Any]) -> None:
    stack: Any = layers.heads[name]
    with torch.random.fork_rng(devices=[]):
        layers.heads[name] = FactorizedTaskLinear(
            layers.tasks,
            stack.in_features,
            stack.out_features,
            factorization=form["factorization"],
            ranks=form["ranks"],
        )


def _describe_backbone(backbone: nn.Module) -> Any:
    """The name and the output of a backbone by name; a word for the user's own."""
    if isinstance(backbone, Backbone):
        return {"name": backbone.name, "output": backbone.output}
    return OWN


def _make_backbone(description: Any, network: nn.Module | None) -> nn.Module:
    """A backbone whose weights are still to be loaded."""
    if network is not None:
        return deepcopy(network)
    if description == OWN:
        raise ValueError(
            "`network` must be given for an estimator with a backbone of your own: got None. Give a module "
            "like that backbone; its weights are replaced."
        )
    with torch.random.fork_rng(devices=[]):
        return build_backbone(description["name"], output=description["output"])


def _load(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    _check_names(tensors, set(module.state_dict()))
    for name, value in module.state_dict().items():
        if value.shape != tensors[name].shape:
            raise ValueError(
                f"`tensors` must have the shapes of the network: expected {tuple(value.shape)} for "
                f"{name!r}, got {tuple(tensors[name].shape)}."
            )
    module.load_state_dict(dict(tensors))


def _check_names(names: Any, expected: set[str]) -> None:
    wrong = sorted(set(names) ^ expected)
    if wrong:
        raise ValueError(
            f"`tensors` must be those of the model that is described: they differ in {', '.join(wrong)}."
        )


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    return {f"{prefix}{name}": value for name, value in tensors.items()}


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _detached(tensors: Mapping[str, Tensor]) -> Tensors:
    """Copies on the CPU, none of which share memory."""
    return {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
