"""Eq. (7): loss and prior together are minus the logarithm of the posterior, over the number of rows."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from multirel.networks import MultitaskNetwork
from multirel.priors import TensorNormalPrior, attach_prior
from multirel.training import Recipe, TrainingRows, train
from tests.environment import DTYPE, array, tensor
from tests.reference.dense import kronecker
from tests.stacks import covariances_of

N_ROWS, N_FEATURES, N_TASKS, N_CLASSES = 20, 3, 3, 2
RELATIVE = {"torch.float64": 1e-10, "torch.float32": 1e-4}[str(DTYPE)]


def log_likelihood(weight: np.ndarray, bias: np.ndarray, *rows: np.ndarray) -> float:
    """Σ_t Σ_n ln p(y_n | x_n, W)."""
    total = 0.0
    for features, label, task in zip(*rows, strict=True):
        scores = weight[task] @ features + bias[task]
        total += scores[label] - np.log(np.exp(scores).sum())
    return float(total)


def log_prior(weight: np.ndarray, prior: TensorNormalPrior) -> float:
    """ln p(W) of vec(W) ~ N(0, Σ_T ⊗ Σ_O ⊗ Σ_I)."""
    covariance = kronecker(covariances_of(prior, "heads.fc8"))
    return float(multivariate_normal.logpdf(weight.ravel(), cov=covariance))


def test_strength_one_is_the_posterior():
    """N (loss + objective of the prior) = −ln p(y | x, W) − ln p(W) − (D/2) ln 2π, at any weights."""
    rng = np.random.default_rng(0)
    task = rng.integers(N_TASKS, size=N_ROWS)
    x, y = rng.standard_normal((N_ROWS, N_FEATURES)), rng.integers(N_CLASSES, size=N_ROWS)
    rows = TrainingRows(tensor(x), y, task, n_tasks=N_TASKS)
    network = MultitaskNetwork(N_FEATURES, N_TASKS, n_outputs=N_CLASSES).to(tensor(x))
    prior = attach_prior(network, "heads.fc8", n_samples=N_ROWS, n_updates=0)
    for _ in range(2):
        weight, bias = map(array, network.heads["fc8"].parameters())
        constant = weight.size / 2 * np.log(2 * np.pi)
        likelihood = log_likelihood(weight, bias, x, y, task)
        expected = -likelihood - log_prior(weight, prior) - constant
        added = array(prior.objective()).item()

        history = train(network, rows, recipe=Recipe(max_steps=1, batch_size=N_ROWS))
        assert N_ROWS * (history.loss[0] + added) == pytest.approx(expected, rel=RELATIVE)
        prior.update()
