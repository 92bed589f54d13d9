"""Linear layers per task: products, gradients, memory, starts and messages."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from multirel.networks import TaskLinear, group_rows
from tests.environment import DEVICE, DTYPE, assert_close
from tests.unit.networks import naive

OPTIONS = {"device": DEVICE, "dtype": DTYPE}

GRADIENT_OPTIONS = {"device": DEVICE, "dtype": torch.float64}


def batch(n_rows: int, n_features: int, n_tasks: int):
    x = torch.randn(n_rows, n_features, **OPTIONS)
    return x, torch.randint(n_tasks, (n_rows,), device=DEVICE)


def test_weight_is_a_stack_with_the_task_mode_first():
    """Shapes and names of the modes, which a prior reads."""
    layer = TaskLinear(["a", "b"], 3, 5)
    assert layer.weight.shape == (2, 5, 3)
    assert layer.bias.shape == (2, 5)
    assert TaskLinear.stack_modes == ("task", "output", "input")
    assert layer.tasks == ("a", "b")
    assert TaskLinear(2, 3, 5).tasks == ("0", "1")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n_rows", [0, 1, 50])
def test_rows_are_multiplied_by_the_weights_of_their_task(n_rows, bias):
    """Every row by itself, in the order of the batch."""
    torch.manual_seed(0)
    layer = TaskLinear(7, 4, 3, bias, **OPTIONS)
    x, task = batch(n_rows, 4, 7)
    y = layer(x, task)
    assert y.shape == (n_rows, 3)
    if n_rows:
        assert_close(y, naive.linear(x, task, layer.weight, layer.bias))


def test_axes_between_rows_and_features_are_kept():
    """All vectors of a row belong to its task, as the tokens of a text do."""
    torch.manual_seed(0)
    layer = TaskLinear(5, 4, 3, **OPTIONS)
    task = torch.tensor([3, 0, 3, 3, 1], device=DEVICE)
    x = torch.randn(5, 6, 2, 4, **OPTIONS)
    assert_close(layer(x, task), naive.linear(x, task, layer.weight, layer.bias))
    assert layer(x[:, :0], task).shape == (5, 0, 2, 3)


def test_large_and_small_tasks_in_one_batch():
    """One task has nine tenths of the rows, another none."""
    torch.manual_seed(0)
    layer = TaskLinear(30, 8, 4, **OPTIONS)
    x, task = torch.randn(600, 8, **OPTIONS), naive.uneven_tasks(30, 600).to(DEVICE)
    assert_close(layer(x, task), naive.linear(x, task, layer.weight, layer.bias))


def test_one_index_or_grouped_rows_give_the_same_as_a_task_per_row():
    """All forms of `task`, and indices on the CPU for inputs elsewhere."""
    torch.manual_seed(0)
    layer = TaskLinear(4, 3, 2, **OPTIONS)
    x, task = batch(20, 3, 4)
    assert torch.equal(layer(x, group_rows(task, 4)), layer(x, task))
    assert torch.equal(layer(x, task.cpu()), layer(x, task))
    assert torch.equal(layer(x, 2), layer(x, torch.full_like(task, 2)))


def test_results_may_be_changed_in_place():
    """As `nn.ReLU(inplace=True)` does."""
    torch.manual_seed(0)
    layer = TaskLinear(4, 3, 2, **OPTIONS)
    x, task = batch(20, 3, 4)
    expected = torch.autograd.grad(layer(x, task).relu().sum(), layer.weight)
    assert_close(torch.autograd.grad(layer(x, task).relu_().sum(), layer.weight)[0], expected[0])


@pytest.mark.parametrize("task", [[0, 3, 3, 0, 1, 3], [3, 3, 3, 3, 3, 3], [0, 0, 1, 2, 3, 3]])
def test_gradients_of_first_and_second_order_are_right(task):
    """In inputs, weights and biases, with tasks that have no rows."""
    torch.manual_seed(0)
    task = torch.tensor(task, device=DEVICE)
    layer = TaskLinear(4, 2, 3, **GRADIENT_OPTIONS)
    x = torch.randn(6, 2, **GRADIENT_OPTIONS, requires_grad=True)

    def product(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x, task))

    parameters = (x, layer.weight, layer.bias)
    assert torch.autograd.gradcheck(product, parameters)
    assert torch.autograd.gradgradcheck(product, parameters)


def test_gradients_are_those_of_every_row_by_itself():
    """With many tasks of many sizes, and no gradient where no row is."""
    torch.manual_seed(0)
    layer = TaskLinear(40, 5, 3, **OPTIONS)
    x, task = torch.randn(300, 5, **OPTIONS), naive.uneven_tasks(40, 300, share=0.5).to(DEVICE)
    x.requires_grad_()
    parameters = (x, layer.weight, layer.bias)
    found = torch.autograd.grad(layer(x, task).square().sum(), parameters)
    by_row = naive.linear(x, task, layer.weight, layer.bias)
    for gradient, expected in zip(
        found, torch.autograd.grad(by_row.square().sum(), parameters), strict=True
    ):
        assert_close(gradient, expected, factor=10)
    assert not found[1][0].any()


def test_gradient_without_rows_is_zero():
    """An empty batch goes through a training step."""
    layer = TaskLinear(3, 2, 2, **OPTIONS)
    x = torch.zeros(0, 2, **OPTIONS)
    layer(x, torch.zeros(0, dtype=torch.int64, device=DEVICE)).sum().backward()
    assert not layer.weight.grad.any()
    assert not layer.bias.grad.any()


def test_a_task_that_is_not_finite_leaves_the_others_alone():
    """Padding takes its rows from the same task."""
    torch.manual_seed(0)
    layer = TaskLinear(3, 4, 2, **OPTIONS)
    task = torch.tensor([0] * 8 + [1] * 7 + [2] * 8, device=DEVICE)
    x = torch.randn(23, 4, **OPTIONS)
    x[task == 2] = torch.inf
    layer(x, task).sum().backward()
    assert torch.isfinite(layer.weight.grad[:2]).all()
    assert not torch.isfinite(layer.weight.grad[2]).any()


@pytest.mark.skipif(DEVICE.type != "cpu", reason="memory is counted on the CPU")
@pytest.mark.parametrize("share", [0.0, 0.9])
@pytest.mark.parametrize("shape", [(8, 64, 32), (1000, 48, 16), (40, 256, 256)])
def test_memory_is_at_most_twice_inputs_and_outputs(shape, share):
    """Beside the result; no weights are copied per row."""
    torch.manual_seed(0)
    n_tasks, n_inputs, n_outputs = shape
    layer = TaskLinear(n_tasks, n_inputs, n_outputs).requires_grad_(False)
    task = naive.uneven_tasks(n_tasks, 4000, share=share)
    x = torch.randn(4000, n_inputs)
    result = x[0, 0].nbytes * 4000 * n_outputs
    extra = naive.peak_memory(lambda: layer(x, task)) - result
    assert extra <= 2 * (x.nbytes + result)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="memory is counted on the CPU")
def test_memory_of_a_training_step_is_that_of_the_gradients_and_twice_inputs_and_outputs():
    """The backward pass copies no weights either."""
    torch.manual_seed(0)
    layer, task = TaskLinear(20, 128, 32), naive.uneven_tasks(20, 4000)
    x = torch.randn(4000, 128, requires_grad=True)
    y = layer(x, task)
    gradient = torch.randn_like(y)

    def backward():
        torch.autograd.grad(y, (x, layer.weight, layer.bias), gradient, retain_graph=True)

    results = x.nbytes + layer.weight.nbytes + layer.bias.nbytes
    assert naive.peak_memory(backward) - results <= 2 * (x.nbytes + y.nbytes)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="memory is counted on the CPU")
def test_rows_in_order_take_no_memory_but_the_result():
    """Slices of the batch are multiplied where they are."""
    layer = TaskLinear(4, 128, 32).requires_grad_(False)
    x, task = torch.randn(4000, 128), torch.arange(4000) // 1000
    result = x[0, 0].nbytes * 4000 * 32
    assert naive.peak_memory(lambda: layer(x, task)) - result < 0.1 * (x.nbytes + result)


def test_results_are_the_same_to_the_bit_every_time():
    """Values and gradients."""
    torch.manual_seed(0)
    layer = TaskLinear(9, 5, 3, **OPTIONS)
    x, task = torch.randn(200, 5, **OPTIONS), naive.uneven_tasks(9, 200).to(DEVICE)
    results = []
    for _ in range(2):
        y = layer(x, task)
        results.append((y, *torch.autograd.grad(y.square().sum(), (layer.weight, layer.bias))))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_autocast_multiplies_in_low_precision():
    """Results and their gradients follow `torch.nn.functional.linear`."""
    torch.manual_seed(0)
    layer = TaskLinear(3, 6, 2, device=DEVICE)
    task = torch.tensor([0, 2, 0, 1, 2], device=DEVICE)
    x = torch.randn(5, 6, device=DEVICE)
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        y = layer(x, task)
        expected = naive.linear(x, task, layer.weight, layer.bias)
    assert y.dtype == torch.bfloat16
    assert_close(y.float(), expected.float(), dtype=torch.float32, factor=1e3)
    y.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    expected = layer(x, task)
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        (gradient,) = torch.autograd.grad(expected.sum(), layer.bias)
    assert_close(gradient[:, 0], [2, 1, 2], dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtype_follows_the_weights(dtype):
    """`layer.to` moves it."""
    layer = TaskLinear(3, 4, 2).to(device=DEVICE, dtype=dtype)
    x = torch.randn(6, 4, device=DEVICE, dtype=dtype)
    assert layer(x, torch.arange(6, device=DEVICE) % 3).dtype == dtype


def test_equal_start_makes_all_tasks_equal_and_the_default_does_not():
    """Weights and biases; the range is that of `nn.Linear`."""
    torch.manual_seed(0)
    equal = TaskLinear(4, 100, 50, equal_start=True)
    assert (equal.weight == equal.weight[0]).all()
    assert (equal.bias == equal.bias[0]).all()
    layer = TaskLinear(4, 100, 50).requires_grad_(False)
    assert not (layer.weight[1] == layer.weight[0]).any()
    assert 0.095 < float(layer.weight.abs().max()) <= 0.1
    assert float(layer.bias.abs().max()) <= 0.1


def test_linears_become_a_stack_and_back():
    """Copies, which change apart."""
    linears = [nn.Linear(3, 2, **OPTIONS) for _ in range(4)]
    layer = TaskLinear.from_linears(linears, tasks=["a", "b", "c", "d"])
    x = torch.randn(1, 3, **OPTIONS)
    for index, (linear, copy) in enumerate(zip(linears, layer.to_linears(), strict=True)):
        assert_close(layer(x, index), linear(x))
        assert torch.equal(copy.weight, linear.weight)
        assert torch.equal(copy.bias, linear.bias)
    linears[0].weight.data.zero_()
    assert layer.weight[0].any()
    assert TaskLinear.from_linears([nn.Linear(3, 2, bias=False)]).to_linears()[0].bias is None


def test_state_goes_round_and_copies_are_apart():
    """`state_dict` and `deepcopy`."""
    layer, other = TaskLinear(3, 4, 2, **OPTIONS), TaskLinear(3, 4, 2, **OPTIONS)
    assert list(layer.state_dict()) == ["weight", "bias"]
    other.load_state_dict(layer.state_dict())
    copy = deepcopy(layer)
    x, task = batch(5, 4, 3)
    assert torch.equal(other(x, task), layer(x, task))
    layer.weight.data.zero_()
    assert torch.equal(other(x, task), copy(x, task))


def test_representation_has_the_sizes():
    """As `nn.Linear` shows its own."""
    expected = "TaskLinear(n_tasks=3, in_features=4, out_features=2, bias=False)"
    assert repr(TaskLinear(3, 4, 2, bias=False)) == expected


@pytest.mark.parametrize("shape", [(5, 3), (4,), (5, 4, 3)])
def test_inputs_of_another_size_are_an_error(shape):
    """The message has the shape."""
    message = r"`x` must have rows of 4 features: expected shape \(n, …, 4\), got \("
    with pytest.raises(ValueError, match=message):
        TaskLinear(3, 4, 2)(torch.zeros(shape), 0)


def test_inputs_of_another_type_are_an_error():
    """The message has both types."""
    message = "floating type of the weights: expected torch.float32, got torch.float64. Convert"
    with pytest.raises(TypeError, match=message):
        TaskLinear(3, 4, 2)(torch.zeros(5, 4, dtype=torch.float64), 0)


def test_whole_numbers_are_no_inputs_under_autocast_either():
    """As for `torch.nn.functional.linear`."""
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(TypeError, match="expected torch.float32, got torch.int64. Convert"),
    ):
        TaskLinear(3, 4, 2)(torch.ones(5, 4, dtype=torch.int64), 0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 4, 2), ValueError, "`tasks` must hold at least one task: got 0"),
        (([], 4, 2), ValueError, r"`tasks` must hold at least one task: got \[\]"),
        ((["a", "b", "a"], 4, 2), ValueError, "one name per task: got 'a' more than once"),
        (("ab", 4, 2), TypeError, "a number of tasks or their names: got str. Use a list"),
        ((2.0, 4, 2), TypeError, "a number of tasks or their names: got float"),
        ((2, 0, 2), ValueError, "`in_features` must be at least 1: got 0"),
        ((2, 4, -1), ValueError, "`out_features` must be at least 1: got -1"),
        ((2, 4.0, 1), TypeError, "`in_features` must be a whole number: got float"),
    ],
)
def test_senseless_sizes_are_errors(arguments, error, message):
    """At construction."""
    with pytest.raises(error, match=message):
        TaskLinear(*arguments)


def test_linears_that_do_not_stack_are_an_error():
    """No layers, other shapes, other biases, other names."""
    message = "`linears` must be layers of one shape, all with a bias or all without"
    for linears in (
        [],
        [nn.Linear(3, 2), nn.Linear(4, 2)],
        [nn.Linear(3, 2), nn.Linear(3, 2, False)],
    ):
        with pytest.raises(ValueError, match=message):
            TaskLinear.from_linears(linears)
    with pytest.raises(ValueError, match="name every layer: expected 1 names, got 2"):
        TaskLinear.from_linears([nn.Linear(3, 2)], tasks=["a", "b"])
