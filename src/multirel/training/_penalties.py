"""How penalties enter a step of training, in this loop and in any other."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from multirel.priors import Penalty

__all__ = ["add_penalty_gradients", "step_penalties"]


def add_penalty_gradients(penalties: Iterable[Penalty]) -> None:
    """Add the gradients of those penalties that belong into the gradient; call it after `loss.backward()`.

    These are the penalties with `application="gradient"`. With several processes it adds the same in each of
    them, after gradients have been averaged.

    Args:
        penalties: The penalties.

    Example:
        >>> from multirel.priors import attach_prior
        >>> network = torch.nn.ModuleList(torch.nn.Linear(3, 2) for _ in range(2))
        >>> prior = attach_prior(network, "*", n_samples=10, application="gradient")
        >>> add_penalty_gradients([prior])
        >>> network[0].weight.grad.shape
        torch.Size([2, 3])
    """
    for penalty in penalties:
        if _is_in_gradient(penalty):
            _add_gradient(penalty())


def _add_gradient(value: Tensor) -> None:
    """Add the gradient of a number to the parameters that it depends on.

    As `value.backward()` does, which would tell DDP that a batch has used weights that none of its rows has.
    """
    parameters = list(_parameters_of(value))
    for parameter, gradient in zip(parameters, torch.autograd.grad(value, parameters), strict=True):
        if parameter.grad is None:
            parameter.grad = gradient.clone(memory_format=torch.contiguous_format)
        else:
            parameter.grad += gradient


def _parameters_of(value: Tensor) -> Iterator[Tensor]:
    """The leaves of the graph that made `value`, each once."""
    waiting: list[Any] = [value.grad_fn]
    seen = set()
    while waiting:
        function = waiting.pop()
        if function is not None and function not in seen:
            seen.add(function)
            if hasattr(function, "variable"):
                yield function.variable
            waiting += [previous for previous, _ in function.next_functions]


def step_penalties(penalties: Iterable[Penalty], optimizer: torch.optim.Optimizer) -> None:
    """Let penalties act and learn on their schedules; call it after `optimizer.step()`.

    Those that are in the gradient have acted, and only learn.

    Args:
        penalties: The penalties.
        optimizer: The optimizer that has made a step.
    """
    for penalty in penalties:
        if _is_in_gradient(penalty):
            penalty.step()
        else:
            penalty.step(optimizer)


def _is_in_gradient(penalty: Penalty) -> bool:
    return getattr(penalty, "application", "proximal") == "gradient"
