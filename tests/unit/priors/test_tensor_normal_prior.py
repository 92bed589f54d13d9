"""The schedule of a prior, what it refuses, and what it warns of."""

import re
import warnings
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from multirel.exceptions import NotFiniteError, NotPositiveDefiniteError, PriorCollapseWarning
from multirel.priors import attach_prior
from tests.environment import DEVICE, DTYPE, array, assert_close
from tests.reference import prior as reference
from tests.stacks import (
    covariances_of,
    prior_on,
    random_weight,
    related_weight,
    set_weight,
    weight_of,
)

SHAPE = (3, 2, 4)


def sgd(network, lr=0.1, **options):
    return torch.optim.SGD(network.parameters(), lr=lr, **options)


def changes(values):
    """At which steps, counted from 1, an array differs from the one before."""
    pairs = enumerate(pairwise(values), start=1)
    return [step for step, (a, b) in pairs if np.abs(a - b).max() > 0]


def run(prior, network, *, n_steps, optimizer=None):
    """The task covariance and the weights before the first step and after each."""
    covariances, weights = [covariances_of(prior)[0]], [weight_of(network)]
    for _ in range(n_steps):
        prior.step(optimizer)
        covariances.append(covariances_of(prior)[0])
        weights.append(weight_of(network))
    return covariances, weights


@pytest.mark.parametrize(
    ("n_updates", "every", "expected"),
    [(0, 3, []), (1, 3, [3]), (2, 3, [3, 6]), (None, 3, [3, 6, 9]), (None, 4, [4, 8]), (5, 20, [])],
)
def test_updates_come_on_schedule_and_end(n_updates, every, expected):
    """Every `update_every` steps, `n_updates` times."""
    prior, network = prior_on(related_weight(SHAPE), n_updates=n_updates, update_every=every)
    covariances, _ = run(prior, network, n_steps=11, optimizer=sgd(network))
    assert changes(covariances) == expected
    assert prior.n_updates == len(expected)


@pytest.mark.parametrize(("every", "expected"), [(1, [1, 2, 3, 4, 5, 6, 7]), (3, [3, 6]), (9, [])])
def test_applications_come_on_schedule(every, expected):
    """Every `apply_every` steps."""
    prior, network = prior_on(related_weight(SHAPE), apply_every=every)
    _, weights = run(prior, network, n_steps=7, optimizer=sgd(network))
    assert changes(weights) == expected


def test_pending_steps_are_applied_at_once():
    """Three steps of rate r are one of 3r, since the covariances are held in between."""
    weight = related_weight(SHAPE)
    prior, network = prior_on(weight, apply_every=3, modes=("task",))
    for _ in range(3):
        prior.step(sgd(network, lr=0.2))
    precisions = [np.linalg.inv(0.5 * np.eye(3) + 0.5), np.eye(2), np.eye(4)]
    assert_close(weight_of(network), reference.prox(weight, precisions, 0.6 / 10))


def test_apply_takes_the_pending_steps_or_one_if_there_are_none():
    """By hand, at the end of training; afterwards nothing is pending."""
    weight = related_weight(SHAPE)
    precisions = [np.linalg.inv(0.5 * np.eye(3) + 0.5), np.eye(2), np.eye(4)]
    prior, network = prior_on(weight, apply_every=10, modes=("task",))
    optimizer = sgd(network, lr=0.2)
    prior.step(optimizer)
    prior.step(optimizer)
    prior.apply(optimizer)
    expected = reference.prox(weight, precisions, 0.4 / 10)
    assert_close(weight_of(network), expected)
    prior.apply(optimizer)
    assert_close(weight_of(network), reference.prox(expected, precisions, 0.2 / 10))


@pytest.mark.parametrize(("size", "every"), [(500_000, 1), (500_001, 10)])
def test_large_stacks_are_applied_to_less_often(size, every):
    """apply_every="auto": every step up to a million weights, every tenth above."""
    weight = torch.ones(2, 1, size, dtype=torch.float32)
    prior, network = prior_on(weight, dtype=torch.float32, modes=("task",))
    (row,) = prior.summary().rows
    assert row.cost.endswith("every step" if every == 1 else "every 10 steps")
    optimizer = sgd(network)
    touched = []
    for _ in range(10):
        before = float(network["a"].weight[0, 0, 0].detach())
        prior.step(optimizer)
        touched.append(float(network["a"].weight[0, 0, 0].detach()) != before)
    assert touched == [step % every == 0 for step in range(1, 11)]


def test_stacks_of_different_sizes_keep_their_own_schedule():
    """Within one prior."""
    large = torch.ones(2, 1, 500_001)
    prior, network = prior_on(np.ones((2, 1, 3)), large, dtype=torch.float32, modes=("task",))
    prior.step(sgd(network))
    assert float(network["a"].weight[0, 0, 0].detach()) < 1
    assert float(network["b"].weight[0, 0, 0].detach()) == 1


def test_hold_stops_scheduled_updates():
    """Those that were made stay; updates by hand still happen; applications go on."""
    prior, network = prior_on(related_weight(SHAPE), n_updates=None, update_every=2)
    optimizer = sgd(network)
    covariances, _ = run(prior, network, n_steps=2, optimizer=optimizer)
    assert changes(covariances) == [2]
    prior.hold()
    covariances, weights = run(prior, network, n_steps=6, optimizer=optimizer)
    assert changes(covariances) == []
    assert changes(weights) == [1, 2, 3, 4, 5, 6]
    before = covariances_of(prior)[0]
    prior.update()
    assert np.abs(covariances_of(prior)[0] - before).max() > 0
    assert prior.n_updates == 2


def test_updates_by_hand_count_towards_the_scheduled_ones():
    """One update is one update."""
    prior, network = prior_on(related_weight(SHAPE), n_updates=1, update_every=2)
    prior.update()
    covariances, _ = run(prior, network, n_steps=5, optimizer=sgd(network))
    assert changes(covariances) == []


def test_gradient_applications_need_no_optimizer():
    """`prior.step()` updates only, and leaves the weights alone also if one is given."""
    prior, network = prior_on(related_weight(SHAPE), application="gradient", update_every=2)
    covariances, weights = run(prior, network, n_steps=3)
    assert (changes(covariances), changes(weights)) == ([2], [])
    _, weights = run(prior, network, n_steps=3, optimizer=sgd(network))
    assert changes(weights) == []


def test_proximal_applications_need_an_optimizer():
    """The error says how to call."""
    prior, _ = prior_on(related_weight(SHAPE))
    message = r"`optimizer` must be given with application='proximal': call prior.step\(optimizer\)"
    with pytest.raises(TypeError, match=message):
        prior.step()


def test_gradient_applications_cannot_be_applied():
    """They are in the loss."""
    prior, network = prior_on(related_weight(SHAPE), application="gradient")
    message = "`application` must be 'proximal' for a prior that is applied: got 'gradient'"
    with pytest.raises(ValueError, match=message):
        prior.apply(sgd(network))


def test_a_prior_that_counts_twice_is_refused():
    """`prior()` with gradients in the loss and `prior.step(optimizer)`; so with `apply`."""
    message = r"`prior\(\)` must not be in the loss with application='proximal': .* count twice"
    for act in ("step", "apply"):
        prior, network = prior_on(related_weight(SHAPE))
        prior().backward()
        with pytest.raises(ValueError, match=message):
            getattr(prior, act)(sgd(network))


def test_a_prior_that_is_only_logged_is_not_refused():
    """Without gradients, as `prior.objective()` always is."""
    prior, network = prior_on(related_weight(SHAPE))
    with torch.no_grad():
        assert not prior().requires_grad
    assert not prior.objective().requires_grad
    prior.step(sgd(network))
    network.requires_grad_(False)
    assert not prior().requires_grad
    prior.apply(sgd(network.requires_grad_(True)))


def test_gradients_of_frozen_weights_are_not_asked_for():
    """One stack frozen, the other not."""
    prior, network = prior_on(
        related_weight(SHAPE), related_weight(SHAPE, 1), application="gradient"
    )
    network["a"].requires_grad_(False)
    prior().backward()
    assert network["a"].weight.grad is None
    assert network["b"].weight.grad is not None


def test_errors_of_a_step_leave_the_schedule_as_it_was():
    """A step that was refused is no step."""
    weight = related_weight(SHAPE)
    prior, network = prior_on(weight, update_every=2, n_updates=None)
    twin, other = prior_on(weight, update_every=2, n_updates=None)
    optimizer = sgd(network)
    with suppress(TypeError):
        prior.step()
    for _ in range(3):
        prior.step(optimizer)
        twin.step(sgd(other))
    assert prior.n_updates == twin.n_updates
    np.testing.assert_array_equal(
        array(prior.state_dict()["counts"]), array(twin.state_dict()["counts"])
    )


@pytest.mark.parametrize("settings", [{}, {"share_task_covariance": True}, {"inverse": "pseudo"}])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_by_name(bad, settings):
    """Before any covariance is touched."""
    weight = related_weight(SHAPE)
    prior, network = prior_on(weight, **settings)
    before = covariances_of(prior)
    weight = weight.copy()
    weight[1, 0, 2] = bad
    set_weight(network, weight)
    message = "`network` must have finite weights: those of 'a' hold NaN or infinity. Lower the"
    with pytest.raises(NotFiniteError, match=message):
        prior.update()
    for one, other in zip(covariances_of(prior), before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert prior.n_updates == 0


@pytest.mark.parametrize(
    "settings", [{}, {"share_task_covariance": True}, {"scale": "determinant"}]
)
def test_weights_of_zero_leave_the_covariances_alone(settings):
    """They say nothing."""
    prior, _ = prior_on(np.zeros(SHAPE), **settings)
    before = covariances_of(prior)
    prior.update()
    for one, other in zip(covariances_of(prior), before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert array(prior()).item() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(5))
def test_unit_determinants_need_shrinkage_where_the_scatter_is_singular(dtype, seed):
    """More inputs than tasks × outputs: no scale makes a singular matrix have determinant one."""
    prior, _ = prior_on(
        related_weight((2, 2, 30), seed), dtype=dtype, scale="determinant", shrinkage=0.0
    )
    message = "`shrinkage` must be above 0 with scale='determinant' here: the scatter of a mode of size 30"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        prior.update()


def test_unit_determinants_need_no_shrinkage_where_the_scatter_is_regular():
    """α = 0 with more columns than rows in every mode."""
    prior, _ = prior_on(related_weight((3, 4, 5)), scale="determinant", shrinkage=0.0, jitter=0.0)
    for _ in range(3):
        prior.update()
    for matrix in covariances_of(prior):
        assert_close(np.linalg.det(matrix), 1.0, factor=100)


def test_jitter_of_unit_determinants_leaves_the_identity_alone():
    """R of Σ = I is I, before and after an update: otherwise the objective could rise by the jitter."""
    weight = np.ones((2, 1, 1)) * np.array([1.0, -1.0])[:, None, None]
    prior, _ = prior_on(
        weight, scale="determinant", shrinkage=0.0, jitter=0.1, start=0.0, modes=("output",)
    )
    before = array(prior()).item()
    prior.update()
    assert array(prior()).item() == pytest.approx(before, rel=1e-5)
    assert before == pytest.approx((weight**2).sum() / 2 / 10, rel=1e-5)


def test_a_singular_covariance_says_what_helps():
    """scale="trace" without shrinkage and jitter, where there are more inputs than other entries."""
    prior, _ = prior_on(related_weight((2, 2, 30)), shrinkage=0.0, jitter=0.0)
    message = "of size 30 must be positive definite: .* Shrink it"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        prior.update()


def test_jitter_is_relative_to_the_mean_eigenvalue():
    """With fixed traces: Σ = (S d / tr S + jitter I) / (1 + jitter), however small the weights."""
    for factor in (1.0, 1e-4):
        weight = factor * related_weight((2, 2, 30))
        prior, _ = prior_on(weight, shrinkage=0.0, jitter=0.01, modes=("input",))
        prior.update()
        eigenvalues = np.linalg.eigvalsh(covariances_of(prior)[2])
        assert_close(eigenvalues[0], 0.01 / 1.01)


def test_collapse_of_the_literal_form_is_warned_of_once():
    """With the norms before and after, the largest variance and ε; training goes on."""
    weight = random_weight(SHAPE)
    prior, network = prior_on(
        weight, scale="free", jitter=1e-3, n_updates=None, update_every=1, n_samples=1
    )
    optimizer = sgd(network, lr=0.02)
    found = []
    for _ in range(300):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            prior.step(optimizer)
        found += caught
    (warning,) = found
    assert warning.category is PriorCollapseWarning
    norm = np.linalg.norm(weight)
    message = str(warning.message)
    assert (
        f"The prior on 'a' collapses: the norm of the weights fell from {norm:.3g} to 0." in message
    )
    assert "with jitter 0.001. The objective of scale='free' has no useful minimum" in message
    # Scales of single modes are not identifiable: what shows the collapse is their product.
    largest = float(re.search(r"the largest variance of a weight is ([\d.e-]+)", message)[1])
    product = np.prod([np.diag(matrix).max() for matrix in covariances_of(prior)])
    assert product / 2 < largest < 0.1
    assert np.linalg.norm(weight_of(network)) < 0.05 * norm


def test_collapse_to_the_initial_weights_is_warned_of_as_well():
    """With mean="initial" it is W − M that goes to zero, and not W."""
    weight = related_weight(SHAPE)
    prior, network = prior_on(weight, scale="free", jitter=1e-3, mean="initial", n_updates=None)
    change = random_weight(SHAPE)
    set_weight(network, weight + change)
    prior.update()
    set_weight(network, weight + 1e-3 * change)
    with pytest.warns(PriorCollapseWarning, match="The prior on 'a' collapses"):
        prior.update()


@pytest.mark.parametrize("scale", ["trace", "determinant"])
def test_fixed_scales_do_not_collapse(scale):
    """The same training, without a warning: the scale of the covariances stays."""
    prior, network = prior_on(random_weight(SHAPE), scale=scale, n_updates=None, update_every=5)
    optimizer = sgd(network, lr=0.02)
    for _ in range(100):
        prior.step(optimizer)
    for matrix in covariances_of(prior):
        assert np.linalg.eigvalsh(matrix)[-1] >= 0.99


def test_names_of_layers_and_modes_must_be_known():
    """In `correlations`, with all that are."""
    prior, _ = prior_on(related_weight(SHAPE), related_weight(SHAPE))
    with pytest.raises(
        ValueError, match="`layer` must be one that has this prior: expected 'a', 'b', got 'c'"
    ):
        prior.correlations("c")
    message = "`mode` must be a mode of 'a': expected task, output, input, got 'kernel'"
    with pytest.raises(ValueError, match=message):
        prior.correlations("a", "kernel")


def own_network():
    torch.manual_seed(0)
    layers = {
        task: nn.ModuleDict({"fc7": nn.Linear(5, 4), "fc8": nn.Linear(4, 3)})
        for task in ("x", "y", "z")
    }
    network = nn.Module()
    network.heads = nn.ModuleDict(layers)
    return network.to(DEVICE, DTYPE)


def outputs(network, x, task):
    rows = zip(x, task, strict=True)
    heads = list(network.heads.values())
    return torch.stack([heads[t]["fc8"](F.relu(heads[t]["fc7"](row))) for row, t in rows])


@pytest.mark.parametrize("application", ["proximal", "gradient"])
def test_both_ways_to_use_a_prior_learn_tasks_with_few_rows(application):
    """The two lines in a plain training loop, on layers of a network of the user's own."""
    torch.manual_seed(0)
    network = own_network()
    x, task = torch.randn(30, 5, dtype=DTYPE, device=DEVICE), [row % 3 for row in range(30)]
    y = x[:, :3].argmax(1)
    prior = attach_prior(
        network,
        ["heads.*.fc7", "heads.*.fc8"],
        n_samples=30,
        update_every=10,
        application=application,
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(outputs(network, x, task), y)
        losses.append(float(loss.detach()))
        (loss + prior() if application == "gradient" else loss).backward()
        optimizer.step()
        prior.step() if application == "gradient" else prior.step(optimizer)
    assert losses[-1] < 0.6 * losses[0]
    assert prior.n_updates == 1
    assert prior.correlations("heads.*.fc8").shape == (3, 3)


def test_covariances_and_precisions_of_a_layer_are_named_by_its_modes():
    prior, _ = prior_on(random_weight(SHAPE), shrinkage=0.5)
    prior.update()

    covariances, precisions = prior.covariances("a"), prior.precisions("a")

    assert [*covariances] == [*precisions] == ["task", "output", "input"]
    for mode, expected in zip(covariances, covariances_of(prior), strict=True):
        matrix = covariances[mode].dense()
        assert_close(matrix, expected)
        assert_close(precisions[mode].power_product(matrix, 1.0, 0), np.eye(len(expected)))
