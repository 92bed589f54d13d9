"""What fits cost: from raw arrays to a certified optimum, against scikit-learn's single-task models.

    python benchmarks/estimator_speed.py --data ../shared/data > page

Every time is the median of several fits, and fits that are compared take turns.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import sklearn
import torch
from real_data_sets import landmine, school, train_rows
from sklearn.linear_model import LogisticRegression, Ridge

from multirel import estimators
from multirel.data import make_related_tasks
from multirel.exceptions import MultirelWarning

Fit = Callable[[], Any]

FACTORS = (0.1, 1.0, 10.0)
N_TURNS = 7
PATH = 20

GOALS = {"MTFL": 1.0, "MTRL": 1.0, "RMTL": 2.0}
LOGISTIC_GOAL = 4.0
MRN_GOAL = 4.0
PATH_GOAL = 5.0

SCALING = ("SingleTask", "MeanRegularized", "MTFL", "MTRL", "RMTL", "MRN")


def medians(fits: Sequence[Fit], *, turns: int = N_TURNS) -> list[float]:
    """Median seconds of each; they take turns, so that all see the same load."""
    times: list[list[float]] = [[] for _ in fits]
    for fit in fits:
        fit()
    for _ in range(turns):
        for row, fit in zip(times, fits, strict=True):
            begin = time.perf_counter()
            fit()
            row.append(time.perf_counter() - begin)
    return [statistics.median(row) for row in times]


def per_task(model: Any, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> Fit:
    """Fits a model of scikit-learn to every task."""

    def fit() -> None:
        for task in np.unique(tasks):
            mine = tasks == task
            model.fit(X[mine], y[mine])

    return fit


def training_rows(data: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mine = train_rows(data, seed=100)
    return data.X[mine], data.y[mine], data.tasks[mine]


def compare_with_ridge(folder: Path) -> None:
    """MTFL, MTRL and RMTL on School at the strength that cross-validation chooses, and around it."""
    X, y, tasks = training_rows(school(folder))
    reference = per_task(Ridge(alpha=5.0), X, y, tasks)
    print(f"\n## School: {len(y)} rows, 139 tasks, against 139 `Ridge` fits\n")
    print("| method | strength | time (ms) | ÷ 139 `Ridge` | relative gap | iterations | goal |")
    print("|---|---|---|---|---|---|---|")
    for name, goal in GOALS.items():
        search = getattr(estimators, f"{name}RegressorCV")(cv=3, random_state=0).fit(
            X, y, tasks=tasks
        )
        print_factors(f"{name}Regressor", search, (X, y, tasks), reference=reference, goal=goal)


def print_factors(name: str, search: Any, rows: tuple, *, reference: Fit, goal: float) -> None:
    """A row per strength, at the chosen value of all other settings."""
    X, y, tasks = rows
    for factor in FACTORS:
        settings = dict(search.best_params_)
        settings["strength"] *= factor
        estimator = getattr(estimators, name)(**settings)
        fit, against = medians([lambda e=estimator: e.fit(X, y, tasks=tasks), reference])
        shown = ", ".join(f"{key}={value:.3g}" for key, value in settings.items())
        print(
            f"| {name} | {shown} | {fit * 1e3:.1f} | {fit / against:.2f} | {estimator.gap_:.1e} | "
            f"{estimator.n_iter_} | ≤ {goal:g} |",
            flush=True,
        )


def compare_with_logistic(folder: Path) -> None:
    """Logistic MTFL on Landmine."""
    X, y, tasks = training_rows(landmine(folder))
    reference = per_task(LogisticRegression(max_iter=1000), X, y, tasks)
    print(f"\n## Landmine: {len(y)} rows, 29 tasks, against 29 `LogisticRegression` fits\n")
    print(
        "| method | strength | time (ms) | ÷ 29 `LogisticRegression` | relative gap | iterations | goal |"
    )
    print("|---|---|---|---|---|---|---|")
    search = estimators.MTFLClassifierCV(cv=3, random_state=0).fit(X, y, tasks=tasks)
    print_factors("MTFLClassifier", search, (X, y, tasks), reference=reference, goal=LOGISTIC_GOAL)


def compare_mrn(folder: Path) -> None:
    """Linear MRN against single-task training."""
    print("\n## Linear MRN against `SingleTask…` on the same rows\n")
    print("| data | strength | single task (ms) | MRN (ms) | ratio | goal |")
    print("|---|---|---|---|---|---|")
    sets = {"School": (school, "Regressor"), "Landmine": (landmine, "Classifier")}
    for name, (load, kind) in sets.items():
        rows = training_rows(load(folder))
        for strength in (1.0, 10.0, 100.0):
            fits = [fit_of(f"{family}{kind}", rows, strength) for family in ("SingleTask", "MRN")]
            single, mrn = medians(fits)
            print(
                f"| {name} | {strength:g} | {single * 1e3:.1f} | {mrn * 1e3:.1f} | {mrn / single:.2f} | "
                f"≤ {MRN_GOAL:g} |",
                flush=True,
            )


def fit_of(name: str, rows: tuple, strength: float) -> Fit:
    """A fit of an estimator to rows."""
    X, y, tasks = rows
    estimator = getattr(estimators, name)(strength=strength)
    return lambda: estimator.fit(X, y, tasks=tasks)


def path_cost(folder: Path) -> None:
    """A path of strengths through one fold against single fits."""
    X, y, tasks = training_rows(school(folder))
    print(f"\n## A path of {PATH} strengths on School, against one fit\n")
    print("| method | one fit (ms) | path (ms) | ratio | goal |")
    print("|---|---|---|---|---|")
    rows = np.random.default_rng(0).permutation(len(y))
    split = [(rows[: -len(y) // 10], rows[-len(y) // 10 :])]
    for family in ("SingleTask", "MeanRegularized", "MTFL", "MTRL", "RMTL", "MRN"):
        search = getattr(estimators, f"{family}RegressorCV")(cv=3, random_state=0).fit(
            X, y, tasks=tasks
        )
        chosen = search.best_params_["strength"]
        grid = {"strength": (chosen * np.logspace(-1, 1, PATH)).tolist()}
        fixed = {k: v for k, v in search.best_params_.items() if k != "strength"}
        twin = getattr(estimators, f"{family}RegressorCV")(grid=grid, cv=split, **fixed)
        one = getattr(estimators, f"{family}Regressor")(**search.best_params_)
        alone, path = medians(
            [lambda e=one: e.fit(X, y, tasks=tasks), lambda e=twin: e.fit(X, y, tasks=tasks)],
            turns=5,
        )
        path -= alone  # the last fit, to all rows
        print(
            f"| {family} | {alone * 1e3:.1f} | {path * 1e3:.1f} | {path / alone:.2f} | ≤ {PATH_GOAL:g} |",
            flush=True,
        )


def scaling() -> None:
    """Slopes of log time against the numbers of tasks and of features."""
    grids = {
        "tasks": [(n, 30, 50) for n in (10, 50, 200, 1000, 2000)],
        "features": [(20, 30, f) for f in (50, 200, 1000, 2000, 5000)],
    }
    for what, shapes in grids.items():
        print(f"\n## Growth with the number of {what}\n")
        print(
            "30 rows per task. Slopes of log time against log size: over all, and over the last two.\n"
        )
        sizes = [shape[0] if what == "tasks" else shape[2] for shape in shapes]
        print("| method | " + " | ".join(f"{s} (ms)" for s in sizes) + " | slope | last |")
        print("|---" * (len(sizes) + 3) + "|")
        for family in SCALING:
            times = [scaling_time(family, *shape) for shape in shapes]
            logs, points = np.log(times), np.log(sizes)
            slope = np.polyfit(points, logs, 1)[0]
            last = (logs[-1] - logs[-2]) / (points[-1] - points[-2])
            shown = " | ".join(f"{t * 1e3:.1f}" for t in times)
            print(f"| {family} | {shown} | {slope:.2f} | {last:.2f} |", flush=True)


def scaling_time(family: str, n_tasks: int, n_rows: int, n_features: int) -> float:
    """Seconds of a fit at a strength in the middle of the method's own grid."""
    data = make_related_tasks(n_tasks, n_rows, n_features, seed=0)
    estimator = getattr(estimators, f"{family}Regressor")(strength=strength_of(family, data))
    return medians([lambda: estimator.fit(data.X, data.y, tasks=data.tasks)], turns=3)[0]


def strength_of(family: str, data: Any) -> float:
    """λ = 10 for priors; for trace norms, a tenth of what would leave next to nothing to learn."""
    if family in ("SingleTask", "MRN"):
        return 10.0
    if family == "MeanRegularized":
        return 10.0 / len(data)
    centered = data.X - data.X.mean(axis=0)
    slopes = [
        2 * centered[data.tasks == t].T @ (data.y[data.tasks == t] - data.y[data.tasks == t].mean())
        for t in data.task_names
    ]
    largest = np.linalg.norm(np.stack(slopes) / len(data), 2)
    return float(0.1 * largest) if family == "RMTL" else float(0.01 * largest**2 / np.var(data.y))


MEMORY_ROWS, MEMORY_FEATURES, MEMORY_TASKS = 1_000_000, 256, 50


def memory() -> None:
    """The most memory of fits to 10⁶ × 256 float32 rows, each in a process of its own."""
    size = MEMORY_ROWS * MEMORY_FEATURES * 4 / 2**30
    print(f"\n## Memory: {MEMORY_ROWS} × {MEMORY_FEATURES} float32 rows ({size:.2f} GiB)\n")
    print(
        "| method | seconds | most memory beyond the start (GiB) | ÷ input, which it holds | goal |"
    )
    print("|---|---|---|---|---|")
    for name in (
        "SingleTaskRegressor",
        "MTRLRegressor",
        "MRNRegressor",
        "SingleTaskClassifier",
        "MRNClassifier",
    ):
        command = [sys.executable, "-W", "ignore", __file__, "--data", ".", "--child", name]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode != 0:
            print(f"| {name} | failed: {found.stderr.strip().splitlines()[-1]} | | | ≤ 3 |")
            continue
        seconds, peak = map(float, found.stdout.split())
        print(f"| {name} | {seconds:.1f} | {peak:.2f} | {peak / size:.2f} | ≤ 3 |", flush=True)


def memory_child(name: str) -> None:
    """Fit once, and print seconds and the most memory, the input included, in GiB."""
    rng = np.random.default_rng(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    X = rng.standard_normal((MEMORY_ROWS, MEMORY_FEATURES), dtype=np.float32)
    tasks = rng.integers(MEMORY_TASKS, size=MEMORY_ROWS)
    y = X[:, :8].sum(axis=1) + rng.standard_normal(MEMORY_ROWS, dtype=np.float32)
    if name.endswith("Classifier"):
        y = (y > 0).astype(np.int64)
    strength = {"MTRLRegressor": 1e-3}.get(name, 10.0)
    begin = time.perf_counter()
    getattr(estimators, name)(strength=strength).fit(X, y, tasks=tasks)
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(seconds, (after - before) / 2**20)


SECTIONS = {
    "school": compare_with_ridge,
    "landmine": compare_with_logistic,
    "mrn": compare_mrn,
    "path": path_cost,
    "scaling": lambda _: scaling(),
    "memory": lambda _: memory(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--child", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", MultirelWarning)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if arguments.child:
        memory_child(arguments.child)
        return
    print(
        f"{os.cpu_count()} cores ({platform.machine()}), {os.environ['OMP_NUM_THREADS']} threads; Python "
        f"{platform.python_version()}, numpy {np.__version__}, scikit-learn {sklearn.__version__}, torch "
        f"{torch.__version__}"
    )
    for name in arguments.only.split(","):
        SECTIONS[name](arguments.data)


if __name__ == "__main__":
    main()
