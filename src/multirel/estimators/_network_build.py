"""Networks to train, which start from the same weights whatever the method."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import nn

from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._network_pooled import PooledNetwork
from multirel.estimators._network_separate import SeparateNetworks
from multirel.networks import MultitaskNetwork, TaskLinear

__all__ = ["build_layers", "build_network", "names_of_tasks", "prefix_of", "task_layers"]


def names_of_tasks(tasks: Sequence[Any]) -> tuple[str, ...]:
    """Names of tasks as text; their numbers where two would have the same."""
    names = tuple(map(str, tasks))
    return names if len(set(names)) == len(names) else tuple(map(str, range(len(names))))


def build_network(
    plan: NetworkPlan,
    backbone: nn.Module | None,
    *,
    n_features: int,
    tasks: Sequence[str],
    n_outputs: Sequence[int],
    hidden_sizes: Sequence[int],
    seed: int,
) -> nn.Module:
    """The network of a method before training.

    Hidden layers start from random weights that depend on the seed and their sizes alone: the same in all
    methods, and in all tasks. Output layers start from zero, so that neither tasks nor classes are told
    apart by where they start.

    Args:
        plan: What the tasks share.
        backbone: The backbone, if it trains.
        n_features: Features that it gives, or that the rows are.
        tasks: The names of the tasks.
        n_outputs: Outputs of every task.
        hidden_sizes: Sizes of the hidden layers.
        seed: Seed of the weights.
    """
    is_separate = backbone is not None and plan.is_single_task
    n_shared = 0 if plan.sharing == "none" else len(hidden_sizes)
    layers = build_layers(
        None if is_separate else backbone,
        n_features=n_features,
        tasks=tasks,
        n_outputs=n_outputs,
        hidden_sizes=hidden_sizes,
        n_shared=n_shared,
    )
    _draw(layers, seed)
    if is_separate and backbone is not None:
        return SeparateNetworks(backbone, layers)
    if plan.sharing == "all":
        return PooledNetwork(layers, has_task_intercepts=plan.task_intercepts)
    return layers


def build_layers(
    backbone: nn.Module | None,
    *,
    n_features: int,
    tasks: Sequence[str],
    n_outputs: Sequence[int],
    hidden_sizes: Sequence[int],
    n_shared: int,
) -> MultitaskNetwork:
    """A network of the tasks, whose random weights leave torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        return MultitaskNetwork(
            backbone,
            tasks,
            n_outputs=list(n_outputs),
            hidden_sizes=hidden_sizes,
            shared_layers=n_shared,
            n_features=n_features,
        )


@torch.no_grad()
def _draw(network: MultitaskNetwork, seed: int) -> None:
    """Random hidden layers and zero outputs."""
    hidden: list[Any] = [*network.shared.values(), *network.heads.values()]
    output = hidden.pop()
    for depth, layer in enumerate(hidden):
        entropy = int(np.random.SeedSequence((seed, depth)).generate_state(1, np.uint64)[0]) >> 1
        generator = torch.Generator().manual_seed(entropy)
        bound = 1 / sqrt(layer.in_features)
        for parameter in (layer.weight, layer.bias):
            shape = parameter.shape[1:] if isinstance(layer, TaskLinear) else parameter.shape
            drawn = torch.empty(shape).uniform_(-bound, bound, generator=generator)
            parameter.copy_(drawn.expand_as(parameter))
    for parameter in output.parameters():
        parameter.zero_()


def prefix_of(network: nn.Module) -> str:
    """What names of task-specific layers start with."""
    return "layers." if isinstance(network, SeparateNetworks) else ""


def task_layers(network: nn.Module) -> MultitaskNetwork | None:
    """The part of a network that has task-specific layers; None where there is one network for all."""
    if isinstance(network, SeparateNetworks):
        return network.layers
    return network if isinstance(network, MultitaskNetwork) else None
