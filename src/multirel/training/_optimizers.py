"""The optimizer of a recipe: rates and weight decay by what a parameter is."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from multirel.networks._architectures import ARCHITECTURES
from multirel.priors import Penalty
from multirel.training._recipe import Recipe, Trained

__all__ = ["MULTIPLIER", "build_optimizer", "check_trained", "parameter_groups", "set_rate"]

MULTIPLIER = "rate_multiplier"
"""The entry of a parameter group with its rate over that of the recipe."""

ADAMW_SECOND_DECAY = 0.999


def build_optimizer(
    network: nn.Module,
    recipe: Recipe,
    *,
    penalties: Iterable[Penalty] = (),
    new_layers: Sequence[str] | None = None,
) -> torch.optim.Optimizer:
    """The optimizer of a recipe for the parameters of `network` that train.

    Args:
        network: The network.
        recipe: The recipe.
        penalties: Penalties on its weights. Those that name their `stacks`, as priors do, replace weight
            decay there.
        new_layers: Names of the layers that start from random weights, such as "heads.fc8". None means all
            outside `network.backbone`, and the layers of the backbone that its weight file lacked.

    Raises:
        ValueError: If no parameter trains, or a name is that of no layer.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 2))
        >>> optimizer = build_optimizer(network, Recipe(learning_rate=0.1))
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.2]
    """
    groups = parameter_groups(network, recipe, penalties=penalties, new_layers=new_layers)
    optimizer: torch.optim.Optimizer
    if recipe.optimizer == "adamw":
        optimizer = torch.optim.AdamW(
            groups, lr=recipe.learning_rate, betas=(recipe.momentum, ADAMW_SECOND_DECAY)
        )
    else:
        optimizer = torch.optim.SGD(
            groups, lr=recipe.learning_rate, momentum=recipe.momentum, nesterov=recipe.nesterov
        )
    return optimizer


def parameter_groups(
    network: nn.Module,
    recipe: Recipe,
    *,
    penalties: Iterable[Penalty] = (),
    new_layers: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Groups of parameters with one rate and weight decay each, for any optimizer of torch.

    All weights that one prior acts on together are in one group, unless `new_layers` parts them.

    Args:
        network: The network.
        recipe: The recipe.
        penalties: Penalties on its weights.
        new_layers: Names of the layers that start from random weights.

    Raises:
        ValueError: If no parameter trains, or a name is that of no layer.
    """
    trained = {name: value for name, value in network.named_parameters() if value.requires_grad}
    if not trained:
        raise ValueError(
            "`network` must have parameters that train: got none with requires_grad. Put heads behind a "
            "frozen backbone."
        )
    new = _new_parameters(network, new_layers) & trained.keys()
    # A layer is new beside others that are not: where all are, their rate is the recipe's.
    factor = recipe.new_layer_multiplier if len(new) < len(trained) else 1.0
    under_prior = _under_prior(penalties)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in trained.items():
        is_bias = name.rpartition(".")[2].startswith("bias")
        multiplier = (factor if name in new else 1.0) * (recipe.bias_multiplier if is_bias else 1.0)
        is_free = is_bias or parameter.ndim <= 1 or id(parameter) in under_prior
        decay = 0.0 if is_free else recipe.weight_decay
        groups.setdefault((multiplier, decay), []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": recipe.learning_rate * multiplier,
            "weight_decay": decay,
            MULTIPLIER: multiplier,
        }
        for (multiplier, decay), parameters in groups.items()
    ]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group of `optimizer` its multiple of `rate`."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group[MULTIPLIER]


def check_trained(network: nn.Module, trained: Trained | None) -> None:
    """Raise unless just those parameters train that the recipe says.

    Raises:
        ValueError: If a parameter trains that should not, or the other way round.
    """
    if trained is None:
        return
    backbone = getattr(network, "backbone", None)
    inside = backbone.named_modules() if isinstance(backbone, nn.Module) else ()
    fixed = {
        id(parameter)
        for _, module in inside
        if trained == "heads"
        or (trained == "fully-connected" and isinstance(module, nn.modules.conv._ConvNd))
        for parameter in module.parameters(recurse=False)
    }
    for name, parameter in network.named_parameters():
        should_train = id(parameter) not in fixed
        if parameter.requires_grad and not should_train:
            raise ValueError(
                f"`network` must have a frozen backbone where the recipe trains {trained!r}: {name!r} "
                f'trains. Build the backbone with frozen=True or "features".'
            )
        if should_train and not parameter.requires_grad and trained == "all":
            raise ValueError(
                f"`network` must not be frozen where the recipe trains 'all': {name!r} does not train. "
                f"Build the backbone with frozen=False."
            )


def _new_parameters(network: nn.Module, new_layers: Sequence[str] | None) -> set[str]:
    """Names of the parameters that start from random weights."""
    names = [name for name, _ in network.named_parameters()]
    if new_layers is not None:
        return set(_below(names, new_layers))
    backbone = getattr(network, "backbone", None)
    if not isinstance(backbone, nn.Module):
        return set(names)
    inside = {name for name in names if name.startswith("backbone.")}
    # A backbone made without a weight file says so, and is as new as everything else.
    if getattr(backbone, "weights_checksum", "") is None:
        return set(names)
    absent = [f"backbone.{path}" for path in _paths_of_new_layers(backbone)]
    return set(names) - inside | set(_below(names, absent))


def _paths_of_new_layers(backbone: nn.Module) -> list[str]:
    """Where the layers of a backbone are that its weight file lacked."""
    layers = getattr(backbone, "new_layers", ())
    architecture = ARCHITECTURES.get(str(getattr(backbone, "name", "")))
    prefixes = architecture.further_layers if architecture is not None else {}
    return [prefixes.get(layer, layer).removesuffix(".") for layer in layers]


def _below(names: Sequence[str], layers: Sequence[str]) -> Iterable[str]:
    """The parameters of some layers, by name."""
    for layer in layers:
        found = [name for name in names if name == layer or name.startswith(f"{layer}.")]
        if not found:
            raise ValueError(
                f"`new_layers` must name layers with parameters: got {layer!r}, where the network has "
                f"{', '.join(dict.fromkeys(name.rpartition('.')[0] for name in names))}."
            )
        yield from found


def _under_prior(penalties: Iterable[Penalty]) -> set[int]:
    return {
        id(parameter)
        for penalty in penalties
        for stack in getattr(penalty, "stacks", ())
        for parameter in stack.parameters
    }
