"""Networks for all tasks from networks of those that have labels."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from multirel.estimators._network_build import build_layers, task_layers
from multirel.estimators._network_plan import DEFAULT_START, NetworkPlan
from multirel.estimators._network_pooled import PooledNetwork
from multirel.estimators._network_separate import SeparateNetworks
from multirel.networks import FactorizedTaskLinear, MultitaskNetwork, TaskLinear
from multirel.networks._separate_outputs import SeparateOutputs
from multirel.priors._settings import PriorSettings
from multirel.priors._start import is_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AllTasks", "plan_of_tasks", "with_all_tasks"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AllTasks:
    """The tasks of an estimator, with or without labels."""

    names: tuple[str, ...]
    """Their names."""

    n_outputs: tuple[int, ...]
    """Outputs of every task."""

    kinds: tuple[str, ...]
    """What is predicted in every task."""

    labelled: "NDArray[np.int64]"
    """The numbers of those with labels."""

    @property
    def unlabelled(self) -> "NDArray[np.int64]":
        """The numbers of those without labels."""
        return np.setdiff1d(np.arange(len(self.names)), self.labelled)

    def pick(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The values of those with labels."""
        return tuple(values[number] for number in self.labelled.tolist())


def plan_of_tasks(plan: NetworkPlan, tasks: AllTasks) -> NetworkPlan:
    """The plan for the tasks with labels: a start given as a matrix loses the rows of the others."""
    start = (plan.prior or {}).get("start", DEFAULT_START)
    if plan.prior is None or not is_matrix(start) or len(tasks.unlabelled) == 0:
        return plan
    matrix = np.asarray(start)[np.ix_(tasks.labelled, tasks.labelled)]
    values = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return NetworkPlan(**{**values, "prior": {**plan.prior, "start": matrix}})


def with_all_tasks(
    network: nn.Module,
    tasks: AllTasks,
    *,
    plan: NetworkPlan,
    layers: Sequence[str],
    initial: nn.Module,
) -> MultitaskNetwork | SeparateNetworks:
    """The network with every task of the estimator, those without labels where the prior expects them.

    Weights that have a prior are its conditional mean given the weights of the other tasks, at the start
    correlation; all other weights, and biases, are the average of those of tasks of the same kind.

    Args:
        network: The trained network of the tasks with labels.
        tasks: All tasks.
        plan: The method, for all tasks.
        layers: Names of the layers that the method's prior is on.
        initial: The network before training.
    """
    if isinstance(network, PooledNetwork):
        network = network.to_multitask().eval()
    if not isinstance(network, MultitaskNetwork | SeparateNetworks):
        raise TypeError(f"`network` must be one of tasks: got {type(network).__name__}.")
    if len(tasks.unlabelled) == 0:
        return network
    mine, before = task_layers(network), task_layers(initial)
    if mine is None:
        raise TypeError(f"`network` must have heads: got {type(network).__name__}.")
    full = _with_heads(mine, tasks)
    conditional = _conditional_weights(plan, tasks)
    with torch.no_grad():
        for name, layer in full.heads.items():
            starts = _slices(before.heads[name]) if before is not None else []
            has_prior = name in layers and bool(starts)
            _fill(
                _slices(layer),
                _slices(mine.heads[name]),
                tasks=tasks,
                conditional=conditional if has_prior else None,
                mean=starts[0][0] if _pulls_to_start(plan) and has_prior else None,
            )
    if isinstance(network, SeparateNetworks):
        return _with_backbones(network, full, tasks=tasks, initial=initial)
    full.backbone = network.backbone
    return full


def _pulls_to_start(plan: NetworkPlan) -> bool:
    return (plan.prior or {}).get("mean", "zero") == "initial"


def _with_heads(network: MultitaskNetwork, tasks: AllTasks) -> MultitaskNetwork:
    """A network of all tasks, whose factorized heads are done and whose others are still to be filled."""
    hidden: list[Any] = [*network.shared.values(), *[*network.heads.values()][:-1]]
    full = build_layers(
        None,
        n_features=network.n_features,
        tasks=tasks.names,
        n_outputs=tasks.n_outputs,
        hidden_sizes=[int(layer.out_features) for layer in hidden],
        n_shared=len(network.shared),
    ).to(next(network.parameters()).device)
    full.shared = network.shared
    for name, layer in network.heads.items():
        if isinstance(layer, FactorizedTaskLinear):
            full.heads[name] = _with_task_factors(layer, tasks)
    return full.eval()


def _with_task_factors(layer: FactorizedTaskLinear, tasks: AllTasks) -> FactorizedTaskLinear:
    """Factors with rows for all tasks; the weights and biases of others are the average."""
    copy = deepcopy(layer)
    copy.tasks = tasks.names
    copy.factors["task"] = nn.Parameter(_with_averages(layer.factors["task"].detach(), tasks))
    if layer.bias is not None:
        copy.bias = nn.Parameter(_with_averages(layer.bias.detach(), tasks))
    return copy


def _with_averages(rows: Tensor, tasks: AllTasks) -> Tensor:
    full = rows.mean(0, keepdim=True).repeat(len(tasks.names), 1)
    full[torch.from_numpy(tasks.labelled).to(rows.device)] = rows
    return full


def _slices(layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """The weights and the biases of every task, in place; nothing for factors, which have none."""
    if isinstance(layer, TaskLinear) and layer.bias is not None:
        return list(zip(layer.weight, layer.bias, strict=True))
    if isinstance(layer, SeparateOutputs):
        linears: list[Any] = [*layer.layers]
        return [(linear.weight, linear.bias) for linear in linears]
    return []


def _fill(
    full: list[tuple[Tensor, Tensor]],
    known: list[tuple[Tensor, Tensor]],
    *,
    tasks: AllTasks,
    conditional: Tensor | None,
    mean: Tensor | None,
) -> None:
    """Put the weights of all tasks into a layer."""
    labelled = tasks.labelled.tolist()
    for number, (weight, bias) in zip(labelled, known, strict=False):
        full[number][0].copy_(weight)
        full[number][1].copy_(bias)
    for row, number in enumerate(tasks.unlabelled.tolist() if full else []):
        weight, bias = full[number]
        alike = [
            position
            for position, other in enumerate(labelled)
            if tasks.kinds[other] == tasks.kinds[number] and known[position][1].shape == bias.shape
        ]
        weight.zero_()
        bias.zero_()
        for position in alike:
            bias.add_(known[position][1] / len(alike))
            if conditional is None:
                weight.add_(known[position][0] / len(alike))
        if conditional is not None:
            center = torch.zeros_like(weight) if mean is None else mean.to(weight)
            weight.add_(center)
            for position, (other, _) in enumerate(known):
                weight.add_(float(conditional[row, position]) * (other - center))


def _conditional_weights(plan: NetworkPlan, tasks: AllTasks) -> Tensor:
    """What the weights of each task with labels count in those of each without, −P_uu⁻¹ P_ul."""
    n_tasks = len(tasks.names)
    covariance = _start_correlation(plan, n_tasks)
    centering = np.eye(n_tasks)
    average = 0.0
    if (plan.prior or {}).get("mean") == "task-average":
        centering -= 1 / n_tasks
        average = float((plan.prior or {}).get("mean_strength", 0.0)) / n_tasks
    precision = centering @ np.linalg.solve(covariance, centering) + average
    within = precision[np.ix_(tasks.unlabelled, tasks.unlabelled)]
    between = precision[np.ix_(tasks.unlabelled, tasks.labelled)]
    return torch.from_numpy(-np.linalg.solve(within, between))


def _start_correlation(plan: NetworkPlan, n_tasks: int) -> "NDArray[np.float64]":
    known = {field.name for field in fields(PriorSettings)} - {"n_samples", "strength"}
    given = {name: value for name, value in (plan.prior or {}).items() if name in known}
    settings = PriorSettings(n_samples=1.0, **given)
    if settings.shrinkage_of("task") == 1:
        return np.eye(n_tasks)
    if is_matrix(settings.start):
        matrix = np.asarray(settings.start, dtype=np.float64)
        scale = np.sqrt(np.diag(matrix))
        return matrix / scale / scale[:, None]
    start = float(settings.start)  # type: ignore[arg-type]
    return (1 - start) * np.eye(n_tasks) + start


def _with_backbones(
    network: SeparateNetworks, full: MultitaskNetwork, *, tasks: AllTasks, initial: nn.Module
) -> SeparateNetworks:
    """A backbone for every task; those without labels keep the one that all have started from."""
    if not isinstance(initial, SeparateNetworks):
        raise TypeError(f"`initial` must be like the network: got {type(initial).__name__}.")
    result = SeparateNetworks(initial.backbone[0], full)
    for number, backbone in zip(tasks.labelled.tolist(), network.backbone, strict=True):
        result.backbone[number] = backbone
    return result.to(next(network.parameters()).device).eval()
