"""Factorized layers from single-task weights."""

import pytest
import torch

from multirel.estimators._network_build import build_network
from multirel.estimators._network_factorization import factorize_layers, single_task_plan
from multirel.estimators._network_plan import NetworkPlan
from multirel.networks import FactorizedTaskLinear, MultitaskNetwork, TaskLinear
from tests.unit.estimators.network_builders import PLANS, PlannedClassifier, fit, make_data


def trained(hidden_sizes=(5,)) -> MultitaskNetwork:
    torch.manual_seed(0)
    return MultitaskNetwork(4, 3, n_outputs=2, hidden_sizes=hidden_sizes)


@pytest.mark.parametrize("name", ["tucker", "tt"])
def test_ranks_come_from_the_relative_error(name: str):
    network = trained()
    for error in (0.05, 0.5):
        plan = NetworkPlan(prior=None, factorization=name, relative_error=error)
        factorized = factorize_layers(network, plan, is_alike=True)
        for key, layer in factorized.heads.items():
            weight = network.heads[key].weight
            assert isinstance(layer, FactorizedTaskLinear)
            assert (layer.weight - weight).norm() <= error * weight.norm() * (1 + 1e-5)
            assert torch.equal(layer.bias, network.heads[key].bias)


def test_ranks_can_be_given_for_all_layers_or_by_name():
    for ranks, expected in ((1, ((1,), (1,))), ({"fc7": 2, "fc8": 3}, ((2,), (3,)))):
        plan = NetworkPlan(prior=None, factorization="laf", ranks=ranks)
        heads = factorize_layers(trained(), plan, is_alike=True).heads
        assert (heads["fc7"].ranks, heads["fc8"].ranks) == expected


def test_nothing_is_drawn_from_the_generator_of_the_user():
    network = trained()
    before = torch.random.get_rng_state()
    factorize_layers(network, PLANS["laf"], is_alike=True)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_output_layers_of_tasks_that_differ_stay_as_they_are():
    heads = factorize_layers(trained(), PLANS["laf"], is_alike=False).heads
    assert isinstance(heads["fc7"], FactorizedTaskLinear)
    assert isinstance(heads["fc8"], TaskLinear)
    with pytest.raises(ValueError, match="`hidden_sizes` must have a layer to factorize"):
        factorize_layers(trained(()), PLANS["laf"], is_alike=False)


def test_weights_that_are_zero_have_no_factors():
    zero = build_network(
        PLANS["laf"],
        None,
        n_features=4,
        tasks=["a", "b"],
        n_outputs=(2, 2),
        hidden_sizes=(),
        seed=0,
    )
    assert isinstance(factorize_layers(zero, PLANS["laf"], is_alike=True).heads["fc8"], TaskLinear)


def test_other_networks_have_nothing_to_factorize():
    with pytest.raises(TypeError, match="`network` must have task-specific layers: got Linear"):
        factorize_layers(torch.nn.Linear(2, 2), PLANS["laf"], is_alike=True)


def test_factors_come_from_a_training_with_the_same_penalty():
    plan = NetworkPlan(prior=None, factorization="tt", ridge=2.0, strength_per="objective_scale")
    assert single_task_plan(plan) == NetworkPlan(
        prior=None, ridge=2.0, strength_per="objective_scale"
    )


def test_laf_of_rank_one_makes_tasks_proportional():
    plan = NetworkPlan(prior=None, factorization="laf", ranks=1)
    estimator = fit(PlannedClassifier(plan=plan), make_data())
    for layer in estimator.network_.heads.values():
        assert int(torch.linalg.matrix_rank(layer.weight.detach().flatten(1), rtol=1e-5)) == 1
    assert estimator.ranks_ == {"fc7": (1,), "fc8": (1,)}
