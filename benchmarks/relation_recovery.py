"""How well task correlations and weights are recovered where both are known.

Twelve tasks in three blocks of four, with correlation .9 within and 0 between blocks; 200 rows per task, 30
features, 20 seeds. Prints the correlation between true and learned task correlations, the area under the ROC
curve for "same block", and the error of the weights, for every method; beside it what the exact weights
themselves give.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from multirel.data import TaskData, make_related_tasks
from multirel.estimators import MRNRegressor, MTRLRegressor, PooledRegressor, SingleTaskRegressor

N_TASKS, N_ROWS, N_FEATURES, N_BLOCKS = 12, 200, 30, 3
WITHIN = 0.9
NOISE = 5.0
"""Deviation of the noise; that of the responses without it is √30 ≈ 5.5."""

METHODS = {
    "single task": (SingleTaskRegressor, "strength", (3.0, 10.0, 30.0, 100.0, 300.0)),
    "pooled": (PooledRegressor, "strength", (3.0, 10.0, 30.0, 100.0, 300.0)),
    "MTRL": (MTRLRegressor, "strength", (0.001, 0.003, 0.01, 0.03, 0.1)),
    "MRN": (MRNRegressor, "strength", (3.0, 10.0, 30.0, 100.0, 300.0)),
}
"""Class, the name of its strength, and the strengths among which rows held out of training choose."""

HELD_OUT = 0.25


def simulate(seed: int) -> TaskData:
    """Tasks in three blocks."""
    block = np.arange(N_TASKS) * N_BLOCKS // N_TASKS
    covariance = np.where(block[:, None] == block, WITHIN, 0.0) + (1 - WITHIN) * np.eye(N_TASKS)
    return make_related_tasks(
        N_TASKS, N_ROWS, N_FEATURES, covariances={"task": covariance}, noise=NOISE, seed=seed
    )


def main() -> None:
    """Print a row of the table per method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    print("| method | correlation with the truth | same block (AUC) | error of the weights |")
    print("|---|---|---|---|")
    exact = [scores_of_correlations(data, true_correlations(data)) for data in map(simulate, seeds)]
    pearson, auc = np.mean(exact, axis=0)
    print(f"| exact weights | {pearson:.3f} | {auc:.3f} | 0 |", flush=True)
    for name in METHODS:
        pearson, auc, error = np.mean([recover(name, simulate(seed)) for seed in seeds], axis=0)
        shown = "– | –" if name in ("single task", "pooled") else f"{pearson:.3f} | {auc:.3f}"
        print(f"| {name} | {shown} | {error:.3f} |", flush=True)


def recover(name: str, data: TaskData) -> tuple[float, float, float]:
    """Correlation and AUC of the learned task correlations, and the relative error of the weights."""
    kind, setting, strengths = METHODS[name]
    rng = np.random.default_rng(0)
    held_out = rng.random(len(data)) < HELD_OUT
    scores = [
        kind(**{setting: strength})
        .fit(data.X[~held_out], data.y[~held_out], tasks=data.tasks[~held_out])
        .score(data.X[held_out], data.y[held_out], tasks=data.tasks[held_out])
        for strength in strengths
    ]
    best = strengths[int(np.argmax(scores))]
    model = kind(**{setting: best}).fit(data.X, data.y, tasks=data.tasks)
    order = [model.tasks_.tolist().index(name) for name in data.task_names]
    error = model.coef_[order] - data.true_weights
    relative = float(np.linalg.norm(error) / np.linalg.norm(data.true_weights))
    if not hasattr(model, "task_correlation_"):
        return float("nan"), float("nan"), relative
    learned = model.task_correlation_[np.ix_(order, order)]
    return *scores_of_correlations(data, learned), relative


def scores_of_correlations(data: TaskData, learned: NDArray[np.float64]) -> tuple[float, float]:
    """Correlation with the correlations that the weights were drawn from, and AUC for the same block."""
    pairs = np.triu_indices(N_TASKS, 1)
    true = data.true_covariances["task"][pairs]
    return float(np.corrcoef(true, learned[pairs])[0, 1]), float(
        roc_auc_score(true > 0, learned[pairs])
    )


def true_correlations(data: TaskData) -> NDArray[np.float64]:
    """Correlations of the true weights."""
    rows = data.true_weights[:, 0]
    deviation = np.linalg.norm(rows, axis=1)
    return rows @ rows.T / np.outer(deviation, deviation)


if __name__ == "__main__":
    main()
