"""How methods compare as tasks become more related: a table, and a picture in `which-method.svg`.

The first argument is how many times every case is drawn.
"""

import sys
from functools import partial

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from multirel.data import make_related_tasks
from multirel.estimators import (
    DMTLRegressorCV,
    MeanRegularizedRegressorCV,
    MRNRegressorCV,
    MTRLRegressorCV,
    PooledRegressorCV,
    SingleTaskRegressorCV,
)

STRENGTHS = np.logspace(0, 3, 7)
METHODS = {
    "single task": partial(SingleTaskRegressorCV, grid={"strength": STRENGTHS}),
    "pooled": partial(
        PooledRegressorCV, grid={"strength": STRENGTHS, "task_intercepts": [False, True]}
    ),
    "mean-regularized": partial(
        MeanRegularizedRegressorCV,
        grid={"strength": np.logspace(-3, 1, 9), "ridge": np.logspace(-3, -1, 5)},
    ),
    "MTRL": partial(
        MTRLRegressorCV, grid={"strength": np.logspace(-3, 0, 7), "ridge": [0, 0.01, 0.03, 0.1]}
    ),
    "DMTL": partial(DMTLRegressorCV, grid={"strength": STRENGTHS, "ranks": [1, 2, 4, None]}),
    "MRN": partial(
        MRNRegressorCV,
        modes=("task",),
        grid={"strength": STRENGTHS, "start": [0.3, 0.6, 0.9], "n_updates": [0, 1]},
    ),
}
N_TASKS, N_TRAIN, N_TEST = 8, 20, 100
CORRELATIONS = (0.0, 0.5, 0.9, 0.99)
SIGNS = {"all pairs alike": np.ones(N_TASKS), "two opposite groups": np.repeat([1.0, -1.0], 4)}


def scores_of(signs, correlation, seed):
    """R² on test rows of every method, whose settings are chosen on the training rows."""
    relations = correlation * np.outer(signs, signs) + (1 - correlation) * np.eye(N_TASKS)
    data = make_related_tasks(
        N_TASKS, N_TRAIN + N_TEST, 15, covariances={"task": relations}, noise=2.0, seed=seed
    )
    trains = np.arange(len(data)) % (N_TRAIN + N_TEST) < N_TRAIN
    train, test = data.select(trains), data.select(~trains)
    return [
        method(cv=3, random_state=0)
        .fit(train.X, train.y, tasks=train.tasks)
        .score(test.X, test.y, tasks=test.tasks)
        for method in METHODS.values()
    ]


def draw(results, path):
    """A panel per way of being related, with a line per method."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True)
    for panel, (title, table) in zip(panels, results.items(), strict=True):
        for name, line, marker in zip(METHODS, table.T, "osD^vo", strict=True):
            style = "--" if name == "MRN" else "-"
            panel.plot(range(len(CORRELATIONS)), line, style, marker=marker, label=name)
        panel.set_xticks(range(len(CORRELATIONS)), CORRELATIONS)
        panel.set(title=title, xlabel="correlation of the true weights")
    panels[0].set_ylabel("R² on test rows")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right", frameon=False)
    # Without a date and with names from a fixed salt, the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "which-method"}):
        figure.savefig(path, metadata={"Date": None})


def main(n_seeds):
    results = {}
    for title, signs in SIGNS.items():
        drawn = [[scores_of(signs, c, seed) for seed in range(n_seeds)] for c in CORRELATIONS]
        results[title] = np.mean(drawn, axis=1)
        print(f"{title:20s}" + "".join(f"{c:>8}" for c in CORRELATIONS))
        for name, row in zip(METHODS, results[title].T, strict=True):
            print(f"  {name:18s}" + "".join(f"{score:8.2f}" for score in row))
    draw(results, "which-method.svg")


if __name__ == "__main__":
    main(n_seeds=int(sys.argv[1]) if len(sys.argv) > 1 else 1)
