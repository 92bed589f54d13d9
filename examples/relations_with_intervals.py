"""Which tasks are related, how sure one can be of it, and a picture of both.

Eight tasks in two blocks are simulated, so that what is learned can be compared with the truth. The picture
goes into the folder that `--output` names, or else into a temporary one.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from multirel.data import make_related_tasks
from multirel.estimators import MRNClassifier
from multirel.reports import hinton_diagram, save_figure

BLOCKS = np.kron(np.eye(2), np.full((4, 4), 0.8)) + 0.2 * np.eye(8)


def true_correlations(data):
    """Return the correlations of the true weights: with two classes, of the difference of their scores."""
    weights = data.true_weights[:, 1] - data.true_weights[:, 0]
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return weights @ weights.T


def print_intervals(found, truth):
    """Print the intervals of the first task, and what all of them say."""
    print(f"Correlation with {found.tasks[0]}: estimate, {found.level:.0%} interval, truth")
    for task in range(1, len(truth)):
        low, high = found.low[0, task], found.high[0, task]
        numbers = (
            f"{found.estimate[0, task]:5.2f}  [{low:5.2f}, {high:5.2f}]  {truth[0, task]:5.2f}"
        )
        print(f"{found.tasks[task]}  {numbers}")
    holds = (found.low <= truth) & (truth <= found.high)
    is_positive = found.low > 0
    within, across = np.triu(BLOCKS > 0, 1), np.triu(BLOCKS == 0, 1)
    n_within, n_across = within.sum(), across.sum()
    print(f"\n{holds[within | across].sum()} of {n_within + n_across} intervals hold the truth.")
    print(f"Surely positive: {is_positive[within].sum()} of {n_within} pairs within blocks,")
    print(f"and {is_positive[across].sum()} of {n_across} across.")


def save_picture(matrices, tasks, path):
    """Save the Hinton diagrams of several matrices side by side."""
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    for ax, (title, matrix) in zip(figure.subplots(1, 3), matrices.items(), strict=True):
        hinton_diagram(ax, matrix, labels=tasks, scale=1.0)
        ax.set_title(title)
    save_figure(figure, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="folder of the picture")
    folder = parser.parse_args().output or Path(tempfile.mkdtemp())
    data = make_related_tasks(8, 150, 20, n_classes=2, covariances={"task": BLOCKS}, seed=0)
    model = MRNClassifier(modes=("task",)).fit(data.X, data.y, tasks=data.tasks)
    found, truth = model.relation_intervals(random_state=0), true_correlations(data)
    print_intervals(found, truth)
    # What is nearer to 0 in the interval: all that one can be sure of.
    sure = np.where(found.low > 0, found.low, np.where(found.high < 0, found.high, 0))
    matrices = {"at least": sure, "estimate": found.estimate, "truth": truth}
    save_picture(matrices, found.tasks.tolist(), folder / "relations.png")
    print(f"The picture is {folder / 'relations.png'}.", file=sys.stderr)
