"""A sixth site opens, with few labels, beside a model of five sites that should not be fitted again.

`add_task` learns the new site's weights from its labels, and from how the weights of the five are related.
It is compared with the new site on its own, and with fitting all six sites again, by R² on held-out rows:
once where the new site is like the others, and once where it is like none of them.
"""

from copy import deepcopy

import numpy as np

from multirel.data import make_related_tasks
from multirel.estimators import MRNRegressor, MRNRegressorCV, SingleTaskRegressorCV

NEW = "task 6"
LABELS = (5, 10, 20, 50, 200)
N_SIMULATIONS = 3
MODELS = ("alone", "add_task", "fitted again")


def simulate(correlation, seed):
    """Return rows of six sites: five that are alike, and one that is as much like them as we say."""
    relations = np.full((6, 6), 0.8) + 0.2 * np.eye(6)
    relations[5, :5] = relations[:5, 5] = correlation
    covariances = {"task": relations}
    return make_related_tasks(
        6, [100] * 5 + [700], 15, covariances=covariances, noise=2.0, seed=seed
    )


def compare(data):
    """Return R² on held-out rows of the new site: a row per number of labels, a column per model."""
    known, new = np.flatnonzero(data.tasks != NEW), np.flatnonzero(data.tasks == NEW)
    held_out = data.select(new[max(LABELS) :])
    five_sites = MRNRegressorCV(modes=("task",), random_state=0)
    five_sites.fit(data.X[known], data.y[known], tasks=data.tasks[known])
    scores = []
    for n_labels in LABELS:
        few = data.select(new[:n_labels])
        alone = SingleTaskRegressorCV(random_state=0).fit(few.X, few.y, tasks=few.tasks)
        added = deepcopy(five_sites).add_task(few.X, few.y, name=NEW)
        rows = data.select(np.append(known, new[:n_labels]))
        again = MRNRegressor(modes=("task",), **five_sites.best_params_)
        again.fit(rows.X, rows.y, tasks=rows.tasks)
        models = (alone, added, again)
        scores.append([m.score(held_out.X, held_out.y, tasks=held_out.tasks) for m in models])
    return scores


if __name__ == "__main__":
    for title, correlation in (("like the others", 0.8), ("like none of them", 0.0)):
        scores = [compare(simulate(correlation, seed)) for seed in range(N_SIMULATIONS)]
        print(f"The new site is {title}\nlabels  " + "  ".join(MODELS))
        for n_labels, row in zip(LABELS, np.mean(scores, axis=0), strict=True):
            shown = [f"{score:{len(name)}.2f}" for name, score in zip(MODELS, row, strict=True)]
            print(f"{n_labels:6}  " + "  ".join(shown))
        print()
