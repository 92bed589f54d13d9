"""Independent copies of a linear layer per task, side by side."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from multirel._annotations import Float
from multirel.networks._grouped_linear import grouped_linear
from multirel.networks._rows_by_task import RowsByTask
from multirel.networks._task_linear import TaskLinear, check_features

__all__ = ["TaskLinearCopies"]


class TaskLinearCopies(nn.Module):
    """Copies of a `TaskLinear` that know nothing of one another, multiplied together.

    The copies of a task count as tasks of their own: copy b of task t is number b T + t.

    Attributes:
        weight: The stacks of all copies, "B T O I".
        bias: Their biases, "B T O", or None.
        tasks: The names of the tasks.
        stack_modes: The names of the axes of `weight`; a prior learns covariances of every copy.

    Args:
        layers: The layers that are copied together, all of one shape and with the same tasks.

    Raises:
        ValueError: If the layers differ in shape or tasks, or only some have a bias.

    Example:
        >>> copies = TaskLinearCopies([TaskLinear(["amazon", "dslr"], 4, 3) for _ in range(5)])
        >>> copies.weight.shape
        torch.Size([5, 2, 3, 4])
    """

    stack_modes: ClassVar[tuple[str, ...]] = ("copy", "task", "output", "input")

    def __init__(self, layers: Sequence[TaskLinear]) -> None:
        super().__init__()
        forms = {(*layer.weight.shape, layer.bias is not None, *layer.tasks) for layer in layers}
        if len(forms) != 1:
            raise ValueError(
                f"`layers` must be alike: expected one shape, one set of tasks, and all with a bias or "
                f"all without, got {len(forms)} kinds."
            )
        self.tasks = layers[0].tasks
        self.weight = nn.Parameter(torch.stack([layer.weight.detach() for layer in layers]))
        self.bias: nn.Parameter | None
        if layers[0].bias is None:
            self.register_parameter("bias", None)
        else:
            self.bias = nn.Parameter(torch.stack([_bias_of(layer) for layer in layers]))

    @property
    def n_copies(self) -> int:
        """The number of copies B."""
        return len(self.weight)

    def forward(self, x: Float[Tensor, "n I"], rows: RowsByTask) -> Float[Tensor, "n O"]:
        """Every row of `x` multiplied by the weights of its copy and task.

        Args:
            x: Inputs.
            rows: The rows grouped by the number b T + t.
        """
        check_features(x, self.weight)
        bias = None if self.bias is None else self.bias.flatten(0, 1)
        return grouped_linear(x, self.weight.flatten(0, 1), bias, rows=rows)

    @torch.no_grad()
    def write_to(self, layers: Sequence[TaskLinear]) -> None:
        """Put the weights of every copy into one of `layers`."""
        for index, layer in enumerate(layers):
            layer.weight.copy_(self.weight[index])
            if layer.bias is not None and self.bias is not None:
                layer.bias.copy_(self.bias[index])


def _bias_of(layer: TaskLinear) -> Tensor:
    if layer.bias is None:
        raise ValueError("`layers` must all have a bias or none: got both.")
    return layer.bias.detach()
