"""The ridge on weights without a prior."""

import pytest
import torch
from torch import nn

from multirel.estimators._network_penalties import ComposedRidge, Ridge, weights_to_shrink
from multirel.networks import FactorizedTaskLinear, MultitaskNetwork
from multirel.priors import Penalty, attach_prior
from multirel.training import Recipe, build_optimizer
from tests.environment import assert_close


def make_network() -> MultitaskNetwork:
    torch.manual_seed(0)
    return MultitaskNetwork(4, 3, n_outputs=2, hidden_sizes=(5, 6), shared_layers=1).double()


def test_the_penalty_is_half_the_squares_times_the_rate():
    weight = nn.Parameter(torch.tensor([[1.0, 2.0], [0.0, 2.0]]))
    assert Ridge([weight], 0.1)().item() == pytest.approx(0.45)
    assert isinstance(Ridge([weight], 0.1), Penalty)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_is_that_of_a_prior_without_covariances(momentum: float):
    """With all modes switched off the prior is ½‖W‖², and its proximal step the ridge's."""
    with_prior, with_ridge = make_network(), make_network()
    prior = attach_prior(
        with_prior, "heads.fc8", n_samples=10, strength=3.0, shrinkage=1.0, start=0.0
    )
    ridge = Ridge([with_ridge.heads["fc8"].weight], 0.3)
    recipe = Recipe(learning_rate=0.1, momentum=momentum)
    for network, penalty in ((with_prior, prior), (with_ridge, ridge)):
        optimizer = build_optimizer(network, recipe)
        network(torch.ones(3, 4, dtype=torch.float64), torch.arange(3)).sum().backward()
        optimizer.step()
        penalty.step(optimizer)
    assert_close(with_ridge.heads["fc8"].weight, with_prior.heads["fc8"].weight)


def test_steps_go_to_the_minimum_whatever_the_rate():
    """½(w − 1)² + ½ρw² is smallest at 1 / (1 + ρ)."""
    for rate in (0.1, 1e3):
        weight = nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        ridge = Ridge([weight], rate)
        for _ in range(500):
            optimizer.zero_grad()
            (0.5 * (weight - 1).square().sum()).backward()
            optimizer.step()
            ridge.step(optimizer)
        assert_close(weight, [[1 / (1 + rate)]])


def test_biases_factors_and_weights_with_a_prior_are_left_out():
    network = make_network()
    network.heads["fc7"] = FactorizedTaskLinear(3, 5, 6, factorization="laf", ranks=2)
    weights = weights_to_shrink(network, without=[network.heads["fc8"].weight])
    assert [tuple(weight.shape) for weight in weights] == [(5, 4)]


def test_frozen_weights_and_normalizations_are_left_out():
    network = nn.Sequential(nn.Linear(2, 3), nn.GroupNorm(1, 3), nn.Linear(3, 4))
    network[0].requires_grad_(False)
    assert [tuple(weight.shape) for weight in weights_to_shrink(network)] == [(4, 3)]


def test_the_ridge_of_factors_is_that_of_the_weights_they_compose():
    layer = FactorizedTaskLinear(3, 5, 2, factorization="tucker", ranks=2)
    penalty = ComposedRidge([layer], 0.5)
    value = penalty()
    assert value.item() == pytest.approx(0.25 * layer.weight.square().sum().item())
    value.backward()
    assert all(factor.grad is not None for factor in layer.factors.values())
    assert isinstance(penalty, Penalty)
    assert penalty.application == "gradient"


def test_penalties_without_an_optimizer_do_nothing():
    layer = FactorizedTaskLinear(3, 5, 2, factorization="laf", ranks=1)
    before = layer.weight.detach().clone()
    weight = nn.Parameter(torch.ones(2, 2))
    for penalty in (ComposedRidge([layer], 0.5), Ridge([weight], 0.5)):
        penalty.update()
        penalty.step()
    ComposedRidge([layer], 0.5).apply(torch.optim.SGD([weight], lr=0.1))
    torch.testing.assert_close(layer.weight, before)
    assert bool((weight == 1).all())
