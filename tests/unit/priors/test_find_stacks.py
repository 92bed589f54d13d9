"""Which weights a pattern finds, what their axes are called, and what is refused by name."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from multirel.networks import FactorizedTaskLinear, MultitaskNetwork, TaskConv2d, TaskLinear
from multirel.priors import Stack, TaskRelationship, attach_prior
from tests.stacks import NativeStack

TASKS = ("art", "product", "photo")


def stack_of(network, layers, **settings) -> Stack:
    (stack,) = attach_prior(network, layers, n_samples=10, **settings).stacks
    return stack


def heads(make=lambda: nn.Linear(4, 3), tasks=TASKS) -> nn.Module:
    """A network of the user's own: an `nn.ModuleDict` named "heads" with a layer "fc8" per task."""
    network = nn.Module()
    network.heads = nn.ModuleDict({task: nn.ModuleDict({"fc8": make()}) for task in tasks})
    return network


def refuses(message: str, network, layers, **settings) -> None:
    with pytest.raises(ValueError, match=message):
        attach_prior(network, layers, n_samples=10, **settings)


def test_native_layers_are_stacks_with_the_names_of_their_tasks():
    """`TaskLinear`: the parameter itself, with the layer's task names."""
    network = nn.ModuleDict({"fc8": TaskLinear(TASKS, 4, 2)})
    stack = stack_of(network, "fc8")
    assert stack.is_native
    assert stack.tasks == TASKS
    assert (stack.layer, stack.modes, stack.shape) == (
        "fc8",
        ("task", "output", "input"),
        (3, 2, 4),
    )
    assert stack.parameters == (network["fc8"].weight,)
    assert stack.parameter_names == ("fc8.weight",)


def test_tasks_without_names_are_numbered():
    """`TaskLinear(3, …)`, and a layer of the user's own that only has `stack_modes`."""
    assert stack_of(nn.ModuleDict({"a": TaskLinear(3, 4, 2)}), "a").tasks == ("0", "1", "2")
    own = nn.ModuleDict({"a": NativeStack(torch.randn(2, 3, 4))})
    assert stack_of(own, "a").tasks == ("0", "1")


def test_a_network_that_is_one_native_layer_has_the_empty_name():
    """As `named_modules` calls it."""
    stack = stack_of(TaskLinear(3, 4, 2), "")
    assert stack.parameter_names == ("weight",)


def test_collected_layers_are_stacked_in_the_order_of_the_network():
    """One `*` marks the task, whose name is what stands in its place."""
    network = heads()
    stack = stack_of(network, ["heads.*.fc8"])
    assert not stack.is_native
    assert stack.tasks == TASKS
    assert (stack.layer, stack.modes) == ("heads.*.fc8", ("task", "output", "input"))
    assert stack.shape == (3, 3, 4)
    assert stack.parameter_names == tuple(f"heads.{task}.fc8.weight" for task in TASKS)
    expected = torch.stack([network.heads[task]["fc8"].weight for task in TASKS])
    assert torch.equal(stack.tensor(), expected)


def test_stars_match_a_part_of_a_name_and_no_dot():
    """As in "head_*.fc"; lists have numbers."""
    network = nn.Module()
    network.head_a, network.head_b = (nn.ModuleDict({"fc": nn.Linear(4, 3)}) for _ in range(2))
    assert stack_of(network, "head_*.fc").tasks == ("a", "b")
    assert stack_of(nn.ModuleList(nn.Linear(4, 3) for _ in range(3)), "*").tasks == ("0", "1", "2")
    refuses("'head_\\*' matches nothing", network, "head_*")


def test_dots_in_patterns_are_dots():
    """They do not stand for any letter."""
    network = nn.ModuleDict({"a-fc": nn.Linear(4, 3), "b-fc": nn.Linear(4, 3)})
    refuses("matches nothing", network, "*.fc")


def test_layers_come_in_the_order_of_the_patterns():
    """One stack per pattern; a single pattern may be a string."""
    network = MultitaskNetwork(5, TASKS, n_outputs=2, hidden_sizes=(6,))
    prior = attach_prior(network, ["heads.fc8", "heads.fc7"], n_samples=10)
    assert [stack.layer for stack in prior.stacks] == ["heads.fc8", "heads.fc7"]
    assert [stack.tasks for stack in prior.stacks] == [TASKS, TASKS]


CONVOLUTIONS = [
    (lambda: nn.Conv1d(4, 3, 5), (3, 4), (5,), ("width",)),
    (lambda: nn.Conv2d(4, 3, (5, 2)), (3, 4), (5, 2), ("height", "width")),
    (lambda: nn.Conv3d(4, 3, (2, 5, 2)), (3, 4), (2, 5, 2), ("depth", "height", "width")),
    (lambda: nn.ConvTranspose1d(3, 4, 5), (3, 4), (5,), ("width",)),
    (lambda: nn.ConvTranspose2d(3, 4, (5, 2)), (3, 4), (5, 2), ("height", "width")),
    (lambda: nn.ConvTranspose3d(3, 4, (2, 5, 2)), (3, 4), (2, 5, 2), ("depth", "height", "width")),
]


@pytest.mark.parametrize(("make", "channels", "kernel", "names"), CONVOLUTIONS)
def test_kernels_of_convolutions_are_one_mode_unless_an_axis_is_named(
    make, channels, kernel, names
):
    """K = 4 with "kernel", K = 4 to 6 with "height" and "width"; transposed ones have the input first."""
    network = heads(make)
    first = ("input", "output") if "Transpose" in type(make()).__name__ else ("output", "input")
    merged = stack_of(network, "heads.*.fc8")
    size = torch.Size(kernel).numel()
    assert merged.modes == ("task", *first, "kernel")
    assert merged.shape == (3, *channels, size)
    assert stack_of(network, "heads.*.fc8", modes=("task", "kernel")).modes == merged.modes
    apart = stack_of(network, "heads.*.fc8", modes=("task", names[-1]))
    assert apart.modes == ("task", *first, *names)
    assert apart.shape == (3, *channels, *kernel)
    expected = torch.stack([layer["fc8"].weight for layer in network.heads.values()])
    assert torch.equal(merged.tensor(), expected.reshape(merged.shape))
    assert torch.equal(apart.tensor(), expected)


def test_native_convolutions_have_four_or_five_modes():
    """`TaskConv2d`."""
    network = nn.ModuleDict({"conv": TaskConv2d(TASKS, 2, 4, (3, 5))})
    assert stack_of(network, "conv").shape == (3, 4, 2, 15)
    stack = stack_of(network, "conv", modes=("task", "height", "width"))
    assert stack.modes == ("task", "output", "input", "height", "width")
    assert stack.shape == (3, 4, 2, 3, 5)


@pytest.mark.parametrize("pattern", ["heads.*.fc8.weight", "heads.*.fc8"])
@pytest.mark.parametrize(
    "make",
    [lambda: nn.Linear(4, 3), lambda: nn.Conv2d(4, 3, 2), lambda: nn.ConvTranspose2d(4, 3, 2)],
)
def test_patterns_may_name_the_parameters(make, pattern):
    """With the axes of the layer that they belong to."""
    stack, named = (stack_of(heads(make), name) for name in ("heads.*.fc8", pattern))
    assert (stack.modes, stack.shape) == (named.modes, named.shape)
    assert stack.parameter_names == named.parameter_names


def test_parameters_without_a_layer_go_by_their_number_of_axes():
    """A `ParameterDict` of matrices."""
    network = nn.Module()
    network.factors = nn.ParameterDict({task: torch.randn(5, 2) for task in sorted(TASKS)})
    stack = stack_of(network, "factors.*")
    assert stack.tasks == ("art", "photo", "product")
    assert (stack.modes, stack.shape) == (("task", "output", "input"), (3, 5, 2))


def test_parametrized_weights_are_refused_and_their_originals_are_not():
    """By the name of the layer; the error says which parameter to name instead."""
    network = heads(lambda: parametrizations.weight_norm(nn.Linear(4, 3)))
    message = "must name plain weights: that of 'heads.art.fc8' is parametrized.*weight.original"
    refuses(message, network, "heads.*.fc8")
    network = heads(lambda: parametrizations.orthogonal(nn.Linear(4, 3)))
    refuses("is parametrized", network, "heads.*.fc8")
    name = "heads.*.fc8.parametrizations.weight.original"
    assert stack_of(network, name).shape == (3, *network.heads["art"]["fc8"].weight.shape)


def test_weights_that_two_tasks_share_are_refused():
    """The same parameter in two layers, and the same layer under two names."""
    network = heads()
    network.heads["art"]["fc8"].weight = network.heads["photo"]["fc8"].weight
    message = (
        r"must use each weight once: 'heads.photo.fc8.weight' \(pattern 'heads.\*.fc8'\) is the same "
        "parameter as 'heads.art.fc8.weight'"
    )
    refuses(message, network, "heads.*.fc8")
    refuses("must use each weight once", network, "heads.*.fc8.weight")
    network = heads()
    network.heads["photo"]["fc8"] = network.heads["art"]["fc8"]
    refuses(message, network, "heads.*.fc8")
    network = heads()
    network.heads["photo"] = network.heads["art"]
    refuses(message, network, "heads.*.fc8")


def test_layers_that_are_named_twice_are_refused():
    """By one pattern twice, by two patterns, and by two names of one layer."""
    network = heads()
    message = r"must use each weight once: 'heads.art.fc8.weight' \(pattern 'heads.\*.fc8"
    refuses(message, network, ["heads.*.fc8", "heads.*.fc8"])
    refuses(message, network, ["heads.*.fc8", "heads.*.fc8.weight"])
    layer = TaskLinear(3, 4, 2)
    tied = nn.ModuleDict({"a": layer, "b": layer})
    refuses(
        r"'b.weight' \(pattern 'b'\) is the same parameter as 'a.weight' \(pattern 'a'\)",
        tied,
        ["a", "b"],
    )


def test_two_stars_are_refused():
    """With the number that was found."""
    message = (
        r"must mark the task by one `\*`: got 2 in 'heads.\*.\*'. Write one pattern per layer."
    )
    refuses(message, heads(), "heads.*.*")


def test_no_layers_are_refused():
    """An empty list."""
    refuses("`layers` must name at least one layer: got none", heads(), [])


@pytest.mark.parametrize("pattern", ["heads.*.fc9", "head.*.fc8", "fc8", "heads.art.fc9"])
def test_patterns_that_match_nothing_are_refused_with_near_names(pattern):
    """The error shows names of layers that are there."""
    message = rf"{re.escape(repr(pattern))} matches nothing. .* for example: .*heads\.\w+\.fc8"
    refuses(message, heads(), ["heads.*.fc8", pattern])


def test_patterns_for_a_network_without_weights_have_no_hint():
    """Nothing to show."""
    refuses("'fc8' matches nothing.$", nn.Sequential(nn.ReLU()), "fc8")


def test_one_task_alone_is_refused():
    """Collected or native."""
    message = "must name stacks of at least two tasks: 'heads.\\*.fc8' has only 'art'"
    refuses(message, heads(tasks=("art",)), "heads.*.fc8")
    refuses("'a' has only '0'", nn.ModuleDict({"a": TaskLinear(1, 4, 2)}), "a")


def test_a_single_layer_without_a_star_is_refused():
    """It has no task mode."""
    message = (
        "must name stacks: 'heads.art.fc8' is a single Linear. Put `\\*` in the place of the task"
    )
    refuses(message, heads(), "heads.art.fc8")


def test_a_star_over_native_layers_is_refused():
    """Their tasks are inside: layers are not tasks, whatever their shapes."""
    network = MultitaskNetwork(5, TASKS, n_outputs=5, hidden_sizes=(5,))
    message = (
        r"a layer that keeps its tasks in one tensor without `\*`: 'heads.\*' matches 'heads.fc7', a "
        "TaskLinear. Write 'heads.fc7'"
    )
    refuses(message, network, "heads.*")


def test_different_shapes_are_refused_with_all_of_them():
    """As tasks with different numbers of classes have them."""
    network = heads()
    network.heads["photo"]["fc8"] = nn.Linear(4, 7)
    message = (
        r"of one shape: 'heads.\*.fc8' has heads.art.fc8.weight \(3, 4\), .*photo.fc8.weight \(7, 4\). "
        "Where tasks have different outputs, put the prior on hidden layers only"
    )
    refuses(message, network, "heads.*.fc8")


def test_different_kinds_of_layers_are_refused():
    """Weights of one shape whose axes mean different things."""
    network = heads(lambda: nn.Conv2d(3, 3, 2))
    network.heads["photo"]["fc8"] = nn.ConvTranspose2d(3, 3, 2)
    refuses("must name weights of one shape", network, "heads.*.fc8")


def test_different_dtypes_and_devices_are_refused():
    """With what was found."""
    network = heads()
    network.heads["photo"]["fc8"].double()
    refuses(
        "of one dtype on one device: .*torch.float32 on cpu, torch.float64 on cpu",
        network,
        "heads.*.fc8",
    )
    network = heads()
    network.heads["photo"]["fc8"].to("meta")
    refuses("torch.float32 on cpu, torch.float32 on meta", network, "heads.*.fc8")


def test_layers_without_a_weight_are_refused():
    """A normalization without parameters, and a layer that composes its weight from factors."""
    network = heads(lambda: nn.LayerNorm(4, elementwise_affine=False))
    refuses("with a weight: 'heads.art.fc8' is a LayerNorm without", network, "heads.*.fc8")
    network = heads(lambda: FactorizedTaskLinear(2, 4, 3, factorization="laf"))
    refuses("is a FactorizedTaskLinear without one that is a parameter", network, "heads.*.fc8")


def test_weights_without_an_output_and_an_input_axis_are_refused():
    """Biases and scales."""
    refuses(r"'heads.art.fc8.bias' has shape \(3,\)", heads(), "heads.*.fc8.bias")
    network = heads(lambda: nn.BatchNorm1d(4))
    refuses(
        r"with an output and an input axis: 'heads.art.fc8' has shape \(4,\)",
        network,
        "heads.*.fc8",
    )


def test_modes_that_no_layer_has_are_refused():
    """A kernel without convolutions, depth without three axes."""
    message = "`modes` must be modes of the layers: got 'kernel', they have task, output, input"
    refuses(message, heads(), "heads.*.fc8", modes=("task", "kernel"))
    network = heads(lambda: nn.Conv2d(4, 3, 2))
    refuses("got 'depth'", network, "heads.*.fc8", modes=("task", "depth"))


def test_modes_that_some_layer_has_are_enough():
    """Linear layers beside convolutions."""
    network = nn.ModuleDict({"conv": TaskConv2d(3, 2, 4, 3), "fc8": TaskLinear(3, 4, 2)})
    prior = attach_prior(
        network, ["conv", "fc8"], n_samples=10, modes=("task", "output", "input", "kernel")
    )
    assert [stack.order for stack in prior.stacks] == [4, 3]
    prior.update()


def test_layers_that_share_a_task_covariance_have_the_tasks_in_one_order():
    """A row of Σ_T is one task."""
    network = nn.ModuleDict(
        {"fc7": TaskLinear(("x", "y"), 4, 4), "fc8": TaskLinear(("y", "x"), 4, 2)}
    )
    message = "needs layers with the same tasks in one order: expected x, y for 'fc8', got y, x"
    refuses(message, network, ["fc7", "fc8"], share_task_covariance=True)
    relationship = TaskRelationship(["y", "x"])
    refuses("expected y, x for 'fc7', got x, y", network, "fc7", share_task_covariance=relationship)
    attach_prior(network, ["fc7", "fc8"], n_samples=10)


@pytest.mark.parametrize("network", [torch.zeros(3, 2, 2), {"a": nn.Linear(2, 2)}, None])
def test_networks_are_modules(network):
    with pytest.raises(TypeError, match="`network` must be a torch.nn.Module: got"):
        attach_prior(network, ["*"], n_samples=10)


@pytest.mark.parametrize("layers", [3, None, [3], [b"*"], nn.Linear(2, 2)])
def test_layers_are_names(layers):
    with pytest.raises(TypeError, match="`layers` must be names of layers: got"):
        attach_prior(heads(), layers, n_samples=10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.LazyLinear(3), "must name weights that have a shape: 'heads.art.fc8' is lazy"),
        (lambda: nn.Linear(4, 3, dtype=torch.cfloat), "of a floating type: .* is torch.complex64"),
        (lambda: nn.Linear(4, 3, device="meta"), "that have values: those of .* are on the meta"),
    ],
)
def test_weights_are_numbers_that_are_there(make, message):
    refuses(message, heads(make), ["heads.*.fc8"])


def test_output_layers_of_different_sizes_are_explained():
    network = MultitaskNetwork(4, 3, n_outputs=[2, 4, 3], hidden_sizes=(5,))
    refuses(
        "'heads.fc8' is a SeparateOutputs, which has no weight of its own", network, ["heads.fc8"]
    )
