"""What every penalty has in common: one suite, one table of settings."""

import copy

import numpy as np
import pytest
import torch

from multirel.priors import Penalty, TensorNormalPrior
from tests.environment import DEVICE, array, assert_close, tensor
from tests.stacks import prior_on, random_weight, related_weight, weight_of

SHAPES = [(3, 4, 5), (3, 2, 4)]
STRENGTH, N_SAMPLES = 2.0, 10

SETTINGS = {
    "default": {},
    "task-only": {"modes": ("task",)},
    "input-only": {"modes": ("input",)},
    "no-mode": {"shrinkage": 1.0},
    "start-matrix": {"start": [[1.0, 0.2, -0.1], [0.2, 1.0, 0.6], [-0.1, 0.6, 1.0]]},
    "constant-correlation": {"shrinkage": 0.4, "shrinkage_target": "constant-correlation"},
    "initial": {"mean": "initial"},
    "task-average": {"mean": "task-average"},
    "task-average-strength": {"mean": "task-average", "mean_strength": 0.7},
    "low-rank": {"rank": 2, "shrinkage": 0.3},
    "low-rank-average": {"rank": 1, "shrinkage": 0.3, "mean": "task-average"},
    "free": {"scale": "free", "jitter": 0.5},
    "free-initial": {"scale": "free", "jitter": 0.5, "mean": "initial"},
    "free-shared": {
        "scale": "free",
        "jitter": 0.5,
        "share_task_covariance": True,
        "weighting": "size",
    },
    "determinant": {"scale": "determinant"},
    "root": {"covariance_update": "trace"},
    "pseudo": {"inverse": "pseudo"},
    "pseudo-free": {"inverse": "pseudo", "scale": "free"},
    "shared": {"share_task_covariance": True},
    "shared-size": {"share_task_covariance": True, "weighting": "size"},
    "shared-root": {"share_task_covariance": True, "covariance_update": "trace"},
    "shared-determinant": {"share_task_covariance": True, "scale": "determinant"},
    "convolution": {"shapes": [(3, 2, 4, 6), (3, 2, 2, 3)]},
    "height-width": {"shapes": [(3, 2, 2, 3, 2)]},
    "released-code": {"preset": "released-code", "strength": 0.01},
    "paper": {"preset": "paper", "jitter": 0.5},
}


@pytest.fixture(params=SETTINGS)
def settings(request):
    return dict(SETTINGS[request.param])


def made(settings, **changes):
    """A penalty, its network and an optimizer."""
    options = {"strength": STRENGTH, "n_samples": N_SAMPLES} | settings | changes
    shapes = options.pop("shapes", SHAPES)
    if options.get("preset") and "application" not in changes:
        options["application"] = "proximal"
    weights = [related_weight(shape, seed) for seed, shape in enumerate(shapes)]
    prior, network = prior_on(*weights, **options)
    return prior, network, torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.5)


def move(network, seed=3):
    """Other weights, as training would leave them."""
    with torch.no_grad():
        for index, weight in enumerate(network.parameters()):
            weight.add_(tensor(0.5 * random_weight(weight.shape, seed + index)))


def learned(settings, **changes):
    """A penalty that was updated once, and acts on other weights."""
    prior, network, optimizer = made(settings, **changes)
    move(network)
    prior.update()
    move(network, 9)
    return prior, network, optimizer


def weights_of(network):
    return [weight_of(network, layer) for layer in network]


def state_of(prior):
    return {name: value.clone() for name, value in prior.state_dict().items()}


def assert_same_state(prior, before):
    after = prior.state_dict()
    assert set(after) == set(before)
    assert all(torch.equal(after[name], before[name]) for name in before)


def assert_same_weights(network, before):
    for actual, expected in zip(weights_of(network), before, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_penalties_answer_the_protocol(settings):
    """`__call__`, `apply`, `update` and `step`: all that training asks."""
    prior, _, _ = made(settings)
    assert isinstance(prior, Penalty)
    assert isinstance(prior, TensorNormalPrior)


def test_calls_change_nothing(settings):
    """Neither the weights nor what is learned; the same number every time."""
    prior, network, _ = learned(settings)
    weights, state = weights_of(network), state_of(prior)
    values = [array(prior()), array(prior())]
    prior.objective()
    np.testing.assert_array_equal(*values)
    assert_same_weights(network, weights)
    assert_same_state(prior, state)


def test_values_are_differentiable_scalars_that_are_not_negative(settings):
    """On the device and in the precision of the weights, with a gradient for each."""
    prior, network, _ = learned(settings)
    value = prior()
    weight = network["a"].weight
    assert value.shape == ()
    assert (value.dtype, value.device.type) == (weight.dtype, DEVICE.type)
    assert float(value.detach()) >= 0
    value.backward()
    for parameter in network.parameters():
        assert torch.isfinite(parameter.grad).all()


def test_gradients_are_the_slopes_of_the_values(settings):
    """Quadratic in the weights: central differences are exact."""
    prior, network, _ = learned(settings)
    prior().backward()
    direction = [tensor(random_weight(w.shape, 21)) for w in network.parameters()]
    pairs = list(zip(network.parameters(), direction, strict=True))
    slope = sum(float((w.grad * d).sum()) for w, d in pairs)
    values = []
    for sign in (1, -2):
        with torch.no_grad():
            for weight, change in pairs:
                weight.add_(sign * change)
            values.append(float(prior()))
    assert_close((values[0] - values[1]) / 2, slope, factor=1000)


def test_zero_strength_does_nothing(settings):
    """Value, gradient and application; the covariances are learned all the same."""
    prior, network, optimizer = learned(settings, strength=0.0)
    weights = weights_of(network)
    prior.apply(optimizer)
    for actual, expected in zip(weights_of(network), weights, strict=True):
        assert_close(actual, expected)
    value = prior()
    value.backward()
    assert float(value.detach()) == 0
    assert not any(parameter.grad.any() for parameter in network.parameters())
    assert prior.n_updates == 1


def test_applications_never_raise_the_penalty(settings):
    """At fixed covariances."""
    prior, _, optimizer = learned(settings)
    with torch.no_grad():
        values = [float(prior())]
        for _ in range(3):
            prior.apply(optimizer)
            values.append(float(prior()))
    assert (np.diff(values) <= 1e-6 * (1 + values[0])).all()


def test_applications_after_sgd_have_the_minimizer_as_fixed_point(settings):
    """At fixed covariances the loop stops where the gradient of loss + penalty vanishes."""
    prior, network, optimizer = learned(settings)
    targets = [tensor(random_weight(weight.shape, 33)) for weight in network.parameters()]
    twin, other, _ = learned(settings, application="gradient")

    def loss(parameters):
        pairs = zip(parameters, targets, strict=True)
        return sum(((weight - target) ** 2).sum() for weight, target in pairs)

    prior.hold()
    for _ in range(250):
        optimizer.zero_grad()
        loss(network.parameters()).backward()
        optimizer.step()
        prior.step(optimizer)
    other.load_state_dict(network.state_dict())
    (loss(other.parameters()) + twin()).backward()
    for parameter in other.parameters():
        assert_close(parameter.grad, np.zeros(parameter.shape), factor=100)


def test_steps_apply_and_update_on_schedule(settings):
    """Every second and every third step, twice; then only the weights move."""
    prior, network, optimizer = made(
        settings, apply_every=2, update_every=3, n_updates=2, n_samples=1e3
    )
    applied, updated = [], []
    for step in range(1, 11):
        weights, n_updates = weights_of(network), prior.n_updates
        prior.step(optimizer)
        pairs = zip(weights, weights_of(network), strict=True)
        if any((before != after).any() for before, after in pairs):
            applied.append(step)
        if prior.n_updates > n_updates:
            updated.append(step)
        move(network, step)
    assert applied == [2, 4, 6, 8, 10]
    assert updated == [3, 6]


def test_updates_leave_the_weights_alone(settings):
    """They change what is learned, and the same weights teach the same."""
    prior, network, _ = made(settings)
    twin, other, _ = made(settings)
    for each, weights in ((prior, network), (twin, other)):
        move(weights)
        before = weights_of(weights)
        each.update()
        assert_same_weights(weights, before)
    assert_same_state(twin, state_of(prior))


def test_state_goes_through_a_round_trip(settings):
    """In the middle of a schedule; training goes on to the same result."""
    schedule = {"apply_every": 3, "update_every": 4, "n_updates": 2, "n_samples": 1e3}
    prior, network, optimizer = made(settings, **schedule)
    for step in range(5):
        prior.step(optimizer)
        move(network, step)
    resumed, other, other_optimizer = made(settings, **schedule)
    other.load_state_dict(network.state_dict())
    resumed.load_state_dict(copy.deepcopy(prior.state_dict()))
    assert_same_state(resumed, state_of(prior))
    for one, two, three in ((prior, network, optimizer), (resumed, other, other_optimizer)):
        for step in range(6):
            one.step(three)
            move(two, step)
    assert_same_weights(other, weights_of(network))
    assert_same_state(resumed, state_of(prior))


def test_precision_of_the_weights_is_followed(settings):
    """`network.to(dtype)` after attaching."""
    prior, network, _ = learned(settings)
    weight = network["a"].weight
    wanted = torch.float32 if weight.dtype == torch.float64 else torch.float64
    network.to(wanted)
    with torch.no_grad():
        assert prior().dtype == wanted
    prior.apply(torch.optim.SGD(network.parameters(), lr=0.1))
    prior.update()
    assert network["a"].weight.dtype == wanted


def test_summaries_have_a_row_per_stack(settings):
    """Also after updates."""
    prior, network, _ = learned(settings)
    assert [row.layer for row in prior.summary().rows] == [*network]
    assert str(prior.summary()).count("\n") == len(network)


def test_correlations_are_symmetric_with_unit_diagonal(settings):
    """For every layer and mode."""
    prior, _, _ = learned(settings)
    for stack in prior.stacks:
        for mode, size in zip(stack.modes, stack.shape, strict=True):
            found = prior.correlations(stack.layer, mode)
            assert found.shape == (size, size)
            assert_close(found, found.T)
            np.testing.assert_array_equal(np.diag(found), np.ones(size))
