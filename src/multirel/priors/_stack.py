"""T same-shaped weights of a network, seen as one tensor with the task mode first."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from multirel._annotations import Float

__all__ = ["KERNEL_MODES", "Stack", "merged_modes"]

KERNEL_MODES = ("depth", "height", "width")
"""Axes of a convolution's kernel, which are one mode unless one of them is asked for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stack:
    """T same-shaped weights as one tensor: a native parameter, or T parameters of a network."""

    layer: str
    """The pattern that found it."""

    tasks: tuple[str, ...]
    """Names of the tasks, in the order of the task mode."""

    parameters: tuple[nn.Parameter, ...]
    """The native parameter, which has a task mode, or one parameter per task."""

    parameter_names: tuple[str, ...]
    """Their names in the network."""

    is_native: bool
    """Whether the network itself keeps the tasks in one tensor."""

    modes: tuple[str, ...]
    """Names of the axes of `tensor()`, the task first."""

    shape: tuple[int, ...]
    """Their sizes."""

    n_copies: int | None = None
    """Number of independent copies trained side by side, along an axis in front; None is one alone."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Axes of `tensor()` in front of the modes: that of the copies, if there are any."""
        return () if self.n_copies is None else (self.n_copies,)

    @property
    def order(self) -> int:
        """Number of modes K."""
        return len(self.modes)

    @property
    def n_weights(self) -> int:
        """Number of weights D of one copy."""
        return prod(self.shape)

    def tensor(self) -> Float[Tensor, "*shape"]:
        """The weights as one tensor, copies first; gradients flow back to the parameters."""
        whole = self.parameters[0] if self.is_native else torch.stack(list(self.parameters))
        return whole.reshape(*self.batch_shape, *self.shape)

    @torch.no_grad()
    def write(self, weight: Float[Tensor, "*shape"]) -> None:
        """Put `weight` in the place of the parameters' values."""
        shape = self.parameters[0].shape
        if self.is_native:
            # What was computed in place is there already.
            if weight.data_ptr() != self.parameters[0].data_ptr():
                self.parameters[0].copy_(weight.reshape(shape))
        else:
            parts = weight.reshape(len(self.tasks), *shape)
            torch._foreach_copy_(list(self.parameters), list(parts.unbind()))


def merged_modes(
    modes: Sequence[str], sizes: Sequence[int], wanted: Sequence[str]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Modes and sizes of a stack: the axes of a kernel become one, unless one of them is wanted.

    Example:
        >>> merged_modes(("task", "output", "input", "height", "width"), (2, 8, 3, 5, 5), ("task",))
        (('task', 'output', 'input', 'kernel'), (2, 8, 3, 25))
    """
    inner = [mode for mode in modes if mode in KERNEL_MODES]
    if not inner or any(mode in wanted for mode in inner):
        return tuple(modes), tuple(sizes)
    n_outer = len(modes) - len(inner)
    return (*modes[:n_outer], "kernel"), (*sizes[:n_outer], prod(sizes[n_outer:]))
