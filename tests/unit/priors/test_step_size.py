"""The step c that belongs to an optimizer's steps, by what `apply` does to the weights."""

import numpy as np
import pytest
import torch
from torch import nn

from multirel.priors import attach_prior
from tests.environment import DEVICE, DTYPE, array, assert_close
from tests.stacks import network_of, prior_on, related_weight, set_weight, weight_of

SHAPE = (2, 3, 4)
STRENGTH, N_SAMPLES = 2.0, 5
WHITE = {"modes": ("task",), "start": 0.0, "n_updates": 0}
"""With the identity as precision, `apply` divides the weights by 1 + c."""


def step_of(prior, network, optimizer):
    """c of one `apply`, without λ/N."""
    before = weight_of(network)
    prior.apply(optimizer)
    after = weight_of(network)
    return (np.linalg.norm(before) / np.linalg.norm(after) - 1) / (STRENGTH / N_SAMPLES)


def white_prior(**settings):
    return prior_on(
        related_weight(SHAPE), strength=STRENGTH, n_samples=N_SAMPLES, **WHITE, **settings
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"lr": 0.1}, 0.1),
        ({"lr": 0.1, "momentum": 0.9}, 1.0),
        ({"lr": 0.1, "momentum": 0.9, "dampening": 0.5}, 0.5),
        ({"lr": 0.1, "dampening": 0.5}, 0.1),
        ({"lr": 0.1, "momentum": 0.9, "nesterov": True}, 1.0),
        ({"lr": torch.tensor(0.1, dtype=torch.float64)}, 0.1),
        ({"lr": 0.1, "weight_decay": 0.5}, 0.1),
        ({"lr": 0.0}, 0.0),
    ],
)
def test_steps_of_sgd_reach_as_far_as_its_momentum_carries(options, expected):
    """Learning rate × (1 − dampening) / (1 − momentum); torch ignores dampening without momentum."""
    prior, network = white_prior()
    optimizer = torch.optim.SGD(network.parameters(), **options)
    assert_close(step_of(prior, network, optimizer), expected, factor=10)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_steps_of_other_optimizers_are_decoupled(kind):
    """The learning rate alone, as the decay of AdamW."""
    prior, network = white_prior()
    optimizer = kind(network.parameters(), lr=0.03)
    assert_close(step_of(prior, network, optimizer), 0.03, factor=10)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_distance_that_sgd_travels_is_the_step(momentum, nesterov):
    """A constant gradient moves the weights by c per step in the end: what the formula stands for."""
    weight = nn.Parameter(torch.zeros(1, dtype=DTYPE, device=DEVICE))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=momentum, nesterov=nesterov)
    for _ in range(400):
        before = float(weight.detach())
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    prior, network = white_prior()
    options = {"lr": 0.1, "momentum": momentum, "nesterov": nesterov}
    expected = step_of(prior, network, torch.optim.SGD(network.parameters(), **options))
    assert before - float(weight.detach()) == pytest.approx(expected, rel=1e-3)


def test_each_stack_has_the_rate_of_its_own_group():
    """Layers may differ, as new layers that learn ten times as fast do."""
    weights = related_weight(SHAPE), related_weight(SHAPE, seed=1)
    prior, network = prior_on(*weights, strength=STRENGTH, n_samples=N_SAMPLES, **WHITE)
    groups = [{"params": network["a"].parameters(), "lr": 0.1}, {"params": [network["b"].weight]}]
    prior.apply(torch.optim.SGD(groups, lr=1.0))
    assert_close(weight_of(network, "a"), weights[0] / (1 + 0.4 * 0.1))
    assert_close(weight_of(network, "b"), weights[1] / (1 + 0.4 * 1.0))


def collected():
    network = nn.ModuleDict({task: nn.Linear(4, 3) for task in ("x", "y", "z")}).to(DEVICE, DTYPE)
    return network, attach_prior(network, "*", n_samples=5)


def test_different_rates_within_a_stack_are_refused():
    """With both; the weights stay as they are."""
    network, prior = collected()
    groups = [{"params": network["x"].parameters(), "lr": 0.1}]
    groups += [{"params": network[task].parameters()} for task in ("y", "z")]
    before = array(network["x"].weight).copy()
    message = r"give all weights of the stack '\*' one rate: got 0.01, 0.1. Put them into one group"
    with pytest.raises(ValueError, match=message):
        prior.step(torch.optim.SGD(groups, lr=0.01))
    with pytest.raises(ValueError, match=message):
        prior.apply(torch.optim.SGD(groups, lr=0.01))
    np.testing.assert_array_equal(array(network["x"].weight), before)


def test_groups_of_one_rate_are_one():
    """As where biases have their own."""
    network, prior = collected()
    groups = [{"params": [parameter]} for parameter in network.parameters()]
    prior.step(torch.optim.SGD(groups, lr=0.01, momentum=0.9))


def test_groups_without_parameters_do_no_harm():
    """A group that has nothing yet, as for layers that are unfrozen later."""
    prior, network = white_prior()
    groups = [{"params": [], "lr": 7.0}, {"params": list(network.parameters())}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    assert step_of(prior, network, optimizer) == pytest.approx(0.1, rel=1e-4)


def test_weights_that_the_optimizer_does_not_have_are_refused():
    """With how many."""
    network, prior = collected()
    optimizer = torch.optim.SGD([*network["x"].parameters(), *network["y"].parameters()], lr=0.1)
    message = r"must hold every weight of the stack '\*': it misses 1 of 3. Frozen weights need no"
    with pytest.raises(ValueError, match=message):
        prior.step(optimizer)
    with pytest.raises(ValueError, match="it misses 3 of 3"):
        prior.step(torch.optim.SGD([network["x"].bias], lr=0.1))


def test_lbfgs_has_no_rate():
    """Its steps are of any length."""
    network, prior = collected()
    optimizer = torch.optim.LBFGS(network.parameters())
    message = "`optimizer` must make steps of a known rate: LBFGS does not. Use app.*='gradient'"
    with pytest.raises(TypeError, match=message):
        prior.step(optimizer)
    with pytest.raises(TypeError, match=message):
        prior.apply(optimizer)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.05},
        {"lr": 0.05, "momentum": 0.9},
        {"lr": 0.05, "momentum": 0.9, "nesterov": True},
        {"lr": 0.05, "momentum": 0.5, "dampening": 0.5},
    ],
)
@pytest.mark.parametrize("strength", [1.0, 100.0])
def test_fixed_point_of_sgd_with_applications_is_the_minimizer(options, strength):
    """Exact at every step, also where the explicit gradient would diverge."""
    shape = (2, 2, 3)
    target = related_weight(shape)
    prior, network = prior_on(target, modes=("task",), strength=strength, n_samples=1)
    optimizer = torch.optim.SGD(network.parameters(), **options)
    for _ in range(1500):
        optimizer.zero_grad()
        (
            (network["a"].weight - torch.as_tensor(target).to(network["a"].weight)) ** 2
        ).sum().backward()
        optimizer.step()
        prior.step(optimizer)
        prior.hold()
    precision = np.linalg.inv(0.5 * np.eye(2) + 0.5)
    matrix = np.eye(2) + strength / 2 * precision
    expected = np.einsum("st,toi->soi", np.linalg.inv(matrix), target)
    assert_close(weight_of(network), expected)


def test_decaying_rates_add_up():
    """Each pending step counts with the rate that it had."""
    prior, network = white_prior(apply_every=3)
    weight = related_weight(SHAPE)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    for rate in (0.3, 0.2, 0.1):
        optimizer.param_groups[0]["lr"] = rate
        assert_close(weight_of(network), weight)
        prior.step(optimizer)
    assert_close(weight_of(network), weight / (1 + 0.4 * 0.6))


def test_weights_that_were_replaced_in_place_are_still_found():
    """`load_state_dict` copies into the same parameters."""
    prior, network = white_prior()
    other = network_of(related_weight(SHAPE, seed=3))
    network.load_state_dict(other.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    prior.step(optimizer)
    assert_close(weight_of(network), related_weight(SHAPE, seed=3) / (1 + 0.4 * 0.1))
    set_weight(network, related_weight(SHAPE))


def test_an_optimizer_is_an_optimizer():
    prior, network = white_prior()
    with pytest.raises(TypeError, match="`optimizer` must be a torch.optim.Optimizer: got"):
        prior.step(network)


def test_frozen_weights_are_left_alone():
    """As the optimizer leaves them, which holds them and gets no gradient."""
    prior, network = prior_on(related_weight((3, 2, 4)), related_weight((3, 2, 4)))
    network["a"].weight.requires_grad_(False)
    before = weight_of(network, "a").copy()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    prior.step(optimizer)
    prior.apply(optimizer)
    np.testing.assert_array_equal(weight_of(network, "a"), before)
    assert np.abs(weight_of(network, "b") - before).max() > 0


def test_stacks_that_are_frozen_in_part_are_refused():
    network = nn.ModuleDict({name: nn.Linear(3, 2) for name in ("x", "y")})
    prior = attach_prior(network, "*", n_samples=10)
    network["x"].weight.requires_grad_(False)
    with pytest.raises(
        ValueError, match="'x.weight' is frozen, and other weights of '\\*' are not"
    ):
        prior.step(torch.optim.SGD(network.parameters(), lr=0.1))
