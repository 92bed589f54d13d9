"""What `correlations()` says: of the weights, or of how training has changed them."""

import numpy as np
import pytest
import torch
from torch import nn

from multirel.networks import MultitaskNetwork
from multirel.priors import attach_prior
from tests.environment import DEVICE, DTYPE, assert_close
from tests.stacks import prior_on, random_weight, related_weight, set_weight

SHAPE = (3, 4, 5)


def equal_start(shape=SHAPE):
    return np.broadcast_to(random_weight((1, *shape[1:])), shape).copy()


def test_correlations_are_arrays_with_unit_diagonal():
    """Of any mode, in double precision, within ±1."""
    prior, _ = prior_on(related_weight(SHAPE), dtype=torch.float32)
    prior.update()
    for mode, size in zip(("task", "output", "input"), SHAPE, strict=True):
        found = prior.correlations("a", mode)
        assert isinstance(found, np.ndarray)
        assert (found.shape, found.dtype) == ((size, size), np.float64)
        np.testing.assert_array_equal(np.diag(found), np.ones(size))
        np.testing.assert_array_equal(found, found.T)
        assert np.abs(found).max() <= 1


def test_modes_that_are_off_have_no_correlations():
    """The identity."""
    prior, _ = prior_on(related_weight(SHAPE), modes=("task",))
    np.testing.assert_array_equal(prior.correlations("a", "input"), np.eye(5))


def test_layers_that_start_apart_report_the_covariance_of_the_prior():
    """Raw or not; the summary says weights."""
    prior, network = prior_on(related_weight(SHAPE))
    assert_close(prior.correlations("a"), 0.5 * np.eye(3) + 0.5)
    set_weight(network, random_weight(SHAPE, 1))
    prior.update()
    np.testing.assert_array_equal(prior.correlations("a"), prior.correlations("a", raw=True))
    assert prior.summary().rows[0].correlations == "weights"


def test_layers_that_start_equal_have_nothing_to_report_before_training():
    """NaN, not 0 and not 1; raw is the start."""
    prior, _ = prior_on(equal_start())
    expected = np.where(np.eye(3) == 1, 1.0, np.nan)
    np.testing.assert_array_equal(prior.correlations("a"), expected)
    prior.update()
    np.testing.assert_array_equal(prior.correlations("a"), expected)
    assert_close(
        prior.correlations("a", "task", True)[0, 1], prior.correlations("a", raw=True)[0, 1]
    )
    assert prior.summary().rows[0].correlations == "change"


def test_layers_that_start_equal_report_how_training_has_changed_them():
    """Two tasks moved the same way and one the other way, by little: raw correlations hide it."""
    start, change = equal_start(), np.empty(SHAPE)
    change[:] = 0.01 * random_weight((1, *SHAPE[1:]), 1)
    change[2] *= -1
    prior, network = prior_on(start, modes=("task",), shrinkage=0.0, jitter=1e-9)
    set_weight(network, start + change)
    prior.update()
    expected = np.array([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    np.testing.assert_allclose(prior.correlations("a"), expected, atol=1e-3)
    assert prior.correlations("a", raw=True).min() > 0.99


def test_reported_changes_are_shrunk_as_the_prior_is():
    """With shrinkage α on the task mode, correlations of ±1 become ±(1 − α)."""
    start = equal_start((2, 4, 5))
    change = np.stack([np.ones((4, 5)), -np.ones((4, 5))])
    prior, network = prior_on(start, modes=("task",), shrinkage=0.3, jitter=0.0)
    set_weight(network, start + change)
    assert_close(prior.correlations("a")[0, 1], -0.7)


def test_reports_change_nothing():
    """Neither the covariances nor the penalty."""
    prior, network = prior_on(equal_start())
    set_weight(network, related_weight(SHAPE))
    before = {name: value.clone() for name, value in prior.state_dict().items()}
    for mode in ("task", "output", "input"):
        prior.correlations("a", mode)
    prior.summary()
    after = prior.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_initial_means_report_the_change_as_well():
    """W − M is the change then, and raw is the prior's own covariance of it."""
    start = equal_start()
    prior, network = prior_on(start, mean="initial", modes=("task",))
    set_weight(network, start + related_weight(SHAPE))
    prior.update()
    assert_close(prior.correlations("a"), prior.correlations("a", raw=True))


def test_opposite_tasks_with_equal_hidden_starts_are_seen_as_opposite():
    """A network whose fc7 starts equal, tasks whose labels are swapped: a short training shows it."""
    torch.manual_seed(0)
    options = {"dtype": DTYPE, "device": DEVICE}
    network = MultitaskNetwork(6, ["one", "same", "opposite"], n_outputs=1, hidden_sizes=(8,))
    network = network.to(**options)
    with torch.no_grad():
        first = network.heads["fc8"].weight[:1].clone()
        network.heads["fc8"].weight.copy_(first.expand_as(network.heads["fc8"].weight))
    prior = attach_prior(network, ["heads.fc7", "heads.fc8"], n_samples=300, update_every=20)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    x = torch.randn(300, 6, **options)
    task = torch.arange(300, device=DEVICE) % 3
    y = x[:, :1] * torch.where(task == 2, -1.0, 1.0).to(x).unsqueeze(1)
    for _ in range(20):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(x, task), y).backward()
        optimizer.step()
        prior.step(optimizer)
    changed = prior.correlations("heads.fc7")
    assert changed[0, 1] > 0.5
    assert changed[0, 2] < 0
    assert changed[1, 2] < 0
    raw = prior.correlations("heads.fc7", raw=True)
    assert raw[0, 2] > 0.5
    rows = {row.layer: row.correlations for row in prior.summary().rows}
    assert rows == {"heads.fc7": "change", "heads.fc8": "change"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision_weights_have_finite_correlations(dtype):
    """The algebra is done in single precision."""
    prior, network = prior_on(equal_start(), dtype=dtype)
    set_weight(network, equal_start() + related_weight(SHAPE))
    prior.update()
    assert np.isfinite(prior.correlations("a")).all()


def test_a_change_that_is_singular_is_reported_too():
    """Where no prior could be made of it: scale="determinant" without shrinkage."""
    equal = np.broadcast_to(random_weight((1, 2, 5)), (3, 2, 5)).copy()
    prior, network = prior_on(equal, scale="determinant", shrinkage=0.0, modes=("task",))
    change = random_weight((1, 2, 5), 1) * np.array([1.0, 1.0, -1.0]).reshape(3, 1, 1)
    set_weight(network, equal + change)
    expected = np.array([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    assert_close(prior.correlations("a"), expected, factor=10)
