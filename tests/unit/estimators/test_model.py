"""Linear models give scores for rows of several tasks."""

import numpy as np
import pytest
from scipy import sparse

from multirel.estimators._model import LinearModel

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
TASK = np.array([1, 0, 1])


@pytest.mark.parametrize("form", [np.array, sparse.csr_array, lambda x: x.astype(np.float32)])
def test_every_row_is_scored_by_the_weights_of_its_task(form):
    weights = np.array([[[1.0, 0.0]], [[0.0, 10.0]]])
    intercepts = np.array([[0.5], [-1.0]])
    assert LinearModel(weights, intercepts).scores(form(X), TASK).tolist() == [[19], [3.5], [59]]


def test_outputs_that_a_task_lacks_are_minus_infinity():
    weights = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 1.0]])]
    intercepts = [np.zeros(1), np.zeros(2)]
    scores = LinearModel(weights, intercepts).scores(X, TASK)
    assert scores.tolist() == [[2, 3], [3, -np.inf], [6, 11]]
