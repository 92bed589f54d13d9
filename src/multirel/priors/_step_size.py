"""How far a proximal step goes: the constant c that belongs to an optimizer's steps."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["find_groups", "rate_of_groups"]


def find_groups(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], *, layer: str
) -> tuple[int, ...]:
    """Numbers of the groups that hold these parameters.

    Raises:
        ValueError: If a parameter is not in the optimizer.
        TypeError: If the optimizer is LBFGS.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise TypeError(
            "`optimizer` must make steps of a known rate: LBFGS does not. Use "
            "application='gradient', which puts the prior into the objective."
        )
    wanted = {id(parameter) for parameter in parameters}
    counts = [
        sum(id(parameter) in wanted for parameter in group["params"])
        for group in optimizer.param_groups
    ]
    if sum(counts) < len(wanted):
        raise ValueError(
            f"`optimizer` must hold every weight of the stack {layer!r}: it misses "
            f"{len(wanted) - sum(counts)} of {len(wanted)}. Frozen weights need no prior, and a copy of "
            f"the network needs its own."
        )
    return tuple(number for number, count in enumerate(counts) if count)


def rate_of_groups(
    optimizer: torch.optim.Optimizer, groups: Sequence[int], *, layer: str
) -> float | Tensor:
    """The step that one `optimizer.step()` makes along a constant gradient in these groups of one stack.

    SGD: learning rate × (1 − dampening) / (1 − momentum). Other optimizers have no scalar that is exact;
    there the prior is decoupled, as weight decay is in AdamW: the learning rate. A group of parameters that
    hold copies may have "copy_rates": factors of its rate, one per copy.

    Raises:
        ValueError: If the groups have different rates.
    """
    rates: dict[tuple[float, int], float | Tensor] = {}
    for number in groups:
        group = optimizer.param_groups[number]
        rate = _rate_of_group(optimizer, group)
        factors = group.get("copy_rates")
        rates[rate, id(factors)] = rate if factors is None else rate * factors
    if len(rates) > 1:
        raise ValueError(
            f"`optimizer` must give all weights of the stack {layer!r} one rate: got "
            f"{', '.join(f'{rate:g}' for rate, _ in sorted(rates))}. Put them into one group."
        )
    return rates.popitem()[1]


def _rate_of_group(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    rate = float(group["lr"])
    if not isinstance(optimizer, torch.optim.SGD):
        return rate
    momentum = float(group["momentum"])
    if momentum == 0:
        return rate
    return rate * (1 - float(group["dampening"])) / (1 - momentum)
