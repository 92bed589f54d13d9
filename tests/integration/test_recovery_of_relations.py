"""Simulated tasks in three blocks: what is learned of their relations, and what it does for the weights."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from multirel.data import make_related_tasks
from multirel.estimators import MRNRegressor, MTRLRegressor, PooledRegressor, SingleTaskRegressor

N_TASKS, N_ROWS, N_FEATURES = 12, 200, 30
SEEDS = range(20)
NOISE = 5.0
STRENGTHS = {
    SingleTaskRegressor: (3.0, 10.0, 30.0, 100.0, 300.0),
    PooledRegressor: (3.0, 10.0, 30.0, 100.0, 300.0),
    MTRLRegressor: (0.001, 0.003, 0.01, 0.03),
    MRNRegressor: (3.0, 10.0, 30.0, 100.0, 300.0),
}
PAIRS = np.triu_indices(N_TASKS, 1)
MARGIN = 0.95
"""The largest error of the weights, relative to that of a rival, each at its best strength."""


def simulate(seed):
    block = np.arange(N_TASKS) // 4
    covariance = np.where(block[:, None] == block, 0.9, 0.0) + 0.1 * np.eye(N_TASKS)
    return make_related_tasks(
        N_TASKS, N_ROWS, N_FEATURES, covariances={"task": covariance}, noise=NOISE, seed=seed
    )


def fit(model, data):
    model.fit(data.X, data.y, tasks=data.tasks)
    return model, [model.tasks_.tolist().index(name) for name in data.task_names]


def scores(correlations, data):
    """Correlation with the generating correlations, and AUC for "same block"."""
    true = data.true_covariances["task"][PAIRS]
    learned = correlations[PAIRS]
    return np.corrcoef(true, learned)[0, 1], roc_auc_score(true > 0, learned)


def error(model, data):
    fitted, order = fit(model, data)
    return np.linalg.norm(fitted.coef_[order] - data.true_weights) / np.linalg.norm(
        data.true_weights
    )


def smallest_error(kind):
    return min(
        np.mean([error(kind(strength=strength), simulate(seed)) for seed in SEEDS])
        for strength in STRENGTHS[kind]
    )


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (MRNRegressor, {"strength": 100.0}),
        (MRNRegressor, {"strength": 100.0, "modes": ("task",)}),
        (MTRLRegressor, {"strength": 0.01}),
    ],
)
def test_correlations_of_tasks_are_recovered(kind, settings, record_property):
    """Mean over 20 seeds: correlation with the truth ≥ .9, where exact weights have .957; AUC ≥ .95."""
    learned, exact = [], []
    for data in map(simulate, SEEDS):
        model, order = fit(kind(**settings), data)
        learned.append(scores(model.task_correlation_[np.ix_(order, order)], data))
        rows = data.true_weights[:, 0]
        norms = np.linalg.norm(rows, axis=1)
        exact.append(scores(rows @ rows.T / np.outer(norms, norms), data))

    pearson, auc = np.mean(learned, axis=0)
    record_property("correlation", float(pearson))
    record_property("correlation of the exact weights", float(np.mean(exact, axis=0)[0]))
    print(f"learned {pearson:.3f}, exact weights {np.mean(exact, axis=0)[0]:.3f}, AUC {auc:.3f}")
    assert pearson >= 0.9
    assert auc >= 0.95


@pytest.mark.slow
def test_weights_are_nearer_the_truth_than_those_of_one_task_or_of_all():
    rivals = min(smallest_error(SingleTaskRegressor), smallest_error(PooledRegressor))

    assert smallest_error(MTRLRegressor) <= MARGIN * rivals
    assert smallest_error(MRNRegressor) <= MARGIN * rivals
