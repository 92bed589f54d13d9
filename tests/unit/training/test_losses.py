"""Losses per row: values, gradients, padding, mixed kinds, weights of classes, and messages."""

import pytest
import torch
import torch.nn.functional as F

from multirel.networks import MultitaskNetwork
from multirel.training import Losses, _losses
from tests.environment import DEVICE, DTYPE, assert_close, tensor

INF = float("inf")
NAN = float("nan")


def losses_of(kind, outputs, y, task=None, **options):
    task = torch.zeros(len(outputs), dtype=torch.int64) if task is None else torch.tensor(task)
    n_tasks = int(task.max()) + 1
    labels = torch.as_tensor(y)
    labels = labels.to(device=DEVICE, dtype=DTYPE if labels.is_floating_point() else labels.dtype)
    outputs = torch.as_tensor(outputs).to(device=DEVICE, dtype=DTYPE)
    return Losses(kind, n_tasks=n_tasks, **options)(outputs, labels, task)


def test_cross_entropy_is_that_of_torch():
    outputs, y = tensor([[1.0, 2, 3], [0, -1, 1]]), torch.tensor([2, 0], device=DEVICE)
    expected = F.cross_entropy(outputs, y, reduction="none")
    assert_close(losses_of("cross-entropy", outputs, y), expected)
    assert_close(losses_of("cross-entropy", outputs, y.unsqueeze(1)), expected)
    assert_close(losses_of("cross-entropy", outputs, y.double()), expected)


def test_binary_is_that_of_torch_and_takes_any_type_of_label():
    outputs, y = tensor([[1.0], [-2], [0.5]]), [1, 0, 1]
    expected = F.binary_cross_entropy_with_logits(
        outputs.squeeze(1), tensor([1.0, 0, 1]), reduction="none"
    )
    for labels in (y, [True, False, True], [1.0, 0.0, 1.0], [[1], [0], [1]]):
        assert_close(losses_of("binary", outputs, labels), expected)
    assert_close(losses_of("binary", outputs.squeeze(1), y), expected)


def test_squared_sums_over_columns_and_passes_over_missing_labels():
    outputs = [[1.0, 2], [3, 4]]
    assert_close(losses_of("squared", outputs, [[0.0, 0], [0, 0]]), [5, 25])
    assert_close(losses_of("squared", outputs, [[0.0, NAN], [NAN, NAN]]), [1, 0])
    assert_close(losses_of("squared", [[1.0], [3]], [0.0, 1]), [1, 4])


def test_missing_labels_have_no_gradient():
    for kind in ("squared", "binary"):
        outputs = tensor([[1.0, 2], [3, 4]]).requires_grad_()
        task = torch.zeros(2, dtype=torch.int64)
        Losses(kind, n_tasks=1)(outputs, tensor([[1.0, NAN], [NAN, 0]]), task).sum().backward()
        assert outputs.grad.isfinite().all()
        assert (outputs.grad[torch.tensor([[False, True], [True, False]])] == 0).all()


def test_columns_that_a_task_does_not_have_count_nothing():
    outputs = tensor([[1.0, 2, -INF], [0, -1, 1]]).requires_grad_()
    y, task = torch.tensor([1, 2], device=DEVICE), torch.tensor([0, 1])
    losses = Losses("cross-entropy", n_tasks=2)(outputs, y, task)
    assert_close(losses[0], F.cross_entropy(outputs[:1, :2], y[:1]))
    losses.sum().backward()
    assert outputs.grad.isfinite().all()
    assert outputs.grad[0, 2] == 0


def test_weights_behind_padded_outputs_get_finite_gradients():
    torch.manual_seed(0)
    network = MultitaskNetwork(4, 3, n_outputs=[2, 5, 3], hidden_sizes=(6,)).to(DEVICE)
    x, task = torch.randn(6, 4, device=DEVICE), torch.tensor([0, 1, 2, 2, 1, 0])
    y = torch.tensor([1, 4, 2, 0, 0, 0], device=DEVICE)
    Losses("cross-entropy", n_tasks=3)(network(x, task), y, task).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_each_task_has_its_own_loss():
    """Classes, a number and a yes or no, where the network pads all to the widest."""
    outputs = tensor([[1.0, 2, 3], [4, -INF, -INF], [0.5, -INF, -INF]]).requires_grad_()
    kinds = {0: "cross-entropy", 1: "squared", 2: "binary"}
    y = tensor([1.0, 2, 1])
    losses = Losses(kinds, n_tasks=3)(outputs, y, torch.tensor([0, 1, 2]))
    assert_close(losses[0], F.cross_entropy(outputs[:1], torch.tensor([1], device=DEVICE)))
    assert_close(losses[1], 4)
    assert_close(losses[2], F.binary_cross_entropy_with_logits(outputs[2, 0], y[2]))
    losses.sum().backward()
    assert outputs.grad.isfinite().all()
    assert (outputs.grad[1:, 1:] == 0).all()


def test_a_mixed_batch_may_lack_some_kinds():
    losses = Losses({0: "cross-entropy", 1: "squared"}, n_tasks=2)
    found = losses(tensor([[4.0, -INF]]), tensor([1.0]), torch.tensor([1]))
    assert_close(found, [9])


def test_half_precision_is_lifted():
    outputs = torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)
    losses = Losses("cross-entropy", n_tasks=1)
    assert losses(outputs, torch.tensor([1]), torch.tensor([0])).dtype == torch.float32


def test_an_empty_batch_has_no_losses():
    losses = Losses("cross-entropy", n_tasks=1)
    empty = torch.zeros(0, dtype=torch.int64)
    assert losses(tensor(torch.zeros(0, 3)), empty.to(DEVICE), empty).shape == (0,)


def test_classes_weigh_what_they_are_given():
    task = torch.tensor([0, 0, 1])
    same = Losses("cross-entropy", n_tasks=2, class_weight=[1.0, 3.0])
    assert same.class_weights(torch.tensor([0, 1, 1]), task).tolist() == [1, 3, 3]
    apart = Losses("cross-entropy", n_tasks=2, class_weight={1: torch.tensor([1.0, 5.0])})
    assert apart.class_weights(torch.tensor([0, 1, 1]), task).tolist() == [1, 1, 5]
    none = Losses("squared", n_tasks=2)
    assert none.class_weights(torch.tensor([0.0, 1, 1]), task).tolist() == [1, 1, 1]


def test_binary_columns_have_weights_too():
    losses = Losses("binary", n_tasks=1, class_weight=[1.0, 2.0])
    zeros = torch.tensor([0, 0])
    assert losses.class_weights(torch.tensor([[0.0], [1.0]]), zeros).tolist() == [1, 2]


def test_losses_describe_themselves():
    assert Losses("squared", n_tasks=2).describe() == {"of_task": "squared", "class_weight": {}}
    mixed = Losses({0: "binary", 1: "squared"}, n_tasks=2, class_weight={0: [1, 2]})
    assert mixed.describe() == {
        "of_task": ["binary", "squared"],
        "class_weight": {"0": [1.0, 2.0]},
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cross-entropy", [[1.0, 2]], [2]), "expected 0 to 1 for task 0, got 2"),
        (("cross-entropy", [[1.0, 2]], [-1]), "expected 0 to 1 for task 0, got -1"),
        (("cross-entropy", [[1.0, 2]], [0.5]), "expected 0 to 1 for task 0, got 0.5"),
        (("cross-entropy", [[1.0, -INF]], [1], [1]), "expected 0 to 0 for task 1, got 1"),
        (("cross-entropy", [[1.0, 2]], [[0, 1]]), r"must hold one class per row .*got \(1, 2\)"),
        (("binary", [[1.0]], [2]), "`y` must be 0 or 1 for losses='binary': got 2"),
        (("binary", [[1.0]], [-1]), "`y` must be 0 or 1 for losses='binary': got -1"),
        (("binary", [[1.0, 2]], [1]), r"expected shape \(1, 2\), got \(1,\). Set `n_outputs`"),
        (("squared", [[1.0]], [[1.0, 2]]), r"expected shape \(1,\) or \(1, 1\), got \(1, 2\)"),
        (("squared", [[1.0, 2]], [1.0]), r"`y` must have one label per output for losses='squ"),
        (
            ({0: "squared", 1: "binary"}, [[1.0]], [[1.0]], [1]),
            r"where tasks have different losses",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(arguments, message):
    if DEVICE.type != "cpu" and ("expected 0 to" in message or "0 or 1" in message):
        pytest.skip("values of labels are looked at on the CPU only")
    with pytest.raises(ValueError, match=message):
        losses_of(*arguments)


@pytest.mark.parametrize("label", [2, 7, -1])
def test_wrong_labels_that_are_not_looked_at_give_infinity(label, monkeypatch):
    """So training stops, on devices where looking would wait."""
    monkeypatch.setattr(_losses, "_check_classes", lambda *arguments: None)
    assert losses_of("cross-entropy", [[1.0, 2.0, -INF]], [label]).tolist() == [INF]


@pytest.mark.parametrize("shape", [(3, 2), (2, 2, 2), ()])
def test_outputs_of_another_shape_are_refused(shape):
    zeros = torch.zeros(2, dtype=torch.int64)
    message = (
        r"`network` must give one row of outputs per row .* expected shape \(2, outputs\), got"
    )
    with pytest.raises(ValueError, match=message):
        Losses("squared", n_tasks=1)(torch.zeros(shape), zeros, zeros)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"losses": "hinge"},
            "`losses` must be losses by name: expected 'cross-entropy', 'binary',",
        ),
        ({"losses": {0: "hinge"}}, "got 'hinge'"),
        ({"losses": {0: "squared"}}, "expected tasks 0 to 1, which differs in 1"),
        ({"losses": {0: "squared", 1: "squared", 2: "squared"}}, "which differs in 2"),
        (
            {"losses": "squared", "class_weight": [1, 2]},
            "`class_weight` must be for tasks with classes: expected some of none, got task 0",
        ),
        (
            {"losses": {0: "binary", 1: "squared"}, "class_weight": {1: [1, 2]}},
            "expected some of 0, got task 1",
        ),
        (
            {"losses": "binary", "class_weight": [1, 2, 3]},
            "weights of 0 and of 1 for a binary task: got 3 weights for task 0",
        ),
        (
            {"losses": "cross-entropy", "class_weight": [1, -2]},
            "`class_weight` must be finite and not negative",
        ),
    ],
)
def test_losses_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Losses(**options, n_tasks=2)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 2], "expected one for class 2 of task 0, got 2 weights"),
        ([[0, 1], [1, 1]], "must be None where rows have several labels: got y with 2 columns"),
    ],
)
def test_classes_without_a_weight_are_refused(y, message):
    losses = Losses("cross-entropy", n_tasks=1, class_weight=[1, 2])
    with pytest.raises(ValueError, match=message):
        losses.class_weights(torch.tensor(y), torch.tensor([0, 0]))


def test_weights_of_classes_are_numbers():
    with pytest.raises(TypeError, match="`class_weight` must hold numbers: expected .*, got str"):
        Losses("cross-entropy", n_tasks=2, class_weight="balanced")
    with pytest.raises(
        ValueError, match=r"one weight per class: expected one axis, got shape \(\)"
    ):
        Losses("cross-entropy", n_tasks=2, class_weight=2.0)
