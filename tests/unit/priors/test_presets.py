"""The presets against the formulas that they stand for, step by step."""

import numpy as np
import pytest
import torch
from torch import nn

from multirel.priors import TensorNormalPrior
from tests.environment import array, assert_close
from tests.reference import prior as reference
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


def released(weight, **settings):
    return prior_on(weight, preset="released-code", n_samples=1000, **settings)


@pytest.mark.parametrize("factor", [0.01, 0.1, 1.0, 10.0])
def test_released_code_has_the_precision_of_its_formula(factor):
    """A = W Wᵀ + 1e-5 I; eigenvalues s become 1/s above 0.1 and stay s elsewhere; trace at most 3000."""
    weight = factor * random_weight(SHAPE)
    prior, _ = released(weight)
    prior.update()
    task, output, inputs = covariances_of(prior)
    expected = reference.released_precision(weight.reshape(3, -1))
    assert_close(np.linalg.inv(task) / np.abs(expected).max(), expected / np.abs(expected).max())
    np.testing.assert_array_equal(output, np.eye(4))
    np.testing.assert_array_equal(inputs, np.eye(5))


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_released_code_adds_the_quadratic_form_without_a_half(strength):
    """⟨W, W ×_T P⟩ times the strength, whatever N; its gradient is twice that of the half."""
    weight = related_weight(SHAPE)
    prior, network = released(weight, strength=strength)
    prior.update()
    prior().backward()
    precision = reference.released_precision(weight.reshape(3, -1))
    product = np.einsum("st,toi->soi", precision, weight)
    assert_close(prior(), strength * (weight * product).sum())
    assert_close(network["a"].weight.grad, 2 * strength * product)


def test_released_code_has_no_log_determinant():
    """Its objective is the quadratic form."""
    prior, _ = released(related_weight(SHAPE))
    prior.update()
    assert_close(prior.objective(), array(prior()))


def test_released_code_has_a_trace_of_3000_at_most():
    """Eigenvalues above 0.1 give precisions below 10, so that takes more than 300 tasks."""
    weight = 0.3 * random_weight((400, 1, 500))
    prior, _ = released(weight)
    prior.update()
    precision = np.linalg.inv(covariances_of(prior)[0])
    assert np.trace(precision) <= 3000 * (1 + 1e-4)
    few = reference.released_precision(weight.reshape(400, -1))
    assert_close(np.trace(precision), np.trace(few), factor=100)
    small = released(np.sqrt(0.11) * np.eye(350).reshape(350, 1, 350))[0]
    small.update()
    assert_close(np.trace(np.linalg.inv(covariances_of(small)[0])), 3000.0)


def test_released_code_keeps_small_eigenvalues_as_they_are():
    """The inverse by trial: a direction of little variance is hardly penalized."""
    weight = np.diag([2.0, 0.1]).reshape(2, 1, 2)
    prior, _ = released(weight)
    prior.update()
    expected = np.diag([1 / (4 + 1e-5), 0.01 + 1e-5])
    assert_close(np.linalg.inv(covariances_of(prior)[0]), expected)


def test_released_code_updates_every_hundred_steps_without_end():
    """And is part of the loss."""
    prior, network = released(related_weight(SHAPE))
    assert prior.application == "gradient"
    np.testing.assert_array_equal(covariances_of(prior)[0], np.eye(3))
    changes = []
    for step in range(1, 302):
        set_weight(network, random_weight(SHAPE, seed=step))
        before = covariances_of(prior)[0]
        prior.step()
        if np.abs(covariances_of(prior)[0] - before).max() > 0:
            changes.append(step)
    assert changes == [100, 200, 300]


def test_released_code_starts_with_unrelated_tasks():
    """P = I: the penalty is ‖W‖² until the first update."""
    weight = related_weight(SHAPE)
    assert_close(released(weight)[0](), (weight**2).sum())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"modes": ("task", "output")},
            "`modes` must be left alone with the preset 'released-code'",
        ),
        ({"shrinkage": 0.1}, "`shrinkage` must be left alone with the preset 'released-code'"),
        ({"shrinkage_target": "constant-correlation"}, "`shrinkage_target` must be left alone"),
        ({"scale": "free"}, "`scale` must be left alone with the preset 'released-code'"),
        ({"jitter": 1e-3}, "`jitter` must be left alone with the preset 'released-code'"),
        ({"inverse": "pseudo"}, "`covariance_update` must be left alone with inverse='pseudo'"),
        ({"rank": 2}, "`rank` must be 'auto' or None"),
        ({"share_task_covariance": True}, "`share_task_covariance` must be False with the preset"),
    ],
)
def test_released_code_knows_no_other_rule(settings, message):
    """What it would ignore says so."""
    with pytest.raises(ValueError, match=message):
        released(related_weight(SHAPE), **settings)


def test_paper_is_the_literal_form():
    """Σ_k = S_k + εI from identity covariances, in the gradient, again and again, at full rank."""
    weight = related_weight(SHAPE)
    prior, _ = prior_on(weight, preset="paper")
    assert prior.application == "gradient"
    for matrix, size in zip(covariances_of(prior), SHAPE, strict=True):
        np.testing.assert_array_equal(matrix, np.eye(size))
    expected = [np.eye(size) for size in SHAPE]
    for _ in range(2):
        prior.update()
        steps = [lambda scatter: scatter + 1e-3 * np.eye(len(scatter))] * 3
        expected = reference.sweep(weight, expected, steps, precision_of=_inverse)
    for matrix, reference_matrix in zip(covariances_of(prior), expected, strict=True):
        assert_close(matrix, reference_matrix, factor=1000)
    (row,) = prior.summary().rows
    assert (row.updates, row.rank) == ("2 of no end", "full, full, full")


def _inverse(mode, matrix):
    del mode
    return np.linalg.inv(matrix)


def test_settings_of_a_preset_may_be_changed():
    """Those that are given go before."""
    prior, network = prior_on(
        related_weight(SHAPE), preset="paper", application="proximal", modes=["task"], n_updates=3
    )
    assert prior.application == "proximal"
    (row,) = prior.summary().rows
    assert (row.modes, row.updates) == ("task 0", "0 of 3")
    before = weight_of(network)
    prior.step(torch.optim.SGD(network.parameters(), lr=0.1))
    assert np.abs(weight_of(network)).max() < np.abs(before).max()


def test_presets_take_patterns_as_attaching_does():
    """Layers by pattern; the task mode may be left out."""
    network = nn.ModuleDict({task: nn.Linear(4, 3) for task in ("a", "b")})
    prior = TensorNormalPrior.from_preset("paper", network, "*", n_samples=5, modes=("output",))
    assert prior.stacks[0].tasks == ("a", "b")


def test_presets_must_be_known():
    """With all that are."""
    with pytest.raises(ValueError, match="one of 'paper', 'released-code': got 'thesis'"):
        TensorNormalPrior.from_preset("thesis", network_of(related_weight(SHAPE)), "a", n_samples=5)


@pytest.mark.parametrize("preset", ["paper", "released-code"])
def test_presets_need_the_number_of_rows_and_known_settings(preset):
    """As attaching does."""
    network = network_of(related_weight(SHAPE))
    with pytest.raises(TypeError, match="`n_samples` must be given: the number of training rows"):
        TensorNormalPrior.from_preset(preset, network, "a")
    with pytest.raises(TypeError, match="must be settings of `attach_prior`: got power"):
        TensorNormalPrior.from_preset(preset, network, "a", n_samples=5, power=2)
    with pytest.raises(TypeError, match="`modes` must be a sequence of names: got 'task'"):
        TensorNormalPrior.from_preset(preset, network, "a", n_samples=5, modes="task")
