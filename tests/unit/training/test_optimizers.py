"""Groups of parameters: new layers, biases, weight decay and priors, and what must train."""

import pytest
import torch
from torch import nn

from multirel.networks import MultitaskNetwork, build_backbone
from multirel.priors import attach_prior
from multirel.training import Recipe, build_optimizer, parameter_groups
from multirel.training._optimizers import check_trained, set_rate


class Pretrained(nn.Sequential):
    """A backbone of the user's own, whose last layer is new."""

    n_features = 4
    new_layers = ("2",)

    def __init__(self, *, frozen: bool = False):
        super().__init__(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(8, 4))
        self[0].requires_grad_(not frozen)


def make_network(**options) -> MultitaskNetwork:
    return MultitaskNetwork(Pretrained(**options), 3, n_outputs=2, hidden_sizes=(3,))


def settings_of(network, groups) -> dict[str, tuple[float, float]]:
    """Multiplier and weight decay of every parameter by name."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    return {
        names[id(parameter)]: (group["rate_multiplier"], group["weight_decay"])
        for group in groups
        for parameter in group["params"]
    }


def test_new_layers_and_biases_are_faster_and_biases_do_not_decay():
    network = make_network()
    found = settings_of(network, parameter_groups(network, Recipe(weight_decay=0.1)))
    assert found == {
        "backbone.0.weight": (1, 0.1),
        "backbone.0.bias": (2, 0),
        "backbone.2.weight": (10, 0.1),
        "backbone.2.bias": (20, 0),
        "heads.fc7.weight": (10, 0.1),
        "heads.fc7.bias": (20, 0),
        "heads.fc8.weight": (10, 0.1),
        "heads.fc8.bias": (20, 0),
    }


def test_new_layers_may_be_named():
    """As in the paper where fc7 comes from a weight file: fc8 alone is new."""
    network = make_network()
    groups = parameter_groups(network, Recipe(), new_layers=["heads.fc8"])
    multipliers = {name: pair[0] for name, pair in settings_of(network, groups).items()}
    assert {name for name, value in multipliers.items() if value >= 10} == {
        "heads.fc8.weight",
        "heads.fc8.bias",
    }


@pytest.mark.parametrize(
    "network",
    [
        MultitaskNetwork(4, 2, n_outputs=2),
        nn.Linear(3, 2),
        MultitaskNetwork(build_backbone("small-cnn"), 2, n_outputs=2),
        MultitaskNetwork(Pretrained().requires_grad_(False), 2, n_outputs=2),
    ],
    ids=["features", "no backbone", "random backbone", "frozen backbone"],
)
def test_where_all_that_trains_is_new_the_rate_is_the_recipes(network):
    """Cached features and a frozen backbone train alike."""
    groups = parameter_groups(network, Recipe())
    assert {group["rate_multiplier"] for group in groups} == {1, 2}


def test_layers_that_a_weight_file_lacks_are_found_by_their_place():
    """The backbone names them as people do; its parameters have the names of the file."""
    with torch.device("meta"):
        backbone = build_backbone("alexnet", output="fc6")
        backbone.weights_checksum, backbone.new_layers = "a file", ("fc6",)
        network = MultitaskNetwork(backbone, 2, n_outputs=2)
    multipliers = settings_of(network, parameter_groups(network, Recipe()))
    assert multipliers["backbone.classifier.1.weight"] == (10, 0)
    assert multipliers["backbone.features.0.weight"] == (1, 0)


def test_weights_under_a_prior_do_not_decay():
    network = make_network()
    prior = attach_prior(network, ["heads.fc8"], n_samples=10)
    groups = parameter_groups(network, Recipe(weight_decay=0.1), penalties=[prior])
    found = settings_of(network, groups)
    assert found["heads.fc8.weight"] == (10, 0)
    assert found["heads.fc7.weight"] == (10, 0.1)


def test_normalization_does_not_decay():
    network = nn.Sequential(nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2))
    found = settings_of(network, parameter_groups(network, Recipe(weight_decay=0.1)))
    assert [found[name][1] for name in ("0.weight", "1.weight", "1.bias")] == [0.1, 0, 0]


def test_a_prior_on_separate_layers_finds_one_rate():
    """All weights of one stack are in one group, or the prior would refuse to act."""
    network = nn.ModuleDict(
        {name: nn.ModuleDict({"fc8": nn.Linear(3, 2)}) for name in ("a", "b", "c")}
    )
    prior = attach_prior(network, ["*.fc8"], n_samples=10)
    optimizer = build_optimizer(network, Recipe(weight_decay=0.1), penalties=[prior])
    (group,) = {
        index
        for index, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
        if any(parameter is weight for weight in prior.stacks[0].parameters)
    }
    assert optimizer.param_groups[group]["weight_decay"] == 0
    prior.step(optimizer)


def test_what_is_frozen_is_left_out():
    network = make_network(frozen=True)
    found = settings_of(network, parameter_groups(network, Recipe()))
    assert "backbone.0.weight" not in found
    assert found["heads.fc8.weight"] == (1, 0)


def test_optimizers_have_the_settings_of_the_recipe():
    network = nn.Linear(3, 2)
    sgd = build_optimizer(network, Recipe(learning_rate=0.5, momentum=0.8, nesterov=True))
    assert isinstance(sgd, torch.optim.SGD)
    assert (sgd.defaults["lr"], sgd.defaults["momentum"], sgd.defaults["nesterov"]) == (
        0.5,
        0.8,
        True,
    )
    adamw = build_optimizer(network, Recipe(optimizer="adamw", momentum=0.8))
    assert isinstance(adamw, torch.optim.AdamW)
    assert adamw.defaults["betas"] == (0.8, 0.999)


def test_rates_are_set_as_multiples():
    optimizer = build_optimizer(nn.Linear(3, 2), Recipe())
    set_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.5]


def test_a_network_that_does_not_train_is_refused():
    with pytest.raises(ValueError, match="`network` must have parameters that train: got none"):
        build_optimizer(nn.Linear(3, 2).requires_grad_(False), Recipe())


def test_names_of_no_layer_are_refused():
    with pytest.raises(ValueError, match="got 'heads.fc9', where the network has backbone.0, back"):
        build_optimizer(make_network(), Recipe(), new_layers=["heads.fc9"])


def test_what_trains_is_what_the_recipe_says():
    check_trained(make_network(), None)
    check_trained(make_network(), "all")
    check_trained(make_network(frozen=True), "fully-connected")
    check_trained(MultitaskNetwork(4, 2, n_outputs=2), "heads")
    check_trained(nn.Linear(3, 2), "heads")


@pytest.mark.parametrize(
    ("frozen", "trained", "message"),
    [
        (True, "heads", "where the recipe trains 'heads': 'backbone.2.weight' trains. Build the"),
        (False, "fully-connected", "trains 'fully-connected': 'backbone.0.weight' trains"),
        (True, "all", "the recipe trains 'all': 'backbone.0.weight' does not train. Build the"),
    ],
)
def test_other_layers_that_train_are_refused(frozen, trained, message):
    with pytest.raises(ValueError, match=message):
        check_trained(make_network(frozen=frozen), trained)
