"""Settings of torch that hold during training and are put back afterwards."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn

from multirel.training._recipe import Recipe

__all__ = ["evaluating", "seed_step", "surroundings"]


@contextmanager
def surroundings(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Precision and determinism as the recipe says, and random numbers apart from the caller's."""
    devices = [device] if device.type == "cuda" else []
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=devices))
        stack.enter_context(_tensor_cores(recipe.precision == "tf32"))
        if recipe.deterministic:
            stack.enter_context(_deterministic())
        yield


@contextmanager
def _tensor_cores(allowed: bool) -> Iterator[None]:
    """Whether products in float32 may round their factors to 10 bits on a GPU."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = torch.get_float32_matmul_precision(), cudnn.allow_tf32
    matmul.allow_tf32, cudnn.allow_tf32 = allowed, allowed
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        cudnn.allow_tf32 = before[1]


@contextmanager
def _deterministic() -> Iterator[None]:
    cudnn = torch.backends.cudnn
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.benchmark,
    )
    torch.use_deterministic_algorithms(True)
    cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        cudnn.benchmark = before[2]


def seed_step(seed: int, step: int, *, device: torch.device, rank: int | None = None) -> None:
    """Set the generators to a function of the seed, the step and the rank.

    So nothing random has to be saved for training to resume to the same bits, and what all processes must
    draw alike, with `rank` None, does not depend on what each has drawn for itself.
    """
    entropy = (seed, step, 0 if rank is None else rank + 1)
    mixed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]) >> 1
    # `torch.manual_seed` also sets all other devices, which takes longer than a small step.
    torch.default_generator.manual_seed(mixed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(mixed)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """The network in evaluation mode, and every module back in its own afterwards."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
