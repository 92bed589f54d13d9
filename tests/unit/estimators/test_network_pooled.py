"""One network for all tasks, and the network of the tasks that it becomes."""

import pytest
import torch

from multirel.estimators._network_pooled import PooledNetwork
from multirel.networks import MultitaskNetwork

TASK = torch.tensor([0, 2, 1, 0, 2])


def make(*, has_task_intercepts: bool, n_outputs=2) -> PooledNetwork:
    torch.manual_seed(0)
    network = MultitaskNetwork(
        4, ["a", "b", "c"], n_outputs=n_outputs, hidden_sizes=(5,), shared_layers=1
    )
    pooled = PooledNetwork(network, has_task_intercepts=has_task_intercepts)
    with torch.no_grad():
        for parameter in (pooled.weight, pooled.bias):
            parameter.normal_()
    return pooled


@pytest.mark.parametrize("has_task_intercepts", [False, True])
def test_the_network_of_the_tasks_computes_the_same(has_task_intercepts: bool):
    pooled, x = make(has_task_intercepts=has_task_intercepts), torch.randn(5, 4)
    expected = pooled(x, TASK)
    network = pooled.to_multitask()
    torch.testing.assert_close(network(x, TASK), expected)
    assert network.tasks == ("a", "b", "c")


def test_tasks_have_the_same_outputs_unless_they_have_intercepts():
    x = torch.randn(1, 4).expand(5, 4)
    same = make(has_task_intercepts=False)(x, TASK)
    torch.testing.assert_close(same, same[:1].expand_as(same))
    own = make(has_task_intercepts=True)(x, TASK)
    assert not torch.allclose(own[0], own[1])
    torch.testing.assert_close(own[0], own[3])


def test_only_what_is_shared_trains():
    names = {name for name, _ in make(has_task_intercepts=True).named_parameters()}
    assert names == {"shared.fc7.weight", "shared.fc7.bias", "weight", "bias"}
