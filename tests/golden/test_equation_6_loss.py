"""Eq. (6): the losses of all rows of all tasks, over their number."""

import numpy as np
import pytest

from multirel.networks import MultitaskNetwork
from multirel.training import Recipe, TrainingRows, train
from tests.environment import DTYPE, array, tensor

N_ROWS, N_FEATURES, N_TASKS, N_CLASSES = 14, 3, 3, 4
RELATIVE = {"torch.float64": 1e-12, "torch.float32": 1e-5}[str(DTYPE)]


def cross_entropy(scores: np.ndarray, label: int) -> float:
    return float(np.log(np.exp(scores).sum()) - scores[label])


def squared(scores: np.ndarray, label: float) -> float:
    return float((scores[0] - label) ** 2)


@pytest.mark.parametrize(
    ("loss", "row_loss", "n_outputs"),
    [("cross-entropy", cross_entropy, N_CLASSES), ("squared", squared, 1)],
)
def test_loss_of_training_is_the_sum_over_tasks_and_their_rows_over_all_rows(
    loss, row_loss, n_outputs: int
):
    """(1/N) Σ_t Σ_n J(f_t(x_n), y_n), with tasks of different sizes and their own weights."""
    rng = np.random.default_rng(0)
    task = np.repeat(range(N_TASKS), (2, 3, 9))
    x = rng.standard_normal((N_ROWS, N_FEATURES))
    y = rng.integers(N_CLASSES, size=N_ROWS)
    network = MultitaskNetwork(N_FEATURES, N_TASKS, n_outputs=n_outputs).to(tensor(x))
    weight, bias = map(array, network.heads["fc8"].parameters())

    total = 0.0
    for t in range(N_TASKS):
        for features, label in zip(x[task == t], y[task == t], strict=True):
            total += row_loss(weight[t] @ features + bias[t], label)

    labels = y if loss == "cross-entropy" else tensor(y)
    rows = TrainingRows(tensor(x), labels, task)
    history = train(network, rows, losses=loss, recipe=Recipe(max_steps=1, batch_size=N_ROWS))
    assert history.loss[0] == pytest.approx(total / N_ROWS, rel=RELATIVE)
