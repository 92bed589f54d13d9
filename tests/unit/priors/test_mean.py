"""What the weights are pulled to: zero, where they started, or their average over the tasks."""

import numpy as np
import pytest
import torch

from tests.environment import array, assert_close, tensor
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
FACTOR = 100.0


NEARLY = 1e-3
"""What is left of the distance after a step that long."""


def pulled(prior, network, lr=1e6):
    """Where a long step of the prior leaves the weights."""
    prior.apply(torch.optim.SGD(network.parameters(), lr=lr))
    return weight_of(network)


def test_zero_pulls_to_zero():
    """M = 0, the paper's."""
    prior, network = prior_on(related_weight(SHAPE))
    assert np.abs(pulled(prior, network)).max() < NEARLY


@pytest.mark.parametrize("is_equal", [True, False])
def test_initial_pulls_to_the_weights_at_attaching(is_equal):
    """Whether the tasks started equal, and one copy is kept, or not."""
    initial = related_weight(SHAPE)
    if is_equal:
        initial = np.broadcast_to(initial[:1], SHAPE).copy()
    prior, network = prior_on(initial, mean="initial")
    set_weight(network, initial + random_weight(SHAPE, 1))
    prior.update()
    np.testing.assert_allclose(pulled(prior, network), initial, rtol=0, atol=NEARLY)
    kept = [name for name in prior.state_dict() if name in ("a.initial", "a.mean")]
    assert len(kept) == 1
    assert prior.state_dict()[kept[0]].shape[0] == (1 if is_equal else 3)


def test_initial_costs_nothing_before_training():
    """W = M."""
    prior, network = prior_on(related_weight(SHAPE), mean="initial")
    prior().backward()
    assert array(prior()).item() == 0
    assert not network["a"].weight.grad.any()


@pytest.mark.parametrize("settings", [{}, {"modes": ("output",)}, {"shrinkage": {"task": 1.0}}])
@pytest.mark.parametrize("rank", [None, 1])
def test_task_average_pulls_to_the_average(settings, rank):
    """Without strength of its own the average stays as it is, with the task mode on or off."""
    weight = related_weight(SHAPE)
    prior, network = prior_on(weight, mean="task-average", rank=rank, **settings)
    prior.update()
    expected = np.broadcast_to(weight.mean(axis=0), SHAPE)
    np.testing.assert_allclose(pulled(prior, network), expected, rtol=0, atol=NEARLY)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("strength", [0.0, 0.5, 3.0])
def test_task_average_has_the_centered_precision(rank, strength):
    """P_T = C Σ_T⁻¹ C + μ 11ᵀ/T: the penalty by explicit inverses."""
    weight = related_weight((5, 2, 3))
    prior, _ = prior_on(
        weight, mean="task-average", mean_strength=strength, rank=rank, shrinkage=0.4
    )
    prior.update()
    precisions = [np.linalg.inv(matrix) for matrix in covariances_of(prior)]
    precisions[0] = reference.task_average_precision(precisions[0], strength)
    assert_close(prior(), reference.half_distance(weight, precisions) / 10, factor=FACTOR)


def test_task_average_is_live():
    """A shift that all tasks share costs nothing, whenever it happens."""
    weight = related_weight(SHAPE)
    prior, network = prior_on(weight, mean="task-average")
    before = array(prior()).item()
    set_weight(network, weight + random_weight((1, *SHAPE[1:])))
    assert_close(prior(), before)
    covariances = []
    for shift in (0.0, 5.0):
        prior, _ = prior_on(weight + shift, mean="task-average")
        prior.update()
        covariances.append(covariances_of(prior))
    for one, other in zip(*covariances, strict=True):
        assert_close(one, other, factor=FACTOR)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_task_average_keeps_its_digits_where_tasks_are_nearly_equal(dtype, rank):
    """Tasks that differ by 1e-4 of what they share: penalty and gradient are of what they differ in."""
    shape = (4, 20, 20)
    difference = random_weight(shape)
    prior, network = prior_on(difference, dtype=dtype, mean="task-average", rank=rank)
    prior.update()
    weight = random_weight((1, *shape[1:]), 1) + 1e-4 * difference
    set_weight(network, weight)
    exact = array(network["a"].weight.double())
    precisions = [np.linalg.inv(matrix) for matrix in covariances_of(prior)]
    precisions[0] = reference.task_average_precision(precisions[0], 0.0)
    expected = exact - exact.mean(axis=0)
    for mode, matrix in enumerate(precisions):
        expected = np.moveaxis(np.tensordot(matrix, expected, (1, mode)), 0, mode)
    penalty = prior()
    penalty.backward()
    relative = 1e-3 if dtype == torch.float32 else 1e-9
    assert array(penalty).item() == pytest.approx((exact * expected).sum() / 20, rel=relative)
    found = array(network["a"].weight.grad.double())
    np.testing.assert_allclose(
        found, expected / 10, rtol=0, atol=relative * np.abs(expected).max() / 10
    )


def test_task_average_learns_nothing_from_equal_tasks():
    """W = M: what roundoff leaves of the differences is no relation."""
    weight = np.repeat(random_weight((1, *SHAPE[1:])), 3, axis=0)
    prior, _ = prior_on(weight, mean="task-average", modes=("task",))
    before = covariances_of(prior)[0]
    prior.update()
    np.testing.assert_array_equal(covariances_of(prior)[0], before)


def test_strength_of_the_average_penalizes_the_average():
    """With equal tasks only that is left: μ/2 ‖W‖² once the other modes are the identity."""
    weight = np.broadcast_to(related_weight((1, *SHAPE[1:])), SHAPE).copy()
    prior, _ = prior_on(weight, mean="task-average", mean_strength=2.0, modes=("task",))
    assert_close(prior(), (weight**2).sum() / 10)


def test_task_average_with_equal_tasks_and_one_correlation_is_mean_regularized():
    """Σ_T = (1 − ρ) I + ρ 11ᵀ: ½ Σ ‖W_t − W̄‖² / (1 − ρ), mean-regularized learning."""
    weight = related_weight(SHAPE)
    prior, _ = prior_on(weight, mean="task-average", modes=("task",), start=0.6, n_updates=0)
    expected = ((weight - weight.mean(axis=0)) ** 2).sum() / 2 / 0.4 / 10
    assert_close(prior(), expected)


def test_means_follow_the_weights_to_another_precision():
    """`network.to(dtype)`."""
    initial = related_weight(SHAPE)
    for mean in ("initial", "task-average"):
        prior, network = prior_on(initial, mean=mean, dtype=torch.float64)
        network.float()
        set_weight(network, initial + 1)
        assert prior.objective().dtype == torch.float32
        prior.update()
        prior.apply(torch.optim.SGD(network.parameters(), lr=0.1))


@pytest.mark.parametrize("mean", ["zero", "initial", "task-average"])
def test_scheduled_training_with_any_mean_stays_finite(mean):
    """A plain loop with several updates."""
    target = tensor(related_weight(SHAPE))
    prior, network = prior_on(
        random_weight(SHAPE, 2), mean=mean, n_updates=None, update_every=5, strength=5.0
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.5)
    for _ in range(40):
        optimizer.zero_grad()
        ((network["a"].weight - target) ** 2).sum().backward()
        optimizer.step()
        prior.step(optimizer)
    assert np.isfinite(weight_of(network)).all()
    assert prior.n_updates == 8
