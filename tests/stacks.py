"""Networks whose stacks hold given weights, and what a prior on them has learned, written out."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from multirel.priors import TensorNormalPrior, attach_prior
from tests.environment import DTYPE, array, tensor

MODES = {
    2: ("task", "input"),
    3: ("task", "output", "input"),
    4: ("task", "output", "input", "kernel"),
    5: ("task", "output", "input", "height", "width"),
}
"""Names of the modes by their number."""


class NativeStack(nn.Module):
    """A layer that keeps its tasks in one tensor, and says so by a plain attribute."""

    def __init__(self, weight: Tensor, modes: Sequence[str] | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.stack_modes = MODES[weight.ndim] if modes is None else tuple(modes)


def random_weight(shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Independent standard normal entries."""
    return np.random.default_rng(seed).standard_normal(tuple(shape))


def related_weight(shape: Sequence[int], seed: int = 0, *, shared: float = 1.0) -> np.ndarray:
    """Weights of tasks that have a part in common, with tasks of different sizes."""
    rng = np.random.default_rng(seed)
    sizes = np.linspace(0.5, 1.5, shape[0]).reshape(-1, *(1,) * (len(shape) - 1))
    common = shared * rng.standard_normal(tuple(shape[1:]))
    return sizes * (common + rng.standard_normal(tuple(shape)))


def network_of(
    *weights: np.ndarray | Tensor, dtype: torch.dtype = DTYPE, modes: Sequence[str] | None = None
) -> nn.ModuleDict:
    """A network with one native stack per weight, named "a", "b" and so on."""
    stacks = [NativeStack(tensor(weight, dtype=dtype), modes) for weight in weights]
    return nn.ModuleDict(dict(zip("abcdef", stacks, strict=False)))


def prior_on(
    *weights: np.ndarray | Tensor,
    dtype: torch.dtype = DTYPE,
    preset: str | None = None,
    n_samples: float = 10,
    **settings,
) -> tuple[TensorNormalPrior, nn.ModuleDict]:
    """A prior on a network that holds these stacks, and the network; all modes are on by default."""
    network = network_of(*weights, dtype=dtype)
    layers = [*network]
    if preset is not None:
        prior = TensorNormalPrior.from_preset(
            preset, network, layers, n_samples=n_samples, **settings
        )
        return prior, network
    settings.setdefault("modes", MODES[max(weight.ndim for weight in weights)])
    return attach_prior(network, layers, n_samples=n_samples, **settings), network


def covariances_of(prior: TensorNormalPrior, layer: str = "a") -> list[np.ndarray]:
    """Σ_k of every mode, written out from the state of the prior."""
    state = prior.state_dict()
    (stack,) = [stack for stack in prior.stacks if stack.layer == layer]
    found = []
    for mode, size in zip(stack.modes, stack.shape, strict=True):
        prefix = f"{layer}.{mode}."
        parts = {
            name.removeprefix(prefix): array(value)
            for name, value in state.items()
            if name.startswith(prefix)
        }
        found.append(_written_out(parts, size))
    return found


def _written_out(parts: dict[str, np.ndarray], size: int) -> np.ndarray:
    if not parts:
        return np.eye(size)
    if "basis" in parts:
        excess = parts["basis"] * (parts["eigenvalues"] - parts["complement"])
        return excess @ parts["basis"].T + parts["complement"] * np.eye(size)
    return parts.get("matrix", parts.get("singular"))


def weight_of(network: nn.ModuleDict, layer: str = "a") -> np.ndarray:
    """The weights of a stack."""
    return array(network[layer].weight.detach().double()).copy()


def set_weight(network: nn.ModuleDict, weight: np.ndarray, layer: str = "a") -> None:
    """Put other weights in their place."""
    with torch.no_grad():
        network[layer].weight.copy_(tensor(weight, dtype=network[layer].weight.dtype))
