"""A linear layer with its own weights for every task."""

from collections.abc import Sequence
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor, nn

from multirel._annotations import Float, Int
from multirel.networks._grouped_linear import grouped_linear
from multirel.networks._rows_by_task import RowsByTask, as_rows_by_task
from multirel.networks._task_names import check_size, name_tasks

__all__ = [
    "TaskLinear",
    "check_features",
    "check_floating_type",
    "draw_stack",
    "multiply_by_task",
]


class TaskLinear(nn.Module):
    """A linear layer per task, as one stack of weights: y = W_t x + b_t for a row of task t.

    A batch may hold rows of any tasks in any order. Rows are multiplied in groups, so no weights are
    copied per row: beside its result, a call takes less than twice the memory of inputs and outputs
    together, and its time per row does not grow with the number of tasks.

    Attributes:
        weight: The stack, "T O I".
        bias: One bias per task and output, "T O", or None.
        tasks: The names of the tasks.
        stack_modes: The names of the modes of `weight`, by which a prior knows that it is a stack.

    Args:
        tasks: The number of tasks, or their names.
        in_features: Inputs I of every task.
        out_features: Outputs O of every task.
        bias: Whether there is a bias.
        equal_start: Whether all tasks start with the same random weights.
        device: Where the weights are.
        dtype: Floating type of the weights.

    Raises:
        TypeError: If `tasks` is neither a number nor names, or a size is no whole number.
        ValueError: If there is no task, two tasks have one name, or a size is below 1.

    Example:
        >>> layer = TaskLinear(["amazon", "dslr", "webcam"], 4, 2)
        >>> x, task = torch.randn(5, 4), torch.tensor([0, 2, 2, 0, 1])
        >>> y = layer(x, task)
        >>> y.shape
        torch.Size([5, 2])
        >>> torch.allclose(y[1], layer.weight[2] @ x[1] + layer.bias[2])
        True
    """

    stack_modes: ClassVar[tuple[str, ...]] = ("task", "output", "input")

    def __init__(
        self,
        tasks: int | Sequence[str],
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        equal_start: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size("in_features", in_features)
        check_size("out_features", out_features)
        self.tasks = name_tasks(tasks)
        self.in_features = in_features
        self.out_features = out_features
        self.equal_start = equal_start
        shape = (len(self.tasks), out_features, in_features)
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.bias: nn.Parameter | None
        if bias:
            self.bias = nn.Parameter(torch.empty(shape[:2], device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    @property
    def n_tasks(self) -> int:
        """The number of tasks T."""
        return len(self.tasks)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new weights, for each task as `torch.nn.Linear` does: uniform within ±1/√I."""
        bound = 1 / sqrt(self.in_features)
        for parameter in self.parameters(recurse=False):
            draw_stack(parameter, bound, is_equal=self.equal_start)

    def forward(
        self, x: Float[Tensor, "n *rest I"], task: Int[Tensor, "n"] | int | RowsByTask
    ) -> Float[Tensor, "n *rest O"]:
        """Every row of `x` multiplied by the weights of its task.

        Args:
            x: Inputs; axes between the rows and the features are kept.
            task: The index of each row's task; the index of one task for all rows; or what
                `group_rows` makes of the former, which spares several layers doing it again.

        Raises:
            TypeError: If `task` is no tensor of whole numbers, or `x` has another floating type.
            ValueError: If `x` has another number of features, or `task` another number of rows or an
                index of no task.
        """
        return multiply_by_task(x, task, weight=self.weight, bias=self.bias)

    @classmethod
    def from_linears(
        cls, linears: Sequence[nn.Linear], *, tasks: Sequence[str] | None = None
    ) -> "TaskLinear":
        """The stack of one linear layer per task, with copies of their weights.

        Args:
            linears: The layers, all of one shape.
            tasks: The names of the tasks; None names them by number.

        Raises:
            ValueError: If there are no layers, their shapes differ, or only some have a bias.
        """
        forms = {(*linear.weight.shape, linear.bias is not None) for linear in linears}
        if len(forms) != 1:
            raise ValueError(
                "`linears` must be layers of one shape, all with a bias or all without: "
                f"got {sorted(forms)} (outputs, inputs, bias)."
            )
        names = name_tasks(len(linears) if tasks is None else tasks)
        if len(names) != len(linears):
            raise ValueError(
                f"`tasks` must name every layer: expected {len(linears)} names, got {len(names)}."
            )
        ((n_outputs, n_inputs, has_bias),) = forms
        like = linears[0].weight
        stack = cls(names, n_inputs, n_outputs, has_bias, device=like.device, dtype=like.dtype)
        with torch.no_grad():
            stack.weight.copy_(torch.stack([linear.weight for linear in linears]))
            if stack.bias is not None:
                stack.bias.copy_(torch.stack([linear.bias for linear in linears]))
        return stack

    def to_linears(self) -> list[nn.Linear]:
        """One linear layer per task, with copies of the weights."""
        linears = []
        for index, weight in enumerate(self.weight.detach()):
            linear = nn.Linear(
                self.in_features,
                self.out_features,
                bias=self.bias is not None,
                device=weight.device,
                dtype=weight.dtype,
            )
            with torch.no_grad():
                linear.weight.copy_(weight)
                if self.bias is not None:
                    linear.bias.copy_(self.bias[index])
            linears.append(linear)
        return linears

    def extra_repr(self) -> str:
        """The sizes, as `repr` shows them."""
        return (
            f"n_tasks={self.n_tasks}, in_features={self.in_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


def draw_stack(stack: Tensor, bound: float, *, is_equal: bool) -> None:
    """Fill a stack with random numbers within ±`bound`, equal for all tasks or not."""
    stack.uniform_(-bound, bound)
    if is_equal:
        stack.copy_(stack[:1].clone().expand_as(stack))


def multiply_by_task(
    x: Tensor, task: Tensor | int | RowsByTask, *, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """The rows of `x` times the matrices of their tasks, "T O I", once everything fits together."""
    check_features(x, weight)
    if torch.compiler.is_compiling():
        # How many rows each task has decides what is computed, so a graph cannot hold it.
        multiply = torch.compiler.disable(_multiply_now)
    else:
        multiply = _multiply_now
    y: Tensor = multiply(x, task, weight=weight, bias=bias)
    return y


def _multiply_now(
    x: Tensor, task: Tensor | int | RowsByTask, *, weight: Tensor, bias: Tensor | None
) -> Tensor:
    rows = as_rows_by_task(task, n_rows=len(x), n_tasks=len(weight), device=x.device)
    return grouped_linear(x, weight, bias, rows=rows)


def check_features(x: Tensor, weight: Tensor) -> None:
    """Raise unless `x` has rows of as many features as `weight` takes, and its floating type."""
    n_features = weight.shape[-1]
    if x.ndim < 2 or x.shape[-1] != n_features:  # noqa: PLR2004
        raise ValueError(
            f"`x` must have rows of {n_features} features: expected shape (n, …, {n_features}), "
            f"got {tuple(x.shape)}."
        )
    check_floating_type(x, weight)


def check_floating_type(x: Tensor, weight: Tensor) -> None:
    """Raise unless `x` has the floating type of `weight`, or autocast gives both the same."""
    is_cast = (
        torch.is_autocast_enabled(x.device.type)
        and x.is_floating_point()
        and torch.float64 not in (x.dtype, weight.dtype)
    )
    if x.dtype != weight.dtype and not is_cast:
        raise TypeError(
            f"`x` must have the floating type of the weights: expected {weight.dtype}, got {x.dtype}. "
            f"Convert one of them, or use `torch.autocast`."
        )
