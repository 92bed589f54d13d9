"""Small networks and rows, from a seed: what the tests of training draw."""

import torch

from multirel.networks import MultitaskNetwork
from multirel.training import TrainingRows
from tests.environment import DEVICE, DTYPE

N_FEATURES = 6
N_CLASSES = 3


def make_rows(n_rows: int = 60, n_tasks: int = 3, *, seed: int = 0, **options) -> TrainingRows:
    """Rows whose classes a linear layer can tell apart."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_rows, N_FEATURES, generator=generator, dtype=DTYPE)
    weight = torch.randn(N_FEATURES, N_CLASSES, generator=generator, dtype=DTYPE)
    task = torch.randint(n_tasks, (n_rows,), generator=generator)
    y = (x @ weight).argmax(1)
    return TrainingRows(x.to(DEVICE), y.to(DEVICE), task, n_tasks=n_tasks, **options)


def make_network(n_tasks: int = 3, *, seed: int = 0, **options) -> MultitaskNetwork:
    """Heads for such rows."""
    torch.manual_seed(seed)
    options = {"n_outputs": N_CLASSES, "hidden_sizes": (5,)} | options
    return MultitaskNetwork(N_FEATURES, n_tasks, **options).to(device=DEVICE, dtype=DTYPE)


def weights_of(network: torch.nn.Module) -> torch.Tensor:
    """All weights in one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
