"""A two-dimensional convolution with its own weights for every task."""

from collections.abc import Sequence
from math import prod, sqrt
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multirel._annotations import Float, Int
from multirel.networks._rows_by_task import RowsByTask, as_rows_by_task
from multirel.networks._task_linear import check_floating_type, draw_stack
from multirel.networks._task_names import check_size, name_tasks

__all__ = ["TaskConv2d"]

Pair = int | tuple[int, int]

N_AXES = 4
"""Rows, channels, height and width."""


class TaskConv2d(nn.Module):
    """A two-dimensional convolution per task, as one stack of weights.

    A batch may hold images of any tasks in any order. The images of each task go through one
    convolution, so no weights are copied per image: beside its result, a call takes at most twice the
    memory of inputs and outputs together.

    Attributes:
        weight: The stack, "T O I H W", with I = `in_channels` / `groups`.
        bias: One bias per task and output channel, "T O", or None.
        tasks: The names of the tasks.
        stack_modes: The names of the modes of `weight`, by which a prior knows that it is a stack.

    Args:
        tasks: The number of tasks, or their names.
        in_channels: Channels of the images.
        out_channels: Channels of the result.
        kernel_size: Height and width of the kernel.
        stride: Steps of the kernel, as for `torch.nn.Conv2d`; so are the next three.
        padding: Zeros around the image, or "same" or "valid".
        dilation: Steps between the entries of the kernel.
        groups: Groups of channels that do not mix.
        bias: Whether there is a bias.
        equal_start: Whether all tasks start with the same random weights.
        device: Where the weights are.
        dtype: Floating type of the weights.

    Raises:
        TypeError: If `tasks` is neither a number nor names, or a size is no whole number.
        ValueError: If there is no task, two tasks have one name, a size is below 1, or `groups` does
            not divide the channels.

    Example:
        >>> layer = TaskConv2d(3, 4, 8, kernel_size=3, padding=1)
        >>> layer.weight.shape
        torch.Size([3, 8, 4, 3, 3])
        >>> layer(torch.randn(5, 4, 10, 10), torch.tensor([0, 2, 2, 0, 1])).shape
        torch.Size([5, 8, 10, 10])
    """

    stack_modes: ClassVar[tuple[str, ...]] = ("task", "output", "input", "height", "width")

    def __init__(
        self,
        tasks: int | Sequence[str],
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair | str = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        equal_start: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        kernel = _kernel_sides(kernel_size)
        _check_channels(in_channels, out_channels, groups=groups)
        self.tasks = name_tasks(tasks)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = kernel
        self.stride, self.padding = stride, padding
        self.dilation, self.groups = dilation, groups
        self.equal_start = equal_start
        shape = (len(self.tasks), out_channels, in_channels // groups, *kernel)
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
        """Draw new weights, for each task as `torch.nn.Conv2d` does: uniform within ±1/√(I·H·W)."""
        bound = 1 / sqrt(prod(self.weight.shape[2:]))
        for parameter in self.parameters(recurse=False):
            draw_stack(parameter, bound, is_equal=self.equal_start)

    def forward(
        self,
        x: Float[Tensor, "n channels in_height in_width"],
        task: Int[Tensor, "n"] | int | RowsByTask,
    ) -> Float[Tensor, "n O out_height out_width"]:
        """Every image of `x` convolved with the kernels of its task.

        Args:
            x: Images.
            task: The index of each image's task; the index of one task for all images; or what
                `group_rows` makes of the former, which spares several layers doing it again.

        Raises:
            TypeError: If `task` is no tensor of whole numbers, or `x` has another floating type.
            ValueError: If `x` has another number of channels, or `task` another number of rows or an
                index of no task.
        """
        self._check_images(x)
        if torch.compiler.is_compiling():
            # How many images each task has decides what is computed, so a graph cannot hold it.
            convolve = torch.compiler.disable(self._convolve_groups)
        else:
            convolve = self._convolve_groups
        y: Tensor = convolve(x, task)
        return y

    def _convolve_groups(self, x: Tensor, task: Tensor | int | RowsByTask) -> Tensor:
        rows = as_rows_by_task(task, n_rows=len(x), n_tasks=self.n_tasks, device=x.device)
        # The gradient of `unbind` is one stack, that of indexing is one stack per index.
        weights = self.weight.unbind(0)
        biases = [None] * self.n_tasks if self.bias is None else self.bias.unbind(0)
        if not rows.n_rows:
            return self._convolve(x, weights[0], biases[0])
        return rows.join(
            self._convolve(images, weights[index], biases[index])
            for index, images in zip(rows.tasks.tolist(), rows.split(x), strict=True)
        )

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.conv2d(
            x, weight, bias, self.stride, self.padding, dilation=self.dilation, groups=self.groups
        )

    def _check_images(self, x: Tensor) -> None:
        if x.ndim != N_AXES or x.shape[1] != self.in_channels:
            raise ValueError(
                f"`x` must have images of {self.in_channels} channels: expected shape "
                f"(n, {self.in_channels}, height, width), got {tuple(x.shape)}."
            )
        check_floating_type(x, self.weight)

    def extra_repr(self) -> str:
        """The sizes, as `repr` shows them."""
        return (
            f"n_tasks={self.n_tasks}, in_channels={self.in_channels}, "
            f"out_channels={self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"groups={self.groups}, bias={self.bias is not None}"
        )


def _kernel_sides(kernel_size: Pair) -> tuple[int, int]:
    """The height and the width of a kernel."""
    sides = tuple(kernel_size) if isinstance(kernel_size, Sequence) else (kernel_size,) * 2
    if len(sides) != 2:  # noqa: PLR2004
        raise ValueError(
            f"`kernel_size` must be one size or two, height and width: got {len(sides)}."
        )
    for side in sides:
        check_size("kernel_size", side)
    return sides


def _check_channels(in_channels: int, out_channels: int, *, groups: int) -> None:
    check_size("in_channels", in_channels)
    check_size("out_channels", out_channels)
    check_size("groups", groups)
    if in_channels % groups or out_channels % groups:
        raise ValueError(
            f"`groups` must divide the channels: got {groups} groups for {in_channels} and "
            f"{out_channels} channels."
        )
