"""Scores of networks."""

import pickle

import numpy as np
import torch

from multirel.estimators._network_model import NetworkModel
from multirel.estimators._network_rows import InputUnits
from multirel.networks import MultitaskNetwork

TASK = np.array([0, 1, 1, 0, 1])
X = np.random.default_rng(0).standard_normal((5, 4))
UNITS = InputUnits(center=np.full(4, 0.5), scale=np.full(4, 2.0))


def make(n_outputs, *, center=(0.0, 0.0), scale=(1.0, 1.0)) -> NetworkModel:
    torch.manual_seed(0)
    network = MultitaskNetwork(4, 2, n_outputs=n_outputs, hidden_sizes=(3,), dropout=0.5)
    return NetworkModel(network, UNITS, center=np.array(center), scale=np.array(scale))


def test_scores_are_those_of_the_network_in_evaluation_mode():
    model = make(2)
    with torch.no_grad():
        expected = model.network.eval()(
            torch.from_numpy((X - 0.5) / 2).float(), torch.from_numpy(TASK)
        )
    found = model.scores(X, TASK)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_network_keeps_its_mode_and_precision():
    model = make(2)
    model.network.train()
    model.scores(X, TASK)
    assert model.network.training
    assert model.network.heads["fc8"].weight.dtype == torch.float32


def test_numbers_are_in_the_users_units():
    plain, scaled = make(1), make(1, center=(10.0, 20.0), scale=(1.0, 3.0))
    expected = plain.scores(X, TASK) * np.array([1, 3])[TASK][:, None]
    np.testing.assert_allclose(scaled.scores(X, TASK), expected + np.array([10, 20])[TASK][:, None])


def test_columns_that_a_task_does_not_have_are_infinitely_unlikely():
    scores = make([1, 3]).scores(X, TASK)
    assert np.isneginf(scores[TASK == 0, 1:]).all()
    assert np.isfinite(scores[TASK == 1]).all()


def test_batches_make_no_difference():
    x, task = np.tile(X, (500, 1)), np.tile(TASK, 500)
    model = make(2)
    np.testing.assert_allclose(
        model.scores(x, task), np.tile(model.scores(X, TASK), (500, 1)), rtol=1e-12, atol=1e-14
    )


def test_no_rows_have_no_scores():
    assert make(2).scores(X[:0], TASK[:0]).shape == (0, 2)


def test_models_can_be_pickled():
    model = make(2)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.scores(X, TASK), model.scores(X, TASK))
