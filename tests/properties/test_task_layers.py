"""Layers per task over random sizes and random batches: each row by itself."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from multirel.networks import FactorizedTaskLinear, TaskConv2d, TaskLinear
from tests.environment import DEVICE, assert_close
from tests.properties.strategies import dtypes, seeds
from tests.unit.networks import naive

FACTOR = 100.0

SIZES = st.integers(1, 5)


def batches(n_tasks: int):
    """The tasks of some rows: of one task, of few, of many, in order or not."""
    tasks = st.lists(st.integers(0, n_tasks - 1), min_size=1, max_size=60)
    return tasks.flatmap(lambda found: st.sampled_from([found, sorted(found), found[:1] * 9]))


def assert_same(layer, x, task, expected, dtype):
    """Values and gradients of `layer` are those of `expected`."""
    y, parameters = layer(x, task), (x, *layer.parameters())
    assert_close(y, expected, dtype=dtype, factor=FACTOR)
    found = torch.autograd.grad(y.square().sum(), parameters)
    for gradient, other in zip(
        found, torch.autograd.grad(expected.square().sum(), parameters), strict=True
    ):
        assert_close(gradient, other, dtype=dtype, factor=FACTOR)


@given(st.integers(1, 12), SIZES, SIZES, seeds(), dtypes(), st.booleans(), st.data())
def test_linear_layers_multiply_every_row_by_itself(
    n_tasks, n_inputs, n_outputs, seed, dtype, bias, data
):
    """Any sizes, any order of tasks, tasks without rows, with and without axes in between."""
    torch.manual_seed(seed)
    task = torch.tensor(data.draw(batches(n_tasks)), device=DEVICE)
    between = data.draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    layer = TaskLinear(n_tasks, n_inputs, n_outputs, bias, device=DEVICE, dtype=dtype)
    x = torch.randn(len(task), *between, n_inputs, device=DEVICE, dtype=dtype, requires_grad=True)
    assert_same(layer, x, task, naive.linear(x, task, layer.weight, layer.bias), dtype)


@given(st.integers(1, 6), seeds(), dtypes(), st.data())
def test_convolutions_convolve_every_image_by_itself(n_tasks, seed, dtype, data):
    """Any order of tasks, tasks without images."""
    torch.manual_seed(seed)
    task = torch.tensor(data.draw(batches(n_tasks)), device=DEVICE)
    layer = TaskConv2d(n_tasks, 2, 3, 2, device=DEVICE, dtype=dtype)
    x = torch.randn(len(task), 2, 3, 4, device=DEVICE, dtype=dtype, requires_grad=True)
    assert_same(layer, x, task, naive.conv2d(x, task, layer), dtype)


@given(st.integers(1, 6), SIZES, SIZES, seeds(), dtypes(), st.data())
def test_factorized_layers_multiply_by_what_they_compose(
    n_tasks, n_inputs, n_outputs, seed, dtype, data
):
    """Any form and rank."""
    torch.manual_seed(seed)
    task = torch.tensor(data.draw(batches(n_tasks)), device=DEVICE)
    layer = FactorizedTaskLinear(
        n_tasks,
        n_inputs,
        n_outputs,
        factorization=data.draw(st.sampled_from(["tucker", "tt", "laf"])),
        ranks=data.draw(st.sampled_from([None, 1, 2])),
        device=DEVICE,
        dtype=dtype,
    )
    x = torch.randn(len(task), n_inputs, device=DEVICE, dtype=dtype, requires_grad=True)
    assert_same(layer, x, task, naive.linear(x, task, layer.weight, layer.bias), dtype)
