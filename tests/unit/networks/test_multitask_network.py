"""Networks of a backbone and heads: names, starts, outputs of different sizes, and messages."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from multirel.networks import FactorizedTaskLinear, MultitaskNetwork, TaskLinear, group_rows
from tests.environment import DEVICE, DTYPE, assert_close

OPTIONS = {"device": DEVICE, "dtype": DTYPE}


def network_of(backbone=5, tasks=3, **options) -> MultitaskNetwork:
    return MultitaskNetwork(backbone, tasks, **{"n_outputs": 2} | options).to(**OPTIONS)


class Backbone(nn.Linear):
    """Twice as many inputs as features."""

    n_features = 5

    def __init__(self):
        super().__init__(10, 5)


@pytest.mark.parametrize(
    ("hidden_sizes", "names"),
    [((), ["fc8"]), ((4,), ["fc7", "fc8"]), ((6, 4), ["fc6", "fc7", "fc8"])],
)
def test_layers_count_down_from_fc8(hidden_sizes, names):
    """The output layer is always fc8, and all are native stacks."""
    network = network_of(hidden_sizes=hidden_sizes)
    assert list(network.heads) == names
    assert all(isinstance(network.get_submodule(f"heads.{name}"), TaskLinear) for name in names)
    assert network.heads["fc8"].weight.shape == (3, 2, (5, *hidden_sizes)[-1])


def test_shared_layers_are_plain_and_come_first():
    """All hidden layers shared is hard sharing."""
    network = network_of(hidden_sizes=(6, 4), shared_layers=1)
    assert (list(network.shared), list(network.heads)) == (["fc6"], ["fc7", "fc8"])
    assert type(network.shared["fc6"]) is nn.Linear
    network = network_of(hidden_sizes=(6, 4), shared_layers=2)
    assert (list(network.shared), list(network.heads)) == (["fc6", "fc7"], ["fc8"])


def test_hidden_copies_start_equal_and_outputs_do_not():
    """As in the paper."""
    torch.manual_seed(0)
    heads = network_of(hidden_sizes=(4,)).heads
    assert (heads["fc7"].weight == heads["fc7"].weight[0]).all()
    assert not (heads["fc8"].weight[0] == heads["fc8"].weight[1]).any()


def test_every_row_goes_through_the_layers_of_its_task():
    """Backbone, shared layer, ReLU, own layers, no ReLU at the end."""
    torch.manual_seed(0)
    network = network_of(Backbone(), hidden_sizes=(6, 4), shared_layers=1)
    x, task = torch.randn(7, 10, **OPTIONS), torch.tensor([2, 0, 2, 1, 1, 0, 2], device=DEVICE)
    heads = network.heads
    for row, index, y in zip(x, task.tolist(), network(x, task), strict=True):
        hidden = network.shared["fc6"](network.backbone(row)).relu()
        hidden = F.linear(hidden, heads["fc7"].weight[index], heads["fc7"].bias[index]).relu()
        expected = F.linear(hidden, heads["fc8"].weight[index], heads["fc8"].bias[index])
        assert_close(y, expected)


def test_tasks_come_as_indices_names_an_index_or_grouped():
    """All forms of `task`."""
    torch.manual_seed(0)
    network = network_of(tasks=["a", "b", "c"], hidden_sizes=(4,))
    x = torch.randn(4, 5, **OPTIONS)
    names = ["c", "a", "c", "c"]
    task = network.task_index(names)
    assert task.tolist() == [2, 0, 2, 2]
    expected = network(x, task.to(DEVICE))
    assert torch.equal(network(x, names), expected)
    assert torch.equal(network(x, task), expected)
    assert torch.equal(network(x, group_rows(task, 3)), expected)
    assert_close(network(x, 2)[0], expected[0])


def test_features_of_the_backbone_can_be_kept():
    """`forward_features` is the rest of the network."""
    torch.manual_seed(0)
    network = network_of(Backbone(), hidden_sizes=(4,))
    x, task = torch.randn(6, 10, **OPTIONS), torch.arange(6, device=DEVICE) % 3
    assert torch.equal(network.forward_features(network.backbone(x), task), network(x, task))


def test_a_single_output_is_a_column():
    """For regression and two classes alike."""
    network = network_of(n_outputs=1)
    assert network(torch.zeros(4, 5, **OPTIONS), 0).shape == (4, 1)


@pytest.mark.parametrize("hidden_sizes", [(), (4,)])
def test_columns_that_a_task_does_not_have_are_minus_infinity(hidden_sizes):
    """Softmax gives them nothing, and gradients of the cross-entropy are finite."""
    torch.manual_seed(0)
    network = network_of(n_outputs=[2, 4, 3], hidden_sizes=hidden_sizes)
    x = torch.randn(6, 5, **OPTIONS, requires_grad=True)
    task = torch.tensor([2, 0, 1, 1, 0, 2], device=DEVICE)
    y = network(x, task)
    assert y.shape == (6, 4)
    assert torch.isfinite(y).sum(1).tolist() == [3, 2, 4, 4, 2, 3]
    assert not y.softmax(1)[1, 2:].any()
    F.cross_entropy(y, torch.tensor([2, 1, 3, 0, 0, 1], device=DEVICE)).backward()
    layers = network.heads["fc8"].layers
    for row, index, outputs in zip(x, task.tolist(), y, strict=True):
        if not hidden_sizes:
            assert_close(outputs[: layers[index].out_features], layers[index](row))
    for parameter in (x, *network.parameters()):
        assert torch.isfinite(parameter.grad).all()
        assert parameter.grad.any()


def test_outputs_of_different_sizes_without_rows():
    """As many columns as the largest task has."""
    network = network_of(n_outputs=[2, 4, 3])
    task = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    assert network(torch.zeros(0, 5, **OPTIONS), task).shape == (0, 4)


def test_equal_numbers_of_outputs_are_a_stack():
    """Given as one number or one per task."""
    assert isinstance(network_of(n_outputs=[2, 2, 2]).heads["fc8"], TaskLinear)


def test_dropout_acts_in_training_only():
    """After every hidden layer, shared or not."""
    torch.manual_seed(0)
    network = network_of(hidden_sizes=(50, 50), shared_layers=1, dropout=0.5)
    x = torch.randn(4, 5, **OPTIONS)
    assert not torch.equal(network(x, 0), network(x, 0))
    network.eval()
    assert torch.equal(network(x, 0), network(x, 0))


@pytest.mark.parametrize("form", ["tucker", "tt", "laf"])
def test_task_specific_layers_can_be_factorized(form):
    """At construction, with ranks for all or by name; shared layers stay as they are."""
    torch.manual_seed(0)
    options = {"hidden_sizes": (6, 4), "shared_layers": 1, "factorization": form}
    network = network_of(**options, ranks=2)
    assert type(network.shared["fc6"]) is nn.Linear
    for name in ("fc7", "fc8"):
        assert isinstance(network.heads[name], FactorizedTaskLinear)
        assert set(network.heads[name].ranks) <= {1, 2}
    hidden = network.heads["fc7"].weight
    assert_close(hidden, hidden[:1].expand_as(hidden))
    named = network_of(**options, ranks={"fc7": 1, "fc8": None})
    assert set(named.heads["fc7"].ranks) == {1}
    assert network(torch.zeros(4, 5, **OPTIONS), 1).shape == (4, 2)


@pytest.mark.parametrize("form", ["tucker", "tt", "laf"])
def test_a_trained_network_can_be_factorized(form):
    """A copy that computes the same with full ranks, and nearly the same within an error."""
    torch.manual_seed(0)
    network = network_of(hidden_sizes=(4,), tasks=["a", "b", "c"])
    x, task = torch.randn(9, 5, **OPTIONS), torch.arange(9, device=DEVICE) % 3
    exact = network.factorized(form, relative_error=0.0)
    assert_close(exact(x, task), network(x, task), factor=10)
    near = network.factorized(form, relative_error=0.2)
    for name, stack in network.heads.items():
        error = (near.heads[name].weight - stack.weight).norm() / stack.weight.norm()
        assert float(error.detach()) <= 0.2
        assert near.heads[name].tasks == ("a", "b", "c")
    assert isinstance(network.heads["fc7"], TaskLinear)
    assert set(network.factorized(form, ranks={"fc7": 1, "fc8": 1}).heads["fc7"].ranks) == {1}


def test_with_different_outputs_only_hidden_layers_are_factorized():
    """Heterogeneous tasks: all but the last."""
    network = network_of(n_outputs=[2, 3, 2], hidden_sizes=(4,), factorization="laf", ranks=1)
    assert isinstance(network.heads["fc7"], FactorizedTaskLinear)
    assert len(network.heads["fc8"].layers) == 3


def test_state_goes_round_and_copies_are_apart():
    """Names in `state_dict` are those that a prior is attached to."""
    torch.manual_seed(0)
    network, other = network_of(hidden_sizes=(4,)), network_of(hidden_sizes=(4,))
    assert list(network.state_dict()) == [
        "heads.fc7.weight",
        "heads.fc7.bias",
        "heads.fc8.weight",
        "heads.fc8.bias",
    ]
    other.load_state_dict(network.state_dict())
    copy = deepcopy(network)
    x = torch.randn(4, 5, **OPTIONS)
    network.heads["fc8"].weight.data.zero_()
    assert torch.equal(other(x, 1), copy(x, 1))


def test_features_are_counted_by_the_backbone_or_given():
    """`n_features` of the backbone, a number in its place, or the argument."""
    assert network_of(Backbone()).n_features == 5
    assert network_of(7).n_features == 7
    assert network_of(None, n_features=7).n_features == 7
    assert network_of(nn.Linear(3, 7), n_features=7).n_features == 7


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"backbone": "alexnet"}, TypeError, "a module, a number of features or None: got str"),
        ({"backbone": nn.Linear(3, 5)}, ValueError, "`n_features` must be given: `backbone` has"),
        ({"backbone": None}, ValueError, "`n_features` must be given"),
        ({"n_features": 6}, ValueError, "`n_features` must be what .*: expected 5, got 6"),
        ({"backbone": 0}, ValueError, "`n_features` must be at least 1: got 0"),
        ({"n_outputs": [2, 3]}, ValueError, "one number, or one per task: expected 3, got 2"),
        ({"n_outputs": 0}, ValueError, "`n_outputs` must be at least 1: got 0"),
        ({"n_outputs": 2.0}, TypeError, "`n_outputs` must be a whole number .*: got float"),
        ({"n_outputs": None}, TypeError, "`n_outputs` must be a whole number .*: got NoneType"),
        ({"tasks": True}, TypeError, "`tasks` must be a number of tasks or their names: got bool"),
        ({"hidden_sizes": (4, 0)}, ValueError, "`hidden_sizes` must be at least 1: got 0"),
        ({"hidden_sizes": (4,) * 8}, ValueError, "at most 7 entries, fc1 to fc7: got 8"),
        ({"shared_layers": 1}, ValueError, "a number of hidden layers: expected 0 to 0, got 1"),
        ({"shared_layers": 0.5}, TypeError, "`shared_layers` must be a whole number: got float"),
        ({"shared_layers": "1"}, TypeError, "`shared_layers` must be a whole number: got str"),
        ({"dropout": "0.5"}, TypeError, "`dropout` must be a number: got str"),
        ({"dropout": 1.0}, ValueError, "`dropout` must be at least 0 and below 1: got 1.0"),
        ({"dropout": 0.5}, ValueError, "must be 0 without hidden layers: got 0.5"),
        ({"ranks": 2}, ValueError, "`ranks` must come with `factorization`"),
        ({"factorization": "cp"}, ValueError, "one of 'tucker', 'tt', 'laf': got 'cp'"),
        (
            {"factorization": "laf", "n_outputs": [1, 2, 3]},
            ValueError,
            "must have a stack to act on: .*Use `hidden_sizes=",
        ),
        (
            {"factorization": "laf", "ranks": {"fc7": 1}},
            ValueError,
            "`ranks` must name every task-specific stack: expected fc8, got fc7",
        ),
    ],
)
def test_senseless_arguments_are_errors(options, error, message):
    """At construction, in words that say which argument."""
    with pytest.raises(error, match=message):
        MultitaskNetwork(**{"backbone": 5, "tasks": 3, "n_outputs": 2} | options)


def test_features_of_another_shape_are_an_error():
    """The message says what to do."""
    network = MultitaskNetwork(nn.Sequential(), 3, n_outputs=2, n_features=5)
    for shape in ((4, 6), (4, 5, 1)):
        with pytest.raises(ValueError, match=r"`backbone` must give 5 features per row: .*Flatten"):
            network(torch.zeros(shape), 0)
    with pytest.raises(ValueError, match=r"`x` must have rows of 5 features: .*got \(4, 6\)"):
        MultitaskNetwork(5, 3, n_outputs=2)(torch.zeros(4, 6), 0)


def test_features_of_another_type_are_an_error_where_outputs_differ():
    """As for layers that are one stack."""
    network = MultitaskNetwork(5, 2, n_outputs=[2, 3])
    with pytest.raises(TypeError, match="floating type of the weights: expected torch.float32"):
        network(torch.zeros(3, 5, dtype=torch.float64), 0)


def test_names_of_no_task_are_an_error():
    """The message has the names that there are."""
    network = MultitaskNetwork(5, ["a", "b"], n_outputs=2)
    with pytest.raises(ValueError, match="names of tasks: expected some of a, b, got c, d"):
        network(torch.zeros(3, 5), ["d", "a", "c"])


def test_sizes_of_hidden_layers_are_a_sequence():
    with pytest.raises(
        TypeError, match=r"`hidden_sizes` must be a sequence of sizes: got 16. .*\(16,\)"
    ):
        network_of(hidden_sizes=16)


def test_inputs_are_tensors():
    with pytest.raises(TypeError, match="`x` must be a tensor, .*: got list"):
        network_of()([[0.0] * 5], 0)


def test_a_name_alone_is_not_spelled_out():
    """It would be taken for a row per letter."""
    network = network_of(tasks=["amazon", "dslr"])
    with pytest.raises(TypeError, match="`task` must hold a name per row: got 'amazon' alone"):
        network(torch.zeros(6, 5, **OPTIONS), "amazon")
