"""Networks before training."""

from math import sqrt

import pytest
import torch
from torch import nn

from multirel.estimators._network_build import (
    build_network,
    names_of_tasks,
    prefix_of,
    task_layers,
)
from multirel.estimators._network_pooled import PooledNetwork
from multirel.estimators._network_separate import SeparateNetworks
from multirel.networks import MultitaskNetwork
from tests.unit.estimators.network_builders import PLANS


def build(name: str, *, backbone=None, seed=0, n_outputs=(2, 2, 2), tasks="abc", sizes=(5, 6)):
    return build_network(
        PLANS[name],
        backbone,
        n_features=4,
        tasks=list(tasks),
        n_outputs=n_outputs,
        hidden_sizes=sizes,
        seed=seed,
    )


def hidden_weights(network: nn.Module) -> list[torch.Tensor]:
    """The weights of the hidden layers of the first task."""
    if isinstance(network, SeparateNetworks):
        network = network.layers
    layers = [*network.shared.values(), *getattr(network, "heads", {}).values()]
    weights = [layer.weight.detach() for layer in layers][:2]
    return [weight if weight.ndim == 2 else weight[0] for weight in weights]


@pytest.mark.parametrize("name", PLANS)
def test_hidden_layers_start_equal_in_all_methods(name: str):
    for mine, reference in zip(
        hidden_weights(build(name)), hidden_weights(build("mrn")), strict=True
    ):
        assert torch.equal(mine, reference)


@pytest.mark.parametrize("name", ["single", "mrn"])
def test_hidden_layers_start_equal_in_all_tasks_however_many(name: str):
    network = build(name)
    for weight in (network.heads["fc6"].weight, network.heads["fc7"].bias):
        assert torch.equal(weight[0], weight[2])
    fewer = build(name, tasks="ab", n_outputs=(3, 3))
    assert torch.equal(hidden_weights(fewer)[1], hidden_weights(network)[1])


@pytest.mark.parametrize("n_outputs", [(2, 2, 2), (1, 3, 2)])
def test_outputs_start_from_zero(n_outputs):
    output = build("mrn", n_outputs=n_outputs).heads["fc8"]
    assert not any(bool(parameter.any()) for parameter in output.parameters())


def test_hidden_layers_are_uniform_within_bounds_of_their_size():
    (first, second) = hidden_weights(build("shared"))
    for weight in (first, second):
        bound = 1 / sqrt(weight.shape[1])
        assert float(weight.abs().max()) <= bound
        assert float(weight.abs().max()) > 0.8 * bound


def test_the_seed_decides():
    first, second, other = build("mrn"), build("mrn"), build("mrn", seed=1)
    assert torch.equal(hidden_weights(first)[0], hidden_weights(second)[0])
    assert not torch.equal(hidden_weights(first)[0], hidden_weights(other)[0])


def test_layers_of_one_size_start_different():
    weights = hidden_weights(build("mrn", sizes=(4, 4)))
    assert not torch.equal(*weights)


def test_torchs_generator_stays_where_it_was():
    state = torch.random.get_rng_state()
    build("mrn")
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("name", "kind", "prefix"),
    [
        ("single", SeparateNetworks, "layers."),
        ("pooled", PooledNetwork, ""),
        ("shared", MultitaskNetwork, ""),
        ("mrn", MultitaskNetwork, ""),
        ("tucker", MultitaskNetwork, ""),
    ],
)
def test_a_backbone_that_trains_is_shared_but_by_single_tasks(name, kind, prefix):
    network = build(name, backbone=nn.Linear(7, 4))
    assert type(network) is kind
    assert prefix_of(network) == prefix
    layers = task_layers(network)
    assert (layers is None) == (name == "pooled")
    assert network(torch.ones(2, 7), torch.tensor([2, 0])).shape == (2, 2)


def test_shared_layers_are_hidden_ones():
    assert [*build("shared").shared] == [*build("mrn-8").shared] == ["fc6", "fc7"]
    assert [*build("mrn").heads] == ["fc6", "fc7", "fc8"]


def test_tasks_that_look_alike_as_text_are_named_by_number():
    assert names_of_tasks(["a", 1]) == ("a", "1")
    assert names_of_tasks(["1", 1]) == ("0", "1")
