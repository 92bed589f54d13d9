"""How often intervals of task correlations hold the truth, on simulated tasks.

Prints for each shape the share of pairs of tasks whose interval holds the correlation of the true weights
(`target="weights"`), the share whose interval holds the correlation of the distribution that these were drawn
from (`target="covariance"`), and the mean width of both; for the plain bootstrap the first.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multirel.data import TaskData, make_related_tasks
from multirel.estimators import MRNClassifier, MRNRegressor

LEVEL = 0.9
N_DRAWS = 200
N_REFITS = 100
STRENGTH = 2.0
BLOCK = 0.9
NUDGE = 1e-9
"""Keeps correlations of blocks positive definite."""


@dataclass(frozen=True)
class Shape:
    """Simulated tasks: how many, of what size, how related."""

    n_tasks: int
    n_samples: int | tuple[int, ...]
    n_features: int
    relation: float | str
    n_classes: int | None = None
    noise: float = 1.0

    def covariance(self) -> NDArray[np.float64]:
        """One correlation for all pairs, or three blocks of tasks with `BLOCK` within and 0 between."""
        if self.relation == "blocks":
            block = np.arange(self.n_tasks) * 3 // self.n_tasks
            matrix = np.where(block[:, None] == block, BLOCK, 0.0)
        else:
            matrix = np.full((self.n_tasks, self.n_tasks), float(self.relation))
        np.fill_diagonal(matrix, 1 + NUDGE)
        return matrix

    def __str__(self) -> str:
        rows = (
            "-".join(map(str, self.n_samples))
            if isinstance(self.n_samples, tuple)
            else self.n_samples
        )
        kind = "numbers" if self.n_classes is None else f"{self.n_classes} classes"
        return f"{self.n_tasks} | {rows} | {self.n_features} | {self.relation} | {kind}, {self.noise:g}"


SHAPES = [
    Shape(3, 200, 5, 0.8),
    Shape(4, 100, 20, 0.0),
    Shape(4, 100, 20, 0.8),
    Shape(4, 20, 20, 0.8),
    Shape(4, 15, 40, 0.0),
    Shape(4, 15, 40, 0.8),
    Shape(4, (200, 50, 20, 10), 20, 0.8),
    Shape(6, 30, 10, "blocks"),
    Shape(12, 60, 20, "blocks"),
    Shape(12, 200, 30, "blocks"),
    Shape(12, 200, 30, "blocks", noise=5.0),
    Shape(30, 33, 28, 0.7, noise=3.0),
    Shape(4, 100, 10, 0.8, n_classes=2),
    Shape(4, 40, 10, 0.0, n_classes=2),
    Shape(4, 40, 10, 0.8, n_classes=2),
    Shape(12, 60, 10, "blocks", n_classes=2),
    Shape(3, 80, 8, 0.8, n_classes=4),
]


def main() -> None:
    """Print a row of the table per shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    print(
        "| tasks | rows | features | correlation | labels, noise | weights | width | distribution | width "
        "| plain: weights | width | seconds |"
    )
    print("|" + "---|" * 12)
    for shape in SHAPES:
        start = time.perf_counter()
        found = np.mean(
            [coverage(shape, seed, n_jobs=arguments.jobs) for seed in range(arguments.repetitions)],
            axis=0,
        )
        seconds = (time.perf_counter() - start) / arguments.repetitions
        shown = " | ".join(f"{value:.2f}" for value in found)
        print(f"| {shape} | {shown} | {seconds:.1f} |", flush=True)


def coverage(shape: Shape, seed: int, *, n_jobs: int) -> list[float]:
    """Coverage and width for the weights, for their distribution, and of the plain bootstrap."""
    data = make_related_tasks(
        shape.n_tasks,
        shape.n_samples if isinstance(shape.n_samples, int) else [*shape.n_samples],
        shape.n_features,
        covariances={"task": shape.covariance()},
        n_classes=shape.n_classes,
        noise=shape.noise,
        seed=seed,
    )
    kind = MRNRegressor if shape.n_classes is None else MRNClassifier
    model = kind(strength=STRENGTH).fit(data.X, data.y, tasks=data.tasks)
    order = [data.task_names.index(name) for name in model.tasks_.tolist()]
    pairs = np.triu_indices(shape.n_tasks, 1)
    weights, distribution = true_correlations(data), correlations(shape.covariance())
    found = []
    for truth, settings in (
        (weights, {"n_boot": N_DRAWS}),
        (distribution, {"n_boot": N_DRAWS, "target": "covariance"}),
        (weights, {"n_boot": N_REFITS, "method": "resampled"}),
    ):
        intervals = model.relation_intervals(
            level=LEVEL, random_state=seed, n_jobs=n_jobs, **settings
        )
        expected = truth[np.ix_(order, order)]
        holds = (intervals.low <= expected) & (expected <= intervals.high)
        found += [holds[pairs].mean(), (intervals.high - intervals.low)[pairs].mean()]
    return found


def true_correlations(data: TaskData) -> NDArray[np.float64]:
    """Correlations of the true weights, without what all classes have in common."""
    weights = data.true_weights
    if data.class_names is not None:
        weights = weights - weights.mean(axis=1, keepdims=True)
    rows = weights.reshape(len(weights), -1)
    return correlations(rows @ rows.T)


def correlations(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A covariance scaled to a unit diagonal."""
    deviation = np.sqrt(np.diagonal(matrix))
    return matrix / np.outer(deviation, deviation)


if __name__ == "__main__":
    main()
