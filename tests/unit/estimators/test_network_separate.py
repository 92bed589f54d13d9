"""Networks of tasks that do not even share the backbone."""

import torch
from torch import nn

from multirel.estimators._network_separate import SeparateNetworks
from multirel.networks import MultitaskNetwork, build_backbone
from multirel.training import Recipe, build_optimizer


def make() -> SeparateNetworks:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(8, 4))
    network = SeparateNetworks(backbone, MultitaskNetwork(4, ["a", "b", "c"], n_outputs=2))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return network


def test_every_row_goes_through_the_backbone_of_its_task():
    network, x, task = make(), torch.randn(6, 2, 4), torch.tensor([2, 0, 0, 1, 2, 0])
    for row in range(6):
        features = network.backbone[int(task[row])](x[row : row + 1])
        alone = network.layers.forward_features(features, task[row : row + 1])
        torch.testing.assert_close(network(x, task)[row], alone[0])


def test_tasks_have_nothing_in_common():
    network, x = make(), torch.randn(3, 2, 4)
    network(x, torch.ones(3, dtype=torch.int64)).sum().backward()
    gradients = {
        name: parameter.grad is not None for name, parameter in network.backbone.named_parameters()
    }
    assert gradients == {f"{t}.1.{n}": t == 1 for t in range(3) for n in ("weight", "bias")}
    assert not bool(network.layers.heads["fc8"].weight.grad[[0, 2]].any())


def test_backbones_start_equal():
    backbone = nn.Linear(3, 2)
    network = SeparateNetworks(backbone, MultitaskNetwork(2, 3, n_outputs=1))
    for copy in network.backbone:
        assert torch.equal(copy.weight, backbone.weight)
        assert copy.weight is not backbone.weight


def test_layers_are_new_beside_backbones_that_have_been_trained():
    recipe = Recipe(learning_rate=0.1)
    rates = {g["lr"] for g in build_optimizer(make(), recipe).param_groups}
    assert rates == {0.1, 0.2, 1.0, 2.0}
    random = build_backbone("small-cnn")
    network = SeparateNetworks(random, MultitaskNetwork(random.n_features, 2, n_outputs=2))
    assert {g["lr"] for g in build_optimizer(network, recipe).param_groups} == {0.1, 0.2}
