"""Convolutions per task: products, gradients, memory and messages."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from multirel.networks import TaskConv2d, group_rows
from tests.environment import DEVICE, DTYPE, assert_close
from tests.unit.networks import naive

OPTIONS = {"device": DEVICE, "dtype": DTYPE}


def test_weight_is_a_stack_with_the_task_mode_first():
    """Shapes and names of the modes, which a prior reads."""
    layer = TaskConv2d(["a", "b"], 4, 6, (3, 5), groups=2)
    assert layer.weight.shape == (2, 6, 2, 3, 5)
    assert layer.bias.shape == (2, 6)
    assert TaskConv2d.stack_modes == ("task", "output", "input", "height", "width")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"padding": "same", "dilation": 2},
        {"groups": 2, "bias": False},
        {"stride": (1, 2), "padding": (0, 1)},
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.9, 1.0])
def test_images_are_convolved_with_the_kernels_of_their_task(options, share):
    """Every image by itself, in the order of the batch, with the gradients of that."""
    torch.manual_seed(0)
    layer = TaskConv2d(5, 2, 4, 3, **options, **OPTIONS)
    task = naive.uneven_tasks(5, 20, share=share).to(DEVICE)
    x = torch.randn(20, 2, 7, 6, **OPTIONS, requires_grad=True)
    y, expected = layer(x, task), naive.conv2d(x, task, layer)
    assert_close(y, expected)
    parameters = (x, *layer.parameters())
    found = torch.autograd.grad(y.square().sum(), parameters)
    for gradient, by_row in zip(
        found, torch.autograd.grad(expected.square().sum(), parameters), strict=True
    ):
        assert_close(gradient, by_row, factor=10)


def test_gradients_of_first_and_second_order_are_right():
    """In images, kernels and biases, with a task that has no rows."""
    torch.manual_seed(0)
    layer = TaskConv2d(3, 1, 2, 2, device=DEVICE, dtype=torch.float64)
    task = torch.tensor([2, 0, 2], device=DEVICE)
    x = torch.randn(3, 1, 3, 3, dtype=torch.float64, device=DEVICE, requires_grad=True)

    def product(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x, task))

    parameters = (x, layer.weight, layer.bias)
    assert torch.autograd.gradcheck(product, parameters)
    assert torch.autograd.gradgradcheck(product, parameters)


def test_batches_without_rows_have_results_without_rows():
    """And gradients of zero."""
    layer = TaskConv2d(3, 2, 4, 3, **OPTIONS)
    task = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    y = layer(torch.zeros(0, 2, 5, 5, **OPTIONS), task)
    assert y.shape == (0, 4, 3, 3)
    y.sum().backward()
    assert not layer.weight.grad.any()


def test_one_index_or_grouped_rows_give_the_same_as_a_task_per_row():
    """All forms of `task`."""
    torch.manual_seed(0)
    layer = TaskConv2d(3, 2, 4, 3, **OPTIONS)
    x = torch.randn(9, 2, 5, 5, **OPTIONS)
    task = torch.arange(9, device=DEVICE) % 3
    assert torch.equal(layer(x, group_rows(task, 3)), layer(x, task))
    assert torch.equal(layer(x, 2), layer(x, torch.full_like(task, 2)))


@pytest.mark.skipif(DEVICE.type != "cpu", reason="memory is counted on the CPU")
@pytest.mark.parametrize("share", [0.0, 0.9])
def test_memory_is_at_most_twice_inputs_and_outputs(share):
    """Beside the result and what a single convolution of all images works with."""
    torch.manual_seed(0)
    layer = TaskConv2d(10, 4, 6, 1).requires_grad_(False)
    task = naive.uneven_tasks(10, 200, share=share)
    x = torch.randn(200, 4, 16, 16)
    y = layer(x, task)
    single = naive.peak_memory(lambda: layer(x, 0))
    extra = naive.peak_memory(lambda: layer(x, task)) - single
    assert extra <= 2 * (x.nbytes + y.nbytes)


def test_start_is_that_of_a_convolution():
    """Uniform within ±1/√(I·H·W), and equal for all tasks if asked for."""
    torch.manual_seed(0)
    layer = TaskConv2d(3, 4, 8, 5).requires_grad_(False)
    assert 0.095 < float(layer.weight.abs().max()) <= 0.1
    assert not (layer.weight[1] == layer.weight[0]).any()
    equal = TaskConv2d(3, 4, 8, 5, equal_start=True)
    assert (equal.weight == equal.weight[0]).all()


def test_autocast_convolves_in_low_precision():
    """As `nn.Conv2d` does."""
    layer = TaskConv2d(3, 2, 4, 3, device=DEVICE)
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        y = layer(torch.randn(4, 2, 5, 5, device=DEVICE), torch.arange(4, device=DEVICE) % 3)
    assert y.dtype == torch.bfloat16


def test_state_goes_round_and_copies_are_apart():
    """`state_dict` and `deepcopy`."""
    layer, other = TaskConv2d(3, 2, 4, 3), TaskConv2d(3, 2, 4, 3)
    other.load_state_dict(layer.state_dict())
    copy = deepcopy(layer)
    layer.weight.data.zero_()
    assert torch.equal(other.weight, copy.weight)


def test_representation_has_the_sizes():
    """As `nn.Conv2d` shows its own."""
    expected = (
        "TaskConv2d(n_tasks=3, in_channels=4, out_channels=2, kernel_size=(3, 3), stride=1, "
        "padding=0, dilation=1, groups=1, bias=True)"
    )
    assert repr(TaskConv2d(3, 4, 2, 3)) == expected


@pytest.mark.parametrize("shape", [(5, 3, 8, 8), (4, 8, 8)])
def test_images_of_another_shape_are_an_error(shape):
    """The message has the shape."""
    message = r"`x` must have images of 4 channels: expected shape \(n, 4, height, width\), got \("
    with pytest.raises(ValueError, match=message):
        TaskConv2d(3, 4, 2, 3)(torch.zeros(shape), 0)


def test_images_of_another_type_are_an_error():
    """The message has both types."""
    message = "floating type of the weights: expected torch.float32, got torch.float64"
    with pytest.raises(TypeError, match=message):
        TaskConv2d(3, 4, 2, 3)(torch.zeros(5, 4, 8, 8, dtype=torch.float64), 0)


def test_senseless_channels_are_errors():
    """At construction."""
    with pytest.raises(ValueError, match="`groups` must divide the channels: got 3 groups for 4"):
        TaskConv2d(3, 4, 6, 3, groups=3)
    with pytest.raises(ValueError, match="`out_channels` must be at least 1: got 0"):
        TaskConv2d(3, 4, 0, 3)


def test_a_convolution_of_one_task_is_that_of_torch():
    """With the weights of `nn.Conv2d`."""
    torch.manual_seed(0)
    plain = nn.Conv2d(2, 4, 3, padding=1, **OPTIONS)
    layer = TaskConv2d(1, 2, 4, 3, padding=1, **OPTIONS)
    layer.load_state_dict({"weight": plain.weight[None], "bias": plain.bias[None]})
    x = torch.randn(5, 2, 6, 6, **OPTIONS)
    assert_close(layer(x, 0), plain(x))


@pytest.mark.parametrize(
    ("kernel_size", "error", "message"),
    [
        (0, ValueError, "`kernel_size` must be at least 1: got 0"),
        ((3, -1), ValueError, "`kernel_size` must be at least 1: got -1"),
        (2.5, TypeError, "`kernel_size` must be a whole number: got float"),
        (True, TypeError, "`kernel_size` must be a whole number: got bool"),
        ((3,), ValueError, "`kernel_size` must be one size or two, height and width: got 1"),
        ((3, 3, 3), ValueError, "`kernel_size` must be one size or two, height and width: got 3"),
    ],
)
def test_kernels_have_a_height_and_a_width(kernel_size, error, message):
    """At construction."""
    with pytest.raises(error, match=message):
        TaskConv2d(3, 4, 6, kernel_size)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="memory is counted on the CPU")
@pytest.mark.parametrize("share", [0.0, 0.9])
def test_memory_is_that_of_inputs_and_outputs_where_outputs_are_large(share):
    """Beside the result and the inputs in the order of their tasks, outputs are held once more."""
    torch.manual_seed(0)
    layer = TaskConv2d(10, 4, 64, 1).requires_grad_(False)
    task = naive.uneven_tasks(10, 64, share=share)
    x = torch.randn(64, 4, 16, 16)
    y = layer(x, task)
    extra = naive.peak_memory(lambda: layer(x, task)) - y.nbytes
    assert extra <= 2 * x.nbytes + y.nbytes
