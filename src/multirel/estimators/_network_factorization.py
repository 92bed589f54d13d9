"""Networks whose task-specific layers are factorized, starting from single-task weights."""

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from multirel.estimators._network_plan import NetworkPlan
from multirel.networks import FactorizedTaskLinear, MultitaskNetwork, TaskLinear

__all__ = ["factorize_layers", "single_task_plan"]


def single_task_plan(plan: NetworkPlan) -> NetworkPlan:
    """The training that the factors come from: the same sharing, and a ridge on all weights."""
    return NetworkPlan(
        sharing=plan.sharing, prior=None, ridge=plan.ridge, strength_per=plan.strength_per
    )


def factorize_layers(network: nn.Module, plan: NetworkPlan, *, is_alike: bool) -> MultitaskNetwork:
    """A copy whose task-specific layers are factorized: all, or all but the last where tasks differ there.

    Args:
        network: A network of task-specific layers after single-task training.
        plan: The factorization and its ranks.
        is_alike: Whether all tasks predict the same.

    Raises:
        ValueError: If there is no layer to factorize, or ranks do not fit.
    """
    copy = deepcopy(network)
    if not isinstance(copy, MultitaskNetwork) or plan.factorization is None:
        raise TypeError(f"`network` must have task-specific layers: got {type(network).__name__}.")
    *hidden, output = copy.heads
    names = [*hidden, output] if is_alike else hidden
    if not names:
        raise ValueError(
            "`hidden_sizes` must have a layer to factorize where tasks have different classes or kinds: "
            "got none. Use `hidden_sizes=(256,)`."
        )
    for name in names:
        layer = copy.heads[name]
        if isinstance(layer, TaskLinear) and bool(layer.weight.any()):
            # A new layer draws weights, which are replaced here.
            with torch.random.fork_rng(devices=[]):
                copy.heads[name] = FactorizedTaskLinear.from_weights(
                    layer.weight,
                    plan.factorization,
                    ranks=_ranks_of(plan.ranks, name),
                    relative_error=plan.relative_error,
                    bias=layer.bias,
                    tasks=copy.tasks,
                )
    return copy


def _ranks_of(ranks: Any, name: str) -> Any:
    """The ranks of a layer, where they are given for each by its name."""
    return ranks.get(name) if isinstance(ranks, dict) else ranks
