"""A backbone that all tasks share, and a head of its own for every task."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multirel._annotations import Float, Int
from multirel.networks._factorization import Factorization, Ranks, check_factorization
from multirel.networks._factorized_task_linear import FactorizedTaskLinear
from multirel.networks._rows_by_task import RowsByTask, as_rows_by_task
from multirel.networks._separate_outputs import SeparateOutputs
from multirel.networks._task_linear import TaskLinear
from multirel.networks._task_names import check_size, name_tasks

__all__ = ["MultitaskNetwork"]

OUTPUT_NUMBER = 8
"""The output layer is "fc8", as in AlexNet; hidden layers count down from there."""


class MultitaskNetwork(nn.Module):
    """A backbone followed by fully connected layers, of which all or the last are one per task.

    The output layer is named "fc8" and the hidden ones in front of it "fc7", "fc6", …. Hidden layers
    that all tasks share are in `shared`, task-specific ones in `heads` as native stacks, so that
    "heads.fc7" and "heads.fc8" are what a prior is attached to. The copies of a hidden layer start
    equal, those of the output layer do not. Every hidden layer is followed by a ReLU and by dropout.

    Attributes:
        backbone: The backbone; an identity where there is none.
        shared: Hidden layers that all tasks share, by name.
        heads: Task-specific layers, by name.
        tasks: The names of the tasks.
        n_features: Features that the backbone gives.
        n_outputs: Outputs of every task.

    Args:
        backbone: A module that gives features (n, F); or F itself, or None with `n_features`, where
            the rows are features already.
        tasks: The number of tasks, or their names.
        n_outputs: Outputs of every task, or one number per task.
        hidden_sizes: Sizes of the hidden layers.
        shared_layers: How many hidden layers, from the first, all tasks share. All of them is hard
            sharing.
        dropout: Probability that an output of a hidden layer is left out in training.
        n_features: F, where the backbone has no attribute `n_features`.
        factorization: Makes the task-specific layers `FactorizedTaskLinear` of this form. Where
            the tasks have different numbers of outputs, the output layer stays as it is.
        ranks: Ranks of the factorization for every layer, or for each by name.

    Raises:
        TypeError: If `backbone` or `tasks` is of another type, or a size is no whole number.
        ValueError: If an argument does not fit the others; the message says which.

    Example:
        >>> network = MultitaskNetwork(20, ["a", "b", "c"], n_outputs=4, hidden_sizes=(8,))
        >>> network(torch.randn(5, 20), torch.tensor([0, 2, 2, 0, 1])).shape
        torch.Size([5, 4])
        >>> {name: tuple(stack.weight.shape) for name, stack in network.heads.items()}
        {'fc7': (3, 8, 20), 'fc8': (3, 4, 8)}
    """

    def __init__(
        self,
        backbone: nn.Module | int | None,
        tasks: int | Sequence[str],
        *,
        n_outputs: int | Sequence[int],
        hidden_sizes: Sequence[int] = (),
        shared_layers: int = 0,
        dropout: float = 0.0,
        n_features: int | None = None,
        factorization: Factorization | None = None,
        ranks: Ranks | Mapping[str, Ranks] = None,
    ) -> None:
        super().__init__()
        self.tasks = name_tasks(tasks)
        self.n_features = _find_n_features(backbone, n_features)
        self.n_outputs = _outputs_per_task(n_outputs, len(self.tasks))
        _check_hidden(hidden_sizes, shared_layers, dropout=dropout)
        self.backbone = backbone if isinstance(backbone, nn.Module) else nn.Identity()
        self.shared = nn.ModuleDict()
        self.heads = nn.ModuleDict()
        self.dropout = nn.Dropout(dropout)
        size = self.n_features
        for index, width in enumerate(hidden_sizes):
            name = f"fc{OUTPUT_NUMBER - len(hidden_sizes) + index}"
            if index < shared_layers:
                self.shared[name] = nn.Linear(size, width)
            else:
                self.heads[name] = TaskLinear(self.tasks, size, width, equal_start=True)
            size = width
        name = f"fc{OUTPUT_NUMBER}"
        if len(set(self.n_outputs)) == 1:
            self.heads[name] = TaskLinear(self.tasks, size, self.n_outputs[0])
        else:
            self.heads[name] = SeparateOutputs(size, self.n_outputs)
        if factorization is not None:
            self._factorize_at_random(factorization, ranks)
        elif ranks is not None:
            raise ValueError("`ranks` must come with `factorization`: got no factorization.")

    @property
    def n_tasks(self) -> int:
        """The number of tasks T."""
        return len(self.tasks)

    def task_index(self, names: Sequence[str]) -> Int[Tensor, "n"]:
        """The index of each named task, as `forward` takes them.

        Args:
            names: The name of each row's task.

        Raises:
            ValueError: If there is no task of some name.

        Example:
            >>> MultitaskNetwork(20, ["a", "b"], n_outputs=2).task_index(["b", "a", "b"])
            tensor([1, 0, 1])
        """
        if isinstance(names, str):
            raise TypeError(
                f"`task` must hold a name per row: got {names!r} alone. Give its index for all rows, "
                f"or a list of names."
            )
        positions = {name: index for index, name in enumerate(self.tasks)}
        unknown = sorted({str(name) for name in names} - positions.keys())
        if unknown:
            raise ValueError(
                f"`names` must be names of tasks: expected some of {', '.join(self.tasks)}, "
                f"got {', '.join(unknown)}."
            )
        return torch.tensor([positions[str(name)] for name in names], dtype=torch.int64)

    def forward(
        self, x: Tensor, task: Int[Tensor, "n"] | int | RowsByTask | Sequence[str]
    ) -> Float[Tensor, "n outputs"]:
        """The outputs for every row of `x`, by the head of its task.

        Where the tasks have different numbers of outputs, there are as many columns as the largest has,
        and columns that a task does not have are −∞: softmax, argmax and cross-entropy pass over
        them. A single output is a column too.

        Args:
            x: What the backbone takes.
            task: The index of each row's task, or its name; the index of one task for all rows; or
                what `group_rows` makes of indices.

        Raises:
            TypeError: If `task` is none of these, or `x` has another floating type.
            ValueError: If the backbone gives another number of features, or `task` has another number
                of rows or an index or name of no task.
        """
        return self.forward_features(self.backbone(x), task)

    def forward_features(
        self,
        features: Float[Tensor, "n F"],
        task: Int[Tensor, "n"] | int | RowsByTask | Sequence[str],
    ) -> Float[Tensor, "n outputs"]:
        """The outputs for rows of features that the backbone has given before.

        Args:
            features: Features of every row.
            task: The task of each row, as for `forward`.

        Raises:
            TypeError: If `task` is none of the types of `forward`, or `features` has another floating
                type.
            ValueError: If there is another number of features, or `task` has another number of rows or
                an index or name of no task.
        """
        if not isinstance(features, Tensor):
            raise TypeError(
                f"`x` must be a tensor, and so what the backbone gives: got {type(features).__name__}. "
                f"Use `torch.as_tensor(...)`."
            )
        if features.ndim != 2 or features.shape[1] != self.n_features:  # noqa: PLR2004
            if isinstance(self.backbone, nn.Identity):
                raise ValueError(
                    f"`x` must have rows of {self.n_features} features: expected shape "
                    f"(n, {self.n_features}), got {tuple(features.shape)}."
                )
            raise ValueError(
                f"`backbone` must give {self.n_features} features per row: expected shape "
                f"(n, {self.n_features}), got {tuple(features.shape)}. Set `n_features`, or let the "
                f"backbone end with `torch.nn.Flatten()`."
            )
        if torch.compiler.is_compiling():
            group = torch.compiler.disable(self._group)
        else:
            group = self._group
        rows: RowsByTask = group(task, features)
        for layer in self.shared.values():
            features = self.dropout(F.relu(layer(features)))
        *hidden, output = self.heads.values()
        for layer in hidden:
            features = self.dropout(F.relu(layer(features, rows)))
        result: Tensor = output(features, rows)
        return result

    def factorized(
        self,
        factorization: Factorization,
        *,
        ranks: Ranks | Mapping[str, Ranks] = None,
        relative_error: float = 0.1,
    ) -> "MultitaskNetwork":
        """A copy whose task-specific stacks are factorized, starting from the weights they have.

        Args:
            factorization: "tucker", "tt" (tensor train) or "laf".
            ranks: Ranks for every layer, or for each by name; None takes small ones that keep the
                weights of a layer within `relative_error`.
            relative_error: The largest ‖W − Ŵ‖ / ‖W‖ where ranks are not given.

        Raises:
            ValueError: If there is no such factorization, nothing to factorize, or `ranks` do not fit.
        """
        copy = deepcopy(self)
        for name, stack in copy._stacks_to_factorize(factorization, ranks).items():
            copy.heads[name] = FactorizedTaskLinear.from_weights(
                stack.weight,
                factorization,
                ranks=ranks[name] if isinstance(ranks, Mapping) else ranks,
                relative_error=relative_error,
                bias=stack.bias,
                tasks=self.tasks,
            )
        return copy

    def _factorize_at_random(
        self, factorization: Factorization, ranks: Ranks | Mapping[str, Ranks]
    ) -> None:
        for name, stack in self._stacks_to_factorize(factorization, ranks).items():
            self.heads[name] = FactorizedTaskLinear(
                self.tasks,
                stack.in_features,
                stack.out_features,
                factorization=factorization,
                ranks=ranks[name] if isinstance(ranks, Mapping) else ranks,
                equal_start=stack.equal_start,
            )

    def _stacks_to_factorize(
        self, factorization: Factorization, ranks: Ranks | Mapping[str, Ranks]
    ) -> dict[str, TaskLinear]:
        """The stacks by name, once ranks by name are known to name just these."""
        check_factorization(factorization)
        stacks = {n: layer for n, layer in self.heads.items() if isinstance(layer, TaskLinear)}
        if not stacks:
            raise ValueError(
                "`factorization` must have a stack to act on: tasks with different numbers of "
                "outputs share none without a task-specific hidden layer. Use "
                "`hidden_sizes=(256,)`."
            )
        if isinstance(ranks, Mapping) and ranks.keys() != stacks.keys():
            raise ValueError(
                f"`ranks` must name every task-specific stack: expected {', '.join(stacks)}, "
                f"got {', '.join(ranks)}."
            )
        return stacks

    def _group(
        self, task: Tensor | int | RowsByTask | Sequence[str], features: Tensor
    ) -> RowsByTask:
        indices = self.task_index(task) if isinstance(task, Sequence) else task
        return as_rows_by_task(
            indices, n_rows=len(features), n_tasks=self.n_tasks, device=features.device
        )


def _find_n_features(backbone: nn.Module | int | None, n_features: int | None) -> int:
    if isinstance(backbone, nn.Module):
        found = getattr(backbone, "n_features", None)
    elif isinstance(backbone, int) or backbone is None:
        found = backbone
    else:
        raise TypeError(
            f"`backbone` must be a module, a number of features or None: got "
            f"{type(backbone).__name__}. Load named backbones with `build_backbone`."
        )
    if found is not None and n_features is not None and found != n_features:
        raise ValueError(
            f"`n_features` must be what `backbone` gives: expected {found}, got {n_features}."
        )
    found = n_features if found is None else found
    if found is None:
        raise ValueError(
            "`n_features` must be given: `backbone` has no attribute `n_features` that says how "
            "many features it gives."
        )
    check_size("n_features", found)
    return int(found)


def _outputs_per_task(n_outputs: int | Sequence[int], n_tasks: int) -> tuple[int, ...]:
    if not isinstance(n_outputs, int | Sequence):
        raise TypeError(
            f"`n_outputs` must be a whole number or one per task: got {type(n_outputs).__name__}."
        )
    sizes = (n_outputs,) * n_tasks if isinstance(n_outputs, int) else tuple(n_outputs)
    if len(sizes) != n_tasks:
        raise ValueError(
            f"`n_outputs` must be one number, or one per task: expected {n_tasks}, got {len(sizes)}."
        )
    for size in set(sizes):
        check_size("n_outputs", size)
    return sizes


def _check_hidden(hidden_sizes: Any, shared_layers: Any, *, dropout: float) -> None:
    if not isinstance(hidden_sizes, Sequence) or isinstance(hidden_sizes, str):
        raise TypeError(
            f"`hidden_sizes` must be a sequence of sizes: got {hidden_sizes!r}. Write "
            f"({hidden_sizes!r},)."
        )
    if len(hidden_sizes) >= OUTPUT_NUMBER:
        raise ValueError(
            f"`hidden_sizes` must have at most {OUTPUT_NUMBER - 1} entries, fc1 to fc7: "
            f"got {len(hidden_sizes)}. Put further layers into the backbone."
        )
    for size in hidden_sizes:
        check_size("hidden_sizes", size)
    if not isinstance(shared_layers, int) or isinstance(shared_layers, bool):
        raise TypeError(
            f"`shared_layers` must be a whole number: got {type(shared_layers).__name__}."
        )
    if not 0 <= shared_layers <= len(hidden_sizes):
        raise ValueError(
            f"`shared_layers` must be a number of hidden layers: expected 0 to {len(hidden_sizes)}, "
            f"got {shared_layers}."
        )
    if not isinstance(dropout, int | float):
        raise TypeError(f"`dropout` must be a number: got {type(dropout).__name__}.")
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be at least 0 and below 1: got {dropout}.")
    if dropout > 0 and not hidden_sizes:
        raise ValueError(
            f"`dropout` must be 0 without hidden layers: got {dropout}. Use `hidden_sizes=(256,)`, or "
            f"put dropout into the backbone."
        )
