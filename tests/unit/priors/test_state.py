"""What a prior has learned goes through a file and comes back, also in the middle of a schedule."""

import copy

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from multirel.exceptions import PriorCollapseWarning
from multirel.priors import TaskRelationship, attach_prior
from tests.environment import DEVICE, array, tensor
from tests.stacks import (
    covariances_of,
    network_of,
    prior_on,
    random_weight,
    related_weight,
    set_weight,
    weight_of,
)

SHAPE = (3, 4, 5)

SETTINGS = {
    "default": {},
    "gradient": {"application": "gradient"},
    "pending": {"apply_every": 5},
    "low-rank": {"rank": 2},
    "low-rank-constant": {"rank": 2, "shrinkage_target": "constant-correlation"},
    "task-only": {"modes": ("task",)},
    "free": {"scale": "free", "jitter": 0.1},
    "determinant": {"scale": "determinant"},
    "root": {"covariance_update": "trace"},
    "pseudo": {"inverse": "pseudo"},
    "initial": {"mean": "initial"},
    "task-average": {"mean": "task-average", "mean_strength": 0.3},
    "shared": {"share_task_covariance": True},
    "released-code": {"preset": "released-code", "application": "proximal", "strength": 1e-3},
}


@pytest.fixture(params=SETTINGS)
def settings(request):
    return {"n_updates": 3, "update_every": 4} | SETTINGS[request.param]


def attached(settings, *, is_equal=False):
    """A prior on two stacks, their network and an optimizer, all new."""
    weights = [random_weight(SHAPE), random_weight((3, 2, 4), 1)]
    if is_equal:
        weights = [np.broadcast_to(weight[:1], weight.shape).copy() for weight in weights]
    prior, network = prior_on(*weights, **settings)
    return prior, network, torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.5)


def train(prior, network, optimizer, n_steps):
    """Steps towards fixed targets."""
    targets = [tensor(related_weight(weight.shape, 7)) for weight in network.parameters()]
    for _ in range(n_steps):
        optimizer.zero_grad()
        parts = zip(network.parameters(), targets, strict=True)
        loss = sum(((weight - target) ** 2).sum() for weight, target in parts)
        if prior.application == "gradient":
            loss = loss + prior()
        loss.backward()
        optimizer.step()
        prior.step(optimizer if prior.application == "proximal" else None)


def through_file(state, path):
    save_file({name: value.cpu() for name, value in state.items()}, path)
    return load_file(path)


@pytest.mark.parametrize("n_before", [3, 7, 9])
@pytest.mark.parametrize("is_equal", [True, False])
def test_training_resumes_to_the_same_result(settings, n_before, is_equal, tmp_path):
    """Stopped between updates and with steps pending, through safetensors, to the last bit."""
    prior, network, optimizer = attached(settings, is_equal=is_equal)
    train(prior, network, optimizer, n_before)
    state = through_file(prior.state_dict(), tmp_path / "prior.safetensors")
    weights = copy.deepcopy(network.state_dict())
    momentum = copy.deepcopy(optimizer.state_dict())

    resumed, other, other_optimizer = attached(settings, is_equal=is_equal)
    other.load_state_dict(weights)
    other_optimizer.load_state_dict(momentum)
    resumed.load_state_dict(state)
    for one, two in ((prior, network), (resumed, other)):
        train(one, two, optimizer if one is prior else other_optimizer, 8)

    for layer in "ab":
        np.testing.assert_array_equal(weight_of(network, layer), weight_of(other, layer))
        for matrix, same in zip(
            covariances_of(prior, layer), covariances_of(resumed, layer), strict=True
        ):
            np.testing.assert_array_equal(matrix, same)
        for mode in ("task", "output", "input"):
            np.testing.assert_array_equal(
                prior.correlations(layer, mode), resumed.correlations(layer, mode)
            )
    assert prior.n_updates == resumed.n_updates


@pytest.mark.parametrize("mean", ["zero", "initial"])
@pytest.mark.parametrize("is_equal", [True, False])
def test_state_may_be_loaded_into_a_prior_on_trained_weights(mean, is_equal):
    """Network first, prior second: what the weights were before training is in the state."""
    prior, network, optimizer = attached({"mean": mean, "update_every": 2}, is_equal=is_equal)
    train(prior, network, optimizer, 5)
    other = network_of(weight_of(network, "a"), weight_of(network, "b"))
    resumed = attach_prior(other, [*other], n_samples=10, mean=mean, update_every=2)
    resumed.load_state_dict(prior.state_dict())
    for layer in "ab":
        np.testing.assert_array_equal(prior.correlations(layer), resumed.correlations(layer))
    assert array(prior.objective()) == array(resumed.objective())


def test_state_holds_tensors_only():
    """Named after layers and modes; copies, so that training does not change them."""
    prior, network, optimizer = attached({"update_every": 1})
    train(prior, network, optimizer, 1)
    state = prior.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    assert {"a.task.matrix", "a.output.matrix", "b.input.matrix", "counts", "pending"} <= set(state)
    before = {name: value.clone() for name, value in state.items()}
    prior.update()
    train(prior, network, optimizer, 3)
    assert all(torch.equal(before[name], state[name]) for name in state)


def test_hold_is_in_the_state():
    """A held prior stays held."""
    prior, _, _ = attached({})
    prior.hold()
    resumed, network, optimizer = attached({"update_every": 1})
    resumed.load_state_dict(prior.state_dict())
    train(resumed, network, optimizer, 3)
    assert resumed.n_updates == 0


def test_state_moves_to_the_precision_of_the_weights():
    """Saved from double, loaded into single precision."""
    prior, network, optimizer = attached({"update_every": 1})
    train(prior, network, optimizer, 1)
    resumed, _ = prior_on(
        random_weight(SHAPE), random_weight((3, 2, 4), 1), dtype=torch.float32, update_every=1
    )
    resumed.load_state_dict(prior.state_dict())
    assert resumed.state_dict()["a.task.matrix"].dtype == torch.float32
    assert resumed().dtype == torch.float32


def test_states_of_shared_covariances_are_shared_again():
    """Σ_T of the relationship is that of the layers after loading."""
    relationships = [TaskRelationship(3), TaskRelationship(3)]
    prior, network, optimizer = attached(
        {"share_task_covariance": relationships[0], "update_every": 2}
    )
    train(prior, network, optimizer, 3)
    resumed, _, _ = attached({"share_task_covariance": relationships[1]})
    resumed.load_state_dict(prior.state_dict())
    np.testing.assert_array_equal(
        array(relationships[0].correlations()), array(relationships[1].correlations())
    )


def state_of(**settings):
    prior, network, optimizer = attached({"update_every": 1} | settings)
    train(prior, network, optimizer, 1)
    return prior.state_dict()


def without(state, *names):
    return {name: value for name, value in state.items() if name not in names}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (lambda: without(state_of(), "counts"), "it differs in counts"),
        (lambda: state_of() | {"c.task.matrix": torch.eye(3)}, "it differs in c.task.matrix"),
        (lambda: without(state_of(), "a.task.matrix"), "it differs in a.task"),
        (lambda: state_of() | {"pending": torch.zeros(3)}, "it differs in the number of layers"),
        (lambda: state_of() | {"a.task.matrix": torch.eye(4)}, "expected size 3, got 4"),
        (lambda: state_of() | {"a.task.half": torch.eye(3)}, "got the parts half, matrix"),
        (lambda: state_of() | {"a.task.matrix": -torch.eye(3)}, "must be positive definite"),
        (lambda: state_of() | {"a.task.matrix": torch.full((3, 3), torch.nan)}, "finite"),
        (lambda: without(state_of(mean="initial"), "a.mean"), "it differs in a.mean"),
        (lambda: state_of() | {"a.initial": torch.ones(1, 4, 6)}, r"a.initial.*\(1, 4, 6\)"),
        (
            lambda: state_of(mean="initial") | {"a.mean": torch.ones(3, 4, 6)},
            r"a.mean.*\(3, 4, 6\)",
        ),
    ],
)
def test_states_of_other_priors_are_refused_whole(state, message):
    """With what differs; nothing is taken over."""
    found = state()
    mean = "initial" if "b.mean" in found else "zero"
    prior, _, _ = attached({"mean": mean})
    before = {name: value.clone() for name, value in prior.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        prior.load_state_dict(found)
    after = prior.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_states_of_modes_that_are_off_are_refused():
    """The prior would ignore them."""
    prior, _, _ = attached({"modes": ("task",)})
    with pytest.raises(ValueError, match="it differs in a.input.matrix, a.output.matrix, b.input"):
        prior.load_state_dict(state_of())


def test_the_warning_of_a_collapse_survives_a_checkpoint():
    """The norm from which the weights fell is in the state."""
    weight = random_weight(SHAPE)
    prior, _ = prior_on(weight, scale="free")
    resumed, network = prior_on(0.06 * weight, scale="free")
    resumed.load_state_dict(prior.state_dict())
    set_weight(network, 0.01 * weight)
    with pytest.warns(PriorCollapseWarning, match="collapses: the norm of the weights fell from"):
        resumed.update()


def test_devices_are_followed():
    """State, weights and covariances end up where the weights are."""
    prior, network, _ = attached({})
    state = {name: value.cpu() for name, value in prior.state_dict().items()}
    prior.load_state_dict(state)
    assert prior().device.type == DEVICE.type
    assert all(
        value.device.type == DEVICE.type
        for name, value in prior.state_dict().items()
        if name.endswith("matrix")
    )
    assert network["a"].weight.device.type == DEVICE.type


def test_a_state_is_a_mapping():
    prior, _ = prior_on(related_weight(SHAPE))
    with pytest.raises(TypeError, match="`state` must be what `state_dict` gave: got NoneType"):
        prior.load_state_dict(None)


@pytest.mark.parametrize("settings", [{"mean": "initial"}, {"mean": "zero"}])
def test_states_of_updates_that_found_nothing_are_loaded(settings):
    """W = M: the modes keep the covariances that they started with, of which most are the identity."""
    weight = np.zeros(SHAPE) if settings["mean"] == "zero" else random_weight(SHAPE)
    prior, _ = prior_on(weight, **settings)
    prior.update()
    resumed, _ = prior_on(weight, **settings)
    resumed.load_state_dict(prior.state_dict())
    assert resumed.n_updates == 1
    for matrix, same in zip(covariances_of(prior), covariances_of(resumed), strict=True):
        np.testing.assert_array_equal(matrix, same)


def test_states_that_have_learned_fewer_modes_are_refused():
    """The modes that they lack would count as updated, and stay the identity for good."""
    before, _ = prior_on(related_weight(SHAPE), modes=("task",))
    before.update()
    prior, _ = prior_on(related_weight(SHAPE))
    with pytest.raises(ValueError, match=r"same layers and modes: it differs in .*input"):
        prior.load_state_dict(before.state_dict())


def test_states_of_tasks_in_another_order_are_refused():
    """Their covariances would be those of others."""
    layers = {name: nn.Linear(3, 2) for name in ("oslo", "lyon")}
    prior = attach_prior(nn.ModuleDict(layers), "*", n_samples=10)
    turned = attach_prior(nn.ModuleDict(dict(reversed(layers.items()))), "*", n_samples=10)
    with pytest.raises(
        ValueError, match="tasks of '\\*' in their order: expected lyon, oslo, got oslo, lyon"
    ):
        turned.load_state_dict(prior.state_dict())
