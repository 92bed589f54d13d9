"""Covariances of low rank beside full ones: when they agree, what they keep, what they are stored as."""

from functools import partial

import numpy as np
import pytest
import torch

from tests.environment import array, assert_close
from tests.reference import prior as reference
from tests.stacks import covariances_of, prior_on, related_weight, weight_of

FACTOR = 1000.0


def pair(shape, *, rank, **settings):
    """A prior of that rank and one of full rank on the same weights, updated."""
    priors = [prior_on(related_weight(shape), rank=r, **settings)[0] for r in (rank, None)]
    for prior in priors:
        prior.update()
    return priors


@pytest.mark.parametrize("target", ["identity", "constant-correlation"])
@pytest.mark.parametrize("shape", [(3, 2, 20), (2, 20, 3), (9, 2, 2), (2, 2, 2, 12)])
def test_low_rank_is_full_rank_where_the_rank_is_enough(shape, target):
    """S_k of one stack has rank at most D / d_k: eigenvalues beyond it are the complement."""
    low, full = pair(shape, rank=8, shrinkage=0.3, shrinkage_target=target)
    for one, other in zip(covariances_of(low), covariances_of(full), strict=True):
        assert_close(one, other, factor=FACTOR)
    assert_close(low(), array(full()), factor=FACTOR)


def test_low_rank_literal_form_is_full_rank_where_the_rank_is_enough():
    """scale="free"."""
    low, full = pair((3, 2, 20), rank=7, scale="free", jitter=0.1)
    for one, other in zip(covariances_of(low), covariances_of(full), strict=True):
        assert_close(one, other, factor=FACTOR)
    assert_close(low.objective(), array(full.objective()), factor=FACTOR)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("shrinkage", [0.1, 0.6])
def test_low_rank_keeps_the_trace(rank, shrinkage):
    """a = α + (1 − α)(d / tr S)(tr S − Σ s) / (d − r), with the r largest eigenvalues s of S."""
    shape = (6, 5, 7)
    weight = related_weight(shape)
    prior, _ = prior_on(weight, rank=rank, shrinkage=shrinkage, start=0.0, jitter=0.0)
    prior.update()
    steps = [partial(reference.low_rank, rank=rank, shrinkage=shrinkage)] * 3
    identities = [np.eye(size) for size in shape]
    expected = reference.sweep(weight, identities, steps)
    for actual, matrix in zip(covariances_of(prior), expected, strict=True):
        assert_close(actual, matrix, factor=FACTOR)
        assert_close(np.trace(actual), len(actual), factor=FACTOR)


def test_complement_is_the_formula():
    """The number itself, from the eigenvalues of S_I."""
    weight = related_weight((2, 3, 8))
    settings = {"modes": ("input",), "shrinkage": 0.2, "jitter": 0.0}
    prior, _ = prior_on(weight, rank=2, **settings)
    prior.update()
    values = np.linalg.eigvalsh(reference.scatter(weight, [np.eye(2), np.eye(3), np.eye(8)], 2))
    rest = (values.sum() - values[-2:].sum()) / 6
    expected = 0.2 + 0.8 * 8 / values.sum() * rest
    state = prior.state_dict()
    assert_close(state["a.input.complement"], expected)
    assert_close(
        np.sort(array(state["a.input.eigenvalues"])), 0.2 + 0.8 * 8 / values.sum() * values[-2:]
    )


def test_large_modes_find_their_span_without_the_scatter():
    """The range finder gets the eigenvalues of a decaying spectrum, and the same ones every time."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((120, 120)))[0]
    scales = 0.8 ** np.arange(120)
    weight = (
        ((basis * scales) @ rng.standard_normal((120, 400))).reshape(120, 4, 100).swapaxes(0, 1)
    )
    settings = {"modes": ("output",), "shrinkage": 0.1}
    low, full, again = (prior_on(weight, rank=rank, **settings)[0] for rank in (20, None, 20))
    for prior in (low, full, again):
        prior.update()
    one, other = covariances_of(low)[1], covariances_of(full)[1]
    assert np.linalg.norm(one - other) < 0.02 * np.linalg.norm(other)
    np.testing.assert_array_equal(one, covariances_of(again)[1])


def test_updates_leave_the_random_state_alone():
    """The range finder has its own."""
    prior, _ = prior_on(related_weight((2, 40, 50)), rank=3, modes=("output",))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    prior.update()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("mean", ["zero", "initial", "task-average"])
def test_application_of_low_rank_is_the_dense_solve(mean):
    """With low rank in the task mode too, centered or not."""
    weight = related_weight((8, 3, 9))
    prior, network = prior_on(weight, rank=2, mean=mean, n_samples=1)
    with torch.no_grad():
        network["a"].weight.mul_(1.5)
    prior.update()
    deviation = 1.5 * weight - (weight if mean == "initial" else 0)
    precisions = [np.linalg.inv(matrix) for matrix in covariances_of(prior)]
    if mean == "task-average":
        precisions[0] = reference.task_average_precision(precisions[0], 0.0)
    expected = reference.prox(deviation, precisions, 0.7) + (weight if mean == "initial" else 0)
    prior.apply(torch.optim.SGD(network.parameters(), lr=0.7))
    assert_close(weight_of(network), expected, factor=FACTOR)


def test_single_precision_keeps_the_complement_from_vanishing():
    """a ≥ 1e-3 of the mean eigenvalue: below it, differences leave no digit of the gradient."""
    gradients = []
    for dtype in (torch.float32, torch.float64):
        prior, network = prior_on(
            related_weight((3, 2, 40)), dtype=dtype, rank=6, modes=("input",), shrinkage=0.0
        )
        prior.update()
        prior().backward()
        gradients.append(array(network["a"].weight.grad))
        state = prior.state_dict()
        if dtype == torch.float32:
            assert float(state["a.input.complement"]) == pytest.approx(1e-3, rel=0.1)
            covariance = np.linalg.inv(covariances_of(prior)[2])
            expected = reference.gradient(
                related_weight((3, 2, 40)), [np.eye(3), np.eye(2), covariance]
            )
            assert_close(gradients[0] * 10, expected, dtype=dtype, factor=200)


@pytest.mark.parametrize("n_tasks", [1001, 3000])
def test_thousands_of_tasks_that_are_alike_keep_their_precision_in_single(n_tasks):
    """The largest eigenvalue is near their number, and a is what shrinkage makes it."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((1, 2, 3)) + 0.5 * rng.standard_normal((n_tasks, 2, 3))
    penalties = []
    for dtype in (torch.float32, torch.float64):
        prior, _ = prior_on(weight, dtype=dtype, modes=("task",))
        prior.update()
        penalties.append(array(prior()).item())
        assert float(prior.state_dict()["a.task.complement"]) == pytest.approx(0.1, rel=0.05)
    assert penalties[0] == pytest.approx(penalties[1], rel=1e-3)


def test_low_rank_of_a_large_mode_forms_no_matrix_of_its_size():
    """The state holds a basis of 64 columns for 20 000 inputs."""
    weight = torch.randn(2, 40, 20_000, generator=torch.Generator().manual_seed(0))
    prior, network = prior_on(weight, dtype=torch.float32)
    prior.update()
    assert prior.state_dict()["a.input.basis"].shape == (20_000, 64)
    prior.apply(torch.optim.SGD(network.parameters(), lr=0.1))
