"""Weights in any floating type: the algebra is done in single precision at least."""

import numpy as np
import pytest
import torch

from multirel.networks import TaskLinear
from multirel.priors import attach_prior
from tests.environment import DEVICE, array
from tests.reference import prior as reference
from tests.stacks import covariances_of, prior_on, related_weight, set_weight, weight_of

SHAPE = (3, 4, 5)
TOLERANCE = {torch.float16: 3e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_penalty_gradient_and_application_in_any_precision(dtype):
    """Values and gradients of their own types, covariances in single precision or better."""
    weight = array(torch.as_tensor(related_weight(SHAPE)).to(dtype).double())
    prior, network = prior_on(weight, dtype=dtype)
    prior.update()
    at_least = dtype if dtype == torch.float64 else torch.float32
    assert prior.state_dict()["a.task.matrix"].dtype == at_least
    with torch.no_grad():
        assert prior().dtype == at_least
    precisions = [np.linalg.inv(matrix) for matrix in covariances_of(prior)]
    expected = reference.prox(weight, precisions, 0.3)
    prior.apply(torch.optim.SGD(network.parameters(), lr=3.0))
    assert network["a"].weight.dtype == dtype
    np.testing.assert_allclose(
        weight_of(network), expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max()
    )
    set_weight(network, weight)
    prior().backward()
    gradient = reference.gradient(weight, precisions) / 10
    assert network["a"].weight.grad.dtype == dtype
    np.testing.assert_allclose(
        array(network["a"].weight.grad.double()),
        gradient,
        rtol=0,
        atol=TOLERANCE[dtype] * np.abs(gradient).max(),
    )


@pytest.mark.parametrize("application", ["proximal", "gradient"])
def test_training_in_bfloat16_learns(application):
    """The whole loop, with updates."""
    torch.manual_seed(0)
    layer = TaskLinear(3, 6, 1, device=DEVICE, dtype=torch.bfloat16)
    prior = attach_prior(layer, "", n_samples=60, update_every=5, application=application)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    x = torch.randn(60, 6, device=DEVICE, dtype=torch.bfloat16)
    task = torch.arange(60, device=DEVICE) % 3
    y = x[:, :1] - x[:, 1:2]
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = (layer(x, task) - y).float().square().mean()
        losses.append(float(loss.detach()))
        (loss + prior() if application == "gradient" else loss).backward()
        optimizer.step()
        prior.step(optimizer)
    assert losses[-1] < 0.2 * losses[0]
    assert prior.n_updates == 1


def test_penalty_works_under_autocast():
    """The products stay in single precision."""
    prior, network = prior_on(related_weight(SHAPE), dtype=torch.float32)
    prior.update()
    with torch.no_grad():
        expected = array(prior())
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            found = array(prior())
            prior.update()
            state = prior.state_dict()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert state["a.task.matrix"].dtype == torch.float32
    assert network["a"].weight.dtype == torch.float32


@pytest.mark.parametrize("rank", [None, 1])
@pytest.mark.parametrize("mean", ["zero", "initial", "task-average"])
def test_everything_has_full_precision_under_autocast(mean, rank):
    """A prior that is made, applied, read and loaded there is the one that is so elsewhere."""
    weight = np.repeat(related_weight((1, 4, 5)), 3, axis=0)
    changed = weight + 0.1 * related_weight(SHAPE)
    found = []
    for is_cast in (True, False):
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=is_cast):
            prior, network = prior_on(weight, dtype=torch.float32, mean=mean, rank=rank)
            set_weight(network, changed)
            prior.update()
            prior.load_state_dict(prior.state_dict())
            prior.apply(torch.optim.SGD(network.parameters(), lr=0.1))
            correlations = prior.correlations("a"), prior.correlations("a", raw=True)
            found.append([*correlations, array(prior.objective()), weight_of(network)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("first", [torch.float32, torch.float64])
def test_covariances_follow_the_weights(first):
    """`network.to(…)` after attaching: in penalties, applications, updates and reports."""
    second = torch.float64 if first == torch.float32 else torch.float32
    for act in ("penalty", "apply", "update", "correlations", "objective"):
        prior, network = prior_on(related_weight(SHAPE), dtype=first, rank=2)
        prior.update()
        network.to(second)
        if act == "penalty":
            assert prior().dtype == second
        elif act == "apply":
            prior.apply(torch.optim.SGD(network.parameters(), lr=0.1))
        elif act == "update":
            prior.update()
        elif act == "correlations":
            assert np.isfinite(prior.correlations("a")).all()
        else:
            assert prior.objective().dtype == second
        assert network["a"].weight.dtype == second


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second device")
def test_covariances_follow_the_weights_to_another_device():
    """From the CPU to the GPU and back, in the middle of training."""
    prior, network = prior_on(related_weight(SHAPE))
    for device in ("cpu", "cuda", "cpu"):
        network.to(device)
        prior.update()
        prior.apply(torch.optim.SGD(network.parameters(), lr=0.1))
        with torch.no_grad():
            assert prior().device.type == device
        assert np.isfinite(prior.correlations("a")).all()
