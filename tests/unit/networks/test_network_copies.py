"""Copies of a network compute what the networks compute, and keep apart."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from multirel.networks import MultitaskNetwork, NetworkCopies, TaskLinear, TaskLinearCopies
from tests.environment import DEVICE, DTYPE, assert_close


def networks(n: int = 3, **options) -> list[MultitaskNetwork]:
    torch.manual_seed(0)
    options = {"n_outputs": 4, "hidden_sizes": (6, 5)} | options
    return [MultitaskNetwork(7, 3, **options).to(DEVICE, DTYPE) for _ in range(n)]


def batch(n_rows: int = 20, *, n_copies: int = 3) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    x = torch.randn(n_rows, 7, device=DEVICE, dtype=DTYPE)
    return x, torch.randint(3, (n_rows,)), torch.randint(n_copies, (n_rows,))


def outputs(alone: Sequence[MultitaskNetwork], rows: tuple[torch.Tensor, ...]) -> torch.Tensor:
    x, task, copy = rows
    each = [alone[c](x[n : n + 1], task[n : n + 1]) for n, c in enumerate(copy.tolist())]
    return torch.cat(each)


@pytest.mark.parametrize("shared_layers", [0, 1, 2])
@pytest.mark.parametrize("hidden_sizes", [(6, 5), (6,), ()])
def test_every_copy_computes_what_its_network_computes(hidden_sizes, shared_layers: int):
    options = {"hidden_sizes": hidden_sizes, "shared_layers": min(shared_layers, len(hidden_sizes))}
    alone, rows = networks(**options), batch()
    x, task, copy = rows
    assert_close(NetworkCopies(alone)(x, task, copy=copy), outputs(alone, rows), factor=10)


def test_gradients_reach_the_copies_of_the_batch_and_no_others():
    copies = NetworkCopies(networks())
    x, task, _ = batch()
    copies(x, task, copy=torch.full_like(task, 1)).sum().backward()
    for parameter in copies.parameters():
        assert bool(parameter.grad[1].any())
        assert not bool(parameter.grad[[0, 2]].any())


def test_weights_written_back_are_those_of_the_copies():
    alone, rows = networks(shared_layers=1), batch()
    copies = NetworkCopies(alone)
    with torch.no_grad():
        for parameter in copies.parameters():
            parameter.add_(torch.randn_like(parameter))
    others = networks(shared_layers=1)
    copies.write_to(others)
    x, task, copy = rows
    assert_close(outputs(others, rows), copies(x, task, copy=copy), factor=10)


def test_layers_without_bias_are_copied_without():
    layers = [TaskLinear(2, 3, 4, bias=False) for _ in range(2)]
    copies = TaskLinearCopies(layers)
    assert copies.bias is None
    copies.write_to(layers)


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ([], "at least one network: got none"),
        ([*networks(1), *networks(1, n_outputs=5)], "one architecture: got 2 kinds"),
        ([*networks(1), *networks(1, dropout=0.5)], "one architecture: got 2 kinds"),
        ([MultitaskNetwork(nn.Linear(3, 7), 3, n_outputs=4, n_features=7)], "expected no backbone"),
        (networks(2, factorization="laf", ranks=(1,)), "heads that are plain stacks"),
        (networks(2, n_outputs=[2, 3, 4]), "heads that are plain stacks"),
    ],
)
def test_networks_that_cannot_be_copied_together_are_refused(starts, message: str):
    with pytest.raises(ValueError, match=message):
        NetworkCopies(starts)


def test_writing_back_to_another_number_of_networks_is_refused():
    with pytest.raises(ValueError, match="one per copy: expected 3, got 2"):
        NetworkCopies(networks()).write_to(networks(2))


def test_layers_that_differ_are_refused():
    with pytest.raises(ValueError, match="`layers` must be alike"):
        TaskLinearCopies([TaskLinear(2, 3, 4), TaskLinear(2, 3, 5)])


@pytest.mark.parametrize("given", [nn.Linear(2, 2), [nn.Linear(2, 2)], None])
def test_copies_are_of_networks_for_several_tasks(given):
    with pytest.raises(TypeError, match="`networks` must be a sequence of MultitaskNetwork"):
        NetworkCopies(given)


@pytest.mark.parametrize(
    ("task", "copy", "message"),
    [
        (
            [0, 3],
            [0, 0],
            "`task` must hold indices of the 3 tasks: expected 0 to 2, got 3 in row 1",
        ),
        (
            [-1, 0],
            [1, 1],
            "`task` must hold indices of the 3 tasks: expected 0 to 2, got -1 in row 0",
        ),
        (
            [0, 0],
            [0, 3],
            "`copy` must hold indices of the 3 copies: expected 0 to 2, got 3 in row 1",
        ),
        ([0, 0], [-1, 0], "`copy` must hold .* copies: expected 0 to 2, got -1 in row 0"),
        ([0, 0], [0], r"`copy` must have one entry per row: expected shape \(2,\), got \(1,\)"),
    ],
)
def test_rows_of_no_task_or_copy_are_refused(task: list[int], copy: list[int], message: str):
    """The task after the last would be the first of the next copy."""
    x, _, _ = batch(2)
    with pytest.raises(ValueError, match=message):
        NetworkCopies(networks())(x, torch.tensor(task), copy=torch.tensor(copy))
