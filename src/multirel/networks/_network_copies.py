"""Many small networks as one: the heads of every copy are multiplied together."""

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multirel._annotations import Float, Int
from multirel.networks._multitask_network import MultitaskNetwork
from multirel.networks._rows_by_task import RowsByTask, group_rows
from multirel.networks._task_linear import TaskLinear
from multirel.networks._task_linear_copies import TaskLinearCopies

__all__ = ["NetworkCopies"]

HARD_SHARING = "all"
"""Name of the only task of a layer that all tasks share."""


class NetworkCopies(nn.Module):
    """Copies of a `MultitaskNetwork` over features, which train side by side and never meet.

    A layer that all tasks share becomes a stack with a single task. A prior is attached to "heads.fc7" and
    "heads.fc8" as for one network, and learns the covariances of each copy.

    Attributes:
        shared: Hidden layers that the tasks of a copy share, by name.
        heads: Task-specific layers, by name.
        tasks: The names of the tasks.
        n_copies: How many copies there are.

    Args:
        networks: Networks of one architecture, with features as inputs: each is the start of a copy.

    Raises:
        ValueError: If the networks differ in more than their weights, or have backbones, factorized
            layers, or tasks with different numbers of outputs.

    Example:
        >>> starts = [MultitaskNetwork(20, 3, n_outputs=4, hidden_sizes=(8,)) for _ in range(5)]
        >>> copies = NetworkCopies(starts)
        >>> x, copy, task = torch.randn(2, 20), torch.tensor([0, 4]), torch.tensor([1, 1])
        >>> y = copies(x, task, copy=copy)
        >>> torch.allclose(y[1], starts[4](x, task)[1], atol=1e-6)
        True
    """

    def __init__(self, networks: Sequence[MultitaskNetwork]) -> None:
        super().__init__()
        _check_alike(networks)
        first = networks[0]
        self.n_copies = len(networks)
        self.tasks = first.tasks
        self.n_features = first.n_features
        self.n_outputs = first.n_outputs
        self.dropout = nn.Dropout(first.dropout.p)
        self.shared = nn.ModuleDict(
            {
                name: TaskLinearCopies([_as_stack(network.shared[name]) for network in networks])
                for name in first.shared
            }
        )
        self.heads = nn.ModuleDict(
            {
                name: TaskLinearCopies([_stack(network.heads[name]) for network in networks])
                for name in first.heads
            }
        )

    @property
    def n_tasks(self) -> int:
        """The number of tasks T of every copy."""
        return len(self.tasks)

    def forward(
        self, x: Float[Tensor, "n F"], task: Int[Tensor, "n"], *, copy: Int[Tensor, "n"]
    ) -> Float[Tensor, "n outputs"]:
        """The outputs for every row of `x`, by the head of its copy and task.

        Args:
            x: Features.
            task: The index of each row's task.
            copy: The index of each row's copy.

        Raises:
            TypeError: If `task` or `copy` holds no whole numbers, or `x` has another floating type.
            ValueError: If they have no row each for every row of `x`, or name no task or copy.
        """
        _check_index(task, len(x), name="task", kind="tasks", size=self.n_tasks)
        _check_index(copy, len(x), name="copy", kind="copies", size=self.n_copies)
        rows = group_rows(copy * self.n_tasks + task, self.n_copies * self.n_tasks).to(x.device)
        if self.shared:
            by_copy = group_rows(copy, self.n_copies).to(x.device)
            x = self._hidden(x, list(self.shared.values()), by_copy)
        *hidden, output = self.heads.values()
        y: Tensor = output(self._hidden(x, hidden, rows), rows)
        return y

    def _hidden(self, x: Tensor, layers: Sequence[nn.Module], rows: RowsByTask) -> Tensor:
        for layer in layers:
            x = self.dropout(F.relu(layer(x, rows)))
        return x

    @torch.no_grad()
    def write_to(self, networks: Sequence[MultitaskNetwork]) -> None:
        """Put the weights of every copy into one of `networks`.

        Args:
            networks: As many networks as there are copies, of the same architecture.

        Raises:
            ValueError: If there are more or fewer networks, or they have other layers.
        """
        if len(networks) != self.n_copies:
            raise ValueError(
                f"`networks` must be one per copy: expected {self.n_copies}, got {len(networks)}."
            )
        _check_alike(networks)
        for name, copies in self.heads.items():
            layers = [_stack(network.heads[name]) for network in networks]
            cast(TaskLinearCopies, copies).write_to(layers)
        for name, copies in self.shared.items():
            linears = [cast(nn.Linear, network.shared[name]) for network in networks]
            stacks = [_as_stack(linear) for linear in linears]
            cast(TaskLinearCopies, copies).write_to(stacks)
            for linear, stack in zip(linears, stacks, strict=True):
                linear.load_state_dict(stack.to_linears()[0].state_dict())


def _check_index(index: Tensor, n_rows: int, *, name: str, kind: str, size: int) -> None:
    """Raise unless every row has an index: the task after the last is the first of the next copy."""
    if tuple(index.shape) != (n_rows,):
        raise ValueError(
            f"`{name}` must have one entry per row: expected shape ({n_rows},), got {tuple(index.shape)}."
        )
    outside = (index < 0) | (index >= size)
    if bool(outside.any()):
        row = int(outside.nonzero()[0])
        raise ValueError(
            f"`{name}` must hold indices of the {size} {kind}: expected 0 to {size - 1}, got "
            f"{int(index[row])} in row {row}."
        )


def _as_stack(linear: nn.Module) -> TaskLinear:
    if not isinstance(linear, nn.Linear):
        raise ValueError(
            f"`networks` must have linear hidden layers: got a {type(linear).__name__}."
        )
    return TaskLinear.from_linears([linear], tasks=[HARD_SHARING])


def _stack(layer: nn.Module) -> TaskLinear:
    if not isinstance(layer, TaskLinear):
        raise ValueError(
            f"`networks` must have heads that are plain stacks: got a {type(layer).__name__}. Train "
            f"networks with factorized heads, or with different outputs per task, one by one."
        )
    return layer


def _check_alike(networks: Any) -> None:
    """Raise unless the networks take features and differ in nothing but their weights."""
    if not isinstance(networks, Sequence) or not all(
        isinstance(network, MultitaskNetwork) for network in networks
    ):
        raise TypeError(
            "`networks` must be a sequence of MultitaskNetwork: got something else. Write a list of them."
        )
    if not networks:
        raise ValueError("`networks` must have at least one network: got none.")
    forms = {
        (
            network.tasks,
            network.n_outputs,
            network.dropout.p,
            tuple((name, tuple(value.shape)) for name, value in network.named_parameters()),
        )
        for network in networks
    }
    if len(forms) > 1:
        raise ValueError(
            f"`networks` must be of one architecture: got {len(forms)} kinds of tasks, layers or "
            f"dropout. Train each kind together."
        )
    if not isinstance(networks[0].backbone, nn.Identity):
        raise ValueError(
            f"`networks` must take features: expected no backbone, got a "
            f"{type(networks[0].backbone).__name__}. Evaluate it once and keep its features."
        )
