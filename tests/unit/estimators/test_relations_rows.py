"""Draws of weights have the mean and the covariance of their distribution given the rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from multirel.estimators import _relations_rows as module
from multirel.estimators._linear import Design
from multirel.estimators._relations_rows import WeightedRows
from tests.builders import positive_definite

N_TASKS, N_FEATURES, N_ROWS = 3, 2, 6


def make_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N_TASKS * N_ROWS, N_FEATURES)) + 1
    design = Design(x, np.arange(N_TASKS + 1) * N_ROWS)
    response = rng.standard_normal((len(x), 1))
    weight = rng.uniform(0.5, 2, (len(x), 1))
    norms = np.square(x).sum(axis=1)
    return WeightedRows(design, response, weight, squared_norms=norms)


def dense_distribution(rows, precision):
    """Mean and covariance of weights and intercepts together, these with a flat prior."""
    size = N_FEATURES + 1
    matrix = np.zeros((N_TASKS * size, N_TASKS * size))
    right = np.zeros(N_TASKS * size)
    for task in range(N_TASKS):
        mine = slice(task * N_ROWS, (task + 1) * N_ROWS)
        x = np.hstack([rows.design.x[mine], np.ones((N_ROWS, 1))])
        h = rows.weight[mine]
        part = slice(task * size, (task + 1) * size)
        matrix[part, part] += x.T @ (h * x)
        right[part] = x.T @ (h * rows.response[mine])[:, 0]
    prior = np.diag([1.0] * N_FEATURES + [0.0])
    matrix += np.kron(precision, prior)
    covariance = np.linalg.inv(matrix)
    return covariance @ right, covariance


@pytest.mark.parametrize("most_dense", [0, 500], ids=["conjugate gradients", "factorized"])
def test_draws_have_the_distribution_given_the_rows(monkeypatch, most_dense):
    monkeypatch.setattr(module, "MOST_DENSE", most_dense)
    rows, rng = make_rows(), np.random.default_rng(1)
    precision = positive_definite(np.random.default_rng(2), N_TASKS)
    draws = []
    for _ in range(4000):
        start = np.zeros((N_TASKS, 1, N_FEATURES))
        weights = rows.draw_weights(precision, start=start, rng=rng)
        intercepts = rows.draw_intercepts(rows.design.products(weights), rng)
        draws.append(np.concatenate([weights[:, 0], intercepts], axis=1).ravel())

    mean, covariance = dense_distribution(rows, precision)
    deviation = np.sqrt(np.diagonal(covariance))
    assert_allclose((np.mean(draws, axis=0) - mean) / deviation, 0, atol=0.08)
    scaled = np.cov(np.transpose(draws)) / np.outer(deviation, deviation)
    assert_allclose(scaled, covariance / np.outer(deviation, deviation), atol=0.08)


def test_both_ways_to_solve_give_one_draw(monkeypatch):
    rows = make_rows()
    precision = positive_definite(np.random.default_rng(2), N_TASKS)
    start = np.zeros((N_TASKS, 1, N_FEATURES))
    draws = []
    for most_dense in (0, 500):
        monkeypatch.setattr(module, "MOST_DENSE", most_dense)
        rng = np.random.default_rng(3)
        draws.append(rows.draw_weights(precision, start=start, rng=rng))

    assert_allclose(draws[0], draws[1], atol=1e-5)
