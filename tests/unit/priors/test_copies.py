"""A prior on layers that hold copies does to each what a prior of its own would do."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from multirel.priors import TensorNormalPrior, attach_prior
from tests.environment import assert_close, tensor

N_COPIES = 4
STRENGTHS = torch.tensor([0.1, 1.0, 2.0, 5.0], dtype=torch.float64)
N_SAMPLES = torch.tensor([10.0, 20.0, 20.0, 30.0], dtype=torch.float64)
SHAPES = {"fc7": (3, 6, 7), "fc8": (3, 2, 6)}
WIDE = {"fc7": (3, 6, 40), "fc8": (3, 2, 6)}


class Holder(nn.Module):
    """A layer that holds stacks, with copies where the weight has one more axis."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        modes = ("task", "output", "input")
        self.stack_modes = ("copy", *modes) if weight.ndim == 4 else modes


def weights(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, Tensor]:
    rng = np.random.default_rng(seed)
    return {name: tensor(rng.standard_normal((N_COPIES, *shape))) for name, shape in shapes.items()}


class Trained:
    """Layers with a prior, and the optimizer that trains them."""

    def __init__(self, values: dict[str, Tensor], *, copy: int | None = None, **settings: Any):
        chosen = slice(None) if copy is None else copy
        layers = {name: Holder(value[chosen]) for name, value in values.items()}
        self.network = nn.ModuleDict(layers)
        rates = (STRENGTHS, N_SAMPLES) if copy is None else (STRENGTHS[copy], N_SAMPLES[copy])
        strength, n_samples = rates if copy is None else map(float, rates)
        self.prior: TensorNormalPrior = attach_prior(
            self.network, [*values], n_samples=n_samples, strength=strength, **settings
        )
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.5)

    def step(self, gradients: dict[str, Tensor]) -> None:
        for name, gradient in gradients.items():
            self.network[name].weight.grad = gradient.clone()
        self.optimizer.step()
        self.prior.step(self.optimizer)


SETTINGS = [
    {},
    {"mean": "task-average", "mean_strength": 0.3},
    {"mean": "initial"},
    {"scale": "determinant"},
    {"scale": "free", "jitter": 0.01},
    {"share_task_covariance": True},
    {"share_task_covariance": True, "weighting": "size"},
    {"covariance_update": "trace"},
    {"shrinkage_target": "constant-correlation"},
    {"modes": ("task",)},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("rank", [None, 5])
def test_copies_are_trained_as_if_alone(settings: dict[str, Any], rank: int | None):
    if rank is not None and ({"determinant", "trace"} & set(map(str, settings.values()))):
        pytest.skip("needs all eigenvalues")
    shapes = SHAPES if rank is None else WIDE
    schedule = {"n_updates": None, "update_every": 3, "apply_every": 2, "rank": rank}
    values = weights(shapes)
    together = Trained(values, **schedule, **settings)
    alone = [Trained(values, copy=b, **schedule, **settings) for b in range(N_COPIES)]
    for step in range(8):
        gradients = weights(shapes, seed=1 + step)
        together.step({name: 0.1 * gradient for name, gradient in gradients.items()})
        for b, trained in enumerate(alone):
            trained.step({name: 0.1 * gradient[b] for name, gradient in gradients.items()})

    for b, trained in enumerate(alone):
        for name in shapes:
            mine = together.network[name].weight[b]
            assert_close(mine, trained.network[name].weight, factor=100)
            found = together.prior.correlations(name)[b]
            assert_close(found, trained.prior.correlations(name), factor=1000)
        assert_close(together.prior.objective()[b], trained.prior.objective(), factor=1000)
        assert_close(together.prior.of_copies()[b], trained.prior(), factor=1000)
    total = sum(float(trained.prior().detach()) for trained in alone)
    assert_close(together.prior(), total, factor=1000)


def test_a_learning_rate_per_copy_is_a_strength_of_the_step_per_copy():
    values, rates = weights(SHAPES), torch.tensor([1.0, 0.5, 0.0, 2.0], dtype=torch.float64)
    together = Trained(values)
    together.optimizer.param_groups[0]["copy_rates"] = rates
    together.prior.apply(together.optimizer)
    for b in range(N_COPIES):
        alone = Trained(values, copy=b)
        alone.optimizer.param_groups[0]["lr"] *= float(rates[b])
        alone.prior.step(alone.optimizer)
        mine = together.network["fc7"].weight[b]
        assert_close(mine, alone.network["fc7"].weight, factor=10)


def test_state_of_copies_goes_through_a_round_trip_with_pending_steps():
    values = weights(SHAPES)
    settings = {"n_updates": None, "update_every": 2, "apply_every": 5}
    first, second = Trained(values, **settings), Trained(values, **settings)
    for step in range(3):
        first.step(weights(SHAPES, seed=step))
    second.prior.load_state_dict(first.prior.state_dict())
    second.network.load_state_dict(first.network.state_dict())
    second.optimizer.load_state_dict(deepcopy(first.optimizer.state_dict()))
    for trained in (first, second):
        for step in range(3, 6):
            trained.step(weights(SHAPES, seed=step))
    for name in SHAPES:
        assert torch.equal(first.network[name].weight, second.network[name].weight)


def test_a_copy_without_spread_keeps_its_covariances_and_the_others_learn():
    values = weights(SHAPES)
    for value in values.values():
        value[1] = 0.0
        value[2] = torch.nan
    trained = Trained(values)
    trained.prior.update()
    found = trained.prior.correlations("fc7")
    start = np.full((3, 3), 0.5) + 0.5 * np.eye(3)
    assert_close(found[1], start)
    assert_close(found[2], start)
    alone = Trained(values, copy=3)
    alone.prior.update()
    assert_close(found[3], alone.prior.correlations("fc7"), factor=10)


def test_the_summary_speaks_of_the_average_copy():
    trained = Trained(weights(SHAPES))
    (first, _) = trained.prior.summary().rows
    assert first.shape == "3 × 6 × 7"
    assert first.strength == pytest.approx(
        float((STRENGTHS / N_SAMPLES).mean())
        * float(Trained(weights(SHAPES), copy=0).prior.summary().rows[0].strength)
        * float(N_SAMPLES[0] / STRENGTHS[0])
    )


def test_layers_with_different_numbers_of_copies_are_refused():
    values = weights(SHAPES)
    layers = {"fc7": Holder(values["fc7"]), "fc8": Holder(values["fc8"][:2])}
    with pytest.raises(ValueError, match="same number of copies: got fc7 4, fc8 2"):
        attach_prior(nn.ModuleDict(layers), ["fc7", "fc8"], n_samples=10)
