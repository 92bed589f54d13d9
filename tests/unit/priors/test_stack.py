"""T weights as one tensor: what is read from it and written to it, and where gradients go."""

import pytest
import torch
from torch import nn

from multirel.networks import TaskConv2d, TaskLinear
from multirel.priors import Stack, attach_prior
from tests.environment import DEVICE, DTYPE

OPTIONS = {"dtype": DTYPE, "device": DEVICE}


def linear_heads():
    return nn.ModuleDict({task: nn.Linear(4, 3) for task in ("x", "y")}).to(**OPTIONS)


def convolution_heads():
    return nn.ModuleDict({task: nn.Conv2d(4, 3, (2, 5)) for task in ("x", "y")}).to(**OPTIONS)


CASES = {
    "native": lambda: (nn.ModuleDict({"a": TaskLinear(2, 4, 3, **OPTIONS)}), "a", (2, 3, 4)),
    "collected": lambda: (linear_heads(), "*", (2, 3, 4)),
    "native-convolution": lambda: (
        nn.ModuleDict({"a": TaskConv2d(2, 4, 3, (2, 5), **OPTIONS)}),
        "a",
        (2, 3, 4, 10),
    ),
    "collected-convolution": lambda: (convolution_heads(), "*", (2, 3, 4, 10)),
}


@pytest.fixture(params=CASES)
def case(request) -> tuple[nn.Module, Stack, tuple[int, ...]]:
    torch.manual_seed(0)
    network, layer, shape = CASES[request.param]()
    return network, attach_prior(network, layer, n_samples=5).stacks[0], shape


def test_sizes_are_those_of_the_modes(case):
    """Order, shape and number of weights."""
    _, stack, shape = case
    assert tuple(stack.tensor().shape) == stack.shape == shape
    assert stack.order == len(stack.modes) == len(shape)
    assert stack.n_weights == stack.tensor().numel()


def test_slices_along_the_task_mode_are_the_weights_of_the_tasks(case):
    """In the order of `tasks`."""
    _, stack, shape = case
    weights = list(stack.parameters[0] if stack.is_native else stack.parameters)
    for part, weight in zip(stack.tensor(), weights, strict=True):
        assert torch.equal(part, weight.reshape(shape[1:]))


def test_gradients_flow_back_to_the_parameters(case):
    """Of every task."""
    _, stack, _ = case
    (stack.tensor() ** 2).sum().backward()
    for parameter in stack.parameters:
        torch.testing.assert_close(parameter.grad, 2 * parameter.detach())


def test_what_is_written_is_read_again(case):
    """Into the same parameters, outside of autograd."""
    network, stack, shape = case
    before = [id(parameter) for parameter in network.parameters()]
    weight = torch.randn(shape, **OPTIONS)
    stack.write(weight)
    assert torch.equal(stack.tensor(), weight)
    assert [id(parameter) for parameter in network.parameters()] == before
    assert all(parameter.is_leaf and parameter.requires_grad for parameter in stack.parameters)


def test_biases_are_left_alone(case):
    """The prior is on weights."""
    network, stack, _ = case
    biases = {name: value.clone() for name, value in network.state_dict().items() if "bias" in name}
    prior = attach_prior(network, stack.layer, n_samples=5)
    prior.step(torch.optim.SGD(network.parameters(), lr=1.0))
    assert biases
    for name, value in biases.items():
        assert torch.equal(network.state_dict()[name], value)
