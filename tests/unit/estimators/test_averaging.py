"""Averages of models: linear ones stay linear, others average what they say."""

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from torch import nn

from multirel.estimators._averaging import AveragedModel, average_models
from multirel.estimators._model import LinearModel, Model
from multirel.estimators._network_images import BackboneModel

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3))
TASK = np.repeat([0, 1, 2], 4)


class Given(Model):
    """A model with scores that are given."""

    is_one_vs_rest = False

    def __init__(self, scores):
        self._scores = scores

    def scores(self, x, task):
        return self._scores


def linear(n_outputs=2, n_tasks=3):
    return LinearModel(
        RNG.standard_normal((n_tasks, n_outputs, 3)), RNG.standard_normal((n_tasks, n_outputs))
    )


def test_the_average_of_linear_models_has_their_average_scores():
    models = [linear() for _ in range(3)]
    average = average_models(models, sizes=[0, 0, 0], is_logistic=False)
    assert isinstance(average, LinearModel)
    expected = np.mean([model.scores(X, TASK) for model in models], axis=0)
    np.testing.assert_allclose(average.scores(X, TASK), expected)


def test_linear_models_of_tasks_with_their_own_classes_are_averaged_task_by_task():
    models = [
        LinearModel(
            [RNG.standard_normal((size, 3)) for size in (1, 3, 4)],
            [RNG.standard_normal(size) for size in (1, 3, 4)],
        )
        for _ in range(2)
    ]
    average = average_models(models, sizes=[2, 3, 4], is_logistic=True)
    expected = np.mean([model.scores(X, TASK) for model in models], axis=0)
    np.testing.assert_allclose(average.scores(X, TASK), expected)
    assert isinstance(average.weights, list)


def test_other_models_average_probabilities_and_numbers():
    """Tasks with two classes, three classes, and numbers."""
    every = 5 * RNG.standard_normal((4, 12, 3))
    every[:, TASK != 1, 1:] = -np.inf
    average = average_models([Given(s) for s in every], sizes=[2, 3, 0], is_logistic=True)
    assert isinstance(average, AveragedModel)
    scores = average.scores(X, TASK)
    np.testing.assert_allclose(expit(scores[:4, 0]), expit(every[:, :4, 0]).mean(axis=0))
    expected = softmax(every[:, 4:8], axis=2).mean(axis=0)
    np.testing.assert_allclose(softmax(scores[4:8], axis=1), expected)
    np.testing.assert_allclose(scores[8:, 0], every[:, 8:, 0].mean(axis=0))
    assert np.isneginf(scores[TASK != 1, 1:]).all()


def test_scores_of_the_squared_loss_are_averaged_themselves():
    every = RNG.standard_normal((2, 12, 3))
    average = average_models([Given(s) for s in every], sizes=[3, 3, 3], is_logistic=False)
    np.testing.assert_allclose(average.scores(X, TASK), every.mean(axis=0))


def test_probabilities_next_to_zero_and_one_stay_finite():
    every = np.array([[[800.0], [-800.0]], [[700.0], [-900.0]]])
    average = average_models([Given(s) for s in every], sizes=[2], is_logistic=True)
    scores = average.scores(np.zeros((2, 1)), np.zeros(2, dtype=int))
    np.testing.assert_allclose(scores[:, 0], [700 + np.log(2), -800 - np.log(2)], rtol=1e-12)


def test_models_behind_one_backbone_share_it():
    backbone = nn.Flatten()
    models = [BackboneModel(backbone, linear(), device="cpu") for _ in range(2)]
    average = average_models(models, sizes=[0, 0, 0], is_logistic=False)
    assert isinstance(average, BackboneModel)
    assert average.backbone is backbone
    images = torch.from_numpy(X).float().reshape(12, 1, 1, 3).numpy()
    expected = np.mean([model.scores(images, TASK) for model in models], axis=0)
    np.testing.assert_allclose(average.scores(images, TASK), expected, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [1, 2])
def test_linear_models_beside_others_answer_together(n_classes: int):
    one = linear(1)
    other = Given(RNG.standard_normal((12, 1)))
    average = average_models([one, other], sizes=[n_classes] * 3, is_logistic=True)
    expected = (expit(one.scores(X, TASK)) + expit(other.scores(X, TASK))) / 2
    np.testing.assert_allclose(expit(average.scores(X, TASK)), expected)
