"""Steps of training over random rows and weights: parts, paddings and tasks change nothing."""

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from multirel.networks import MultitaskNetwork
from multirel.training import Losses, Recipe, TrainingRows, train
from tests.environment import DEVICE, assert_close
from tests.properties.strategies import dtypes, seeds

FACTOR = 100.0


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 40), seeds())
def test_any_number_of_parts_gives_the_step_of_the_whole(n_rows, parts, batch_size, seed):
    """With any weights, zeros among them, and any tasks."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_rows, 3, dtype=torch.float64, generator=generator)
    task = torch.randint(4, (n_rows,), generator=generator)
    weight = torch.rand(n_rows, generator=generator) * (torch.arange(n_rows) % 3 != 1)
    rows = TrainingRows(x.to(DEVICE), x[:, 0].to(DEVICE), task, weight=weight, n_tasks=4)
    found = []
    for accumulate in (1, parts):
        torch.manual_seed(0)
        network = MultitaskNetwork(3, 4, n_outputs=1).to(device=DEVICE, dtype=torch.float64)
        recipe = Recipe(max_steps=3, batch_size=batch_size, accumulate=accumulate)
        history = train(network, rows, recipe=recipe, losses="squared")
        found.append((network.heads["fc8"].weight, torch.tensor(history.loss)))
    for one, other in zip(*found, strict=True):
        assert_close(other, one, dtype=torch.float64, factor=FACTOR)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 20), seeds(), dtypes())
def test_padded_outputs_have_the_losses_of_each_task_by_itself(n_outputs, n_rows, seed, dtype):
    """Values and gradients, for tasks with any numbers of classes."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.tensor(n_outputs)
    task = torch.randint(len(sizes), (n_rows,), generator=generator)
    y = torch.tensor([int(torch.randint(int(sizes[t]), (), generator=generator)) for t in task])
    outputs = torch.randn(n_rows, int(sizes.max()), generator=generator, dtype=dtype).to(DEVICE)
    has_column = (torch.arange(int(sizes.max())) < sizes[task].unsqueeze(1)).to(DEVICE)
    outputs.requires_grad_()
    padded = outputs.masked_fill(~has_column, -torch.inf)
    losses = Losses("cross-entropy", n_tasks=len(sizes))(padded, y.to(DEVICE), task)
    expected = torch.stack(
        [
            F.cross_entropy(outputs[row, : int(sizes[task[row]])], y[row].to(DEVICE))
            for row in range(n_rows)
        ]
    )
    assert_close(losses, expected, dtype=dtype, factor=FACTOR)
    gradients = [torch.autograd.grad(part.sum(), outputs)[0] for part in (losses, expected)]
    assert_close(*gradients, dtype=dtype, factor=FACTOR)
