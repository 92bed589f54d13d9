"""How the methods do on real data of several tasks, by random splits and paired tests.

Settings are chosen by cross-validation on training rows only. Results are kept in a file, one line per method
and seed, and what is there is not run again:

    python benchmarks/real_data.py --data ../shared/data --seeds 100-119 --jobs 2
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

# Every process has one thread, so that results do not depend on how many there are.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from real_data_sets import DATA_SETS, DataSet, train_rows
from scipy import stats
from sklearn.metrics import accuracy_score, explained_variance_score, roc_auc_score

from multirel import estimators
from multirel.exceptions import MultirelWarning

HALF_DECADES = np.logspace(-1, 4, 11).tolist()
DECADES = np.logspace(-1, 4, 6).tolist()
WEAKER = np.logspace(-1, 3, 5).tolist()

GRIDS = {
    "stl": ("SingleTask", {}, {"strength": HALF_DECADES}),
    "pooled": ("Pooled", {}, {"strength": DECADES, "task_intercepts": [False, True]}),
    "mean-reg": ("MeanRegularized", {}, None),
    "mtfl": ("MTFL", {}, None),
    "rmtl": ("RMTL", {}, None),
    "mtrl": ("MTRL", {}, None),
    "dmtl-tucker": (
        "DMTL",
        {"factorization": "tucker"},
        {"strength": WEAKER, "relative_error": [0.1, 0.3, 0.6]},
    ),
    "mrn-t": (
        "MRN",
        {"modes": ("task",)},
        [
            {"strength": DECADES, "start": [0.3, 0.6], "n_updates": [1]},
            {"strength": DECADES, "start": [0.6], "n_updates": [0]},
        ],
    ),
    "mrn": (
        "MRN",
        {},
        [
            {"strength": DECADES, "start": [0.3, 0.6], "n_updates": [1]},
            {"strength": DECADES, "start": [0.6], "n_updates": [0]},
        ],
    ),
    "mrn, averaged": ("MRN", {"selection": "average"}, "mrn"),
}
"""Estimator, fixed settings and grid of every linear method; None is the grid that the twin makes."""

DEEP_STRENGTHS = [1.0, 10.0]
DEEP = {
    "stl": ("SingleTask", {}, {"strength": DEEP_STRENGTHS}),
    "shared": ("SharedNetwork", {}, {"strength": DEEP_STRENGTHS}),
    "dmtl-tucker": ("DMTL", {"factorization": "tucker"}, {"strength": DEEP_STRENGTHS}),
    "mrn": ("MRN", {}, {"strength": DEEP_STRENGTHS}),
}
"""The same for tasks that have their own classes, where hidden layers are what can be related."""

METRICS = {
    "accuracy": accuracy_score,
    "explained-variance": explained_variance_score,
    "roc-auc": roc_auc_score,
}


def score_of_tasks(data: DataSet, rows: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """The score of every task on some rows; tasks on which it is undefined are left out."""
    found = {}
    for task in np.unique(data.tasks):
        mine = data.tasks[rows] == task
        y, f = data.y[rows][mine], predicted[mine]
        if data.metric != "roc-auc" or len(np.unique(y)) > 1:
            found[str(task)] = float(METRICS[data.metric](y, f))
    return found


def run(name: str, method: str, seed: int, folder: Path) -> dict:
    """The scores of one method on one split."""
    warnings.simplefilter("ignore", MultirelWarning)
    data = DATA_SETS[name](folder)
    estimator = make_estimator(data, method, seed=seed)
    train = train_rows(data, seed=seed)
    begin = time.perf_counter()
    estimator.fit(data.X[train], data.y[train], tasks=data.tasks[train])
    seconds = time.perf_counter() - begin
    predict = estimator.decision_function if data.metric == "roc-auc" else estimator.predict
    predicted = predict(data.X[~train], tasks=data.tasks[~train])
    per_task = score_of_tasks(data, ~train, predicted)
    chosen = {key: str(value) for key, value in estimator.best_params_.items()}
    return {
        "data": name, "method": method, "seed": seed, "score": float(np.mean([*per_task.values()])),
        "per_task": per_task, "chosen": chosen, "inner": float(estimator.best_score_), "seconds": seconds,
    }  # fmt: skip


def make_estimator(data: DataSet, method: str, *, seed: int) -> object:
    """The estimator that searches for the settings of a method."""
    methods = DEEP if data.hidden_sizes else GRIDS
    family, settings, grid = methods[method]
    grid = methods[grid][2] if isinstance(grid, str) else grid
    kind = "Regressor" if data.y.dtype.kind == "f" else "Classifier"
    settings = {**settings, "grid": grid, "scoring": data.metric, "random_state": seed, "cv": 3}
    if data.hidden_sizes:
        # Rows with classes of their own need more epochs than rows that share them.
        settings |= {"hidden_sizes": data.hidden_sizes, "max_epochs": 40}
    return getattr(estimators, f"{family}{kind}CV")(**settings)


def read_seeds(text: str) -> list[int]:
    """Seeds from text such as "100-119" or "100,103"."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if last else [int(s) for s in text.split(",")]


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default=",".join(DATA_SETS))
    parser.add_argument("--methods", default="")
    parser.add_argument("--seeds", default="100-119")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("build/real_data.jsonl"))
    return parser.parse_args()


def missing(arguments: argparse.Namespace, known: set[tuple]) -> Iterator[tuple]:
    """What is to be run: seed after seed, so that a table can be made at any time."""
    for name in arguments.only.split(","):
        methods = arguments.methods.split(";") if arguments.methods else methods_of(name)
        for seed in read_seeds(arguments.seeds):
            for method in methods:
                if (name, method, seed) not in known:
                    yield name, method, seed


def methods_of(name: str) -> list[str]:
    return [*DEEP] if name == "omniglot" else [*GRIDS]


def main() -> None:
    arguments = read_arguments()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    records = [json.loads(line) for line in lines]
    known = {(r["data"], r["method"], r["seed"]) for r in records}
    with ProcessPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(run, *trial, arguments.data) for trial in missing(arguments, known)]
        for future in as_completed(futures):
            records.append(future.result())
            with arguments.results.open("a") as file:
                file.write(json.dumps(records[-1]) + "\n")
    for name in arguments.only.split(","):
        print_table(name, [r for r in records if r["data"] == name], read_seeds(arguments.seeds))


def print_table(name: str, records: list[dict], seeds: list[int]) -> None:
    """Means over seeds, and what MRN gains over every other method, with paired tests."""
    scores = {
        method: {r["seed"]: r["score"] for r in records if r["method"] == method and r["seed"] in seeds}
        for method in methods_of(name)
    }  # fmt: skip
    scores = {method: found for method, found in scores.items() if found}
    if "mrn" not in scores:
        return
    gains = {method: differences(scores["mrn"], found) for method, found in scores.items()}
    tested = {m: gain for m, gain in gains.items() if m != "mrn" and len(gain) >= FEWEST_TO_TEST}
    adjusted = holm({m: float(stats.ttest_1samp(gain, 0).pvalue) for m, gain in tested.items()})
    print(f"\n### {name}\n")
    print(
        "| method | splits | mean ± standard error | MRN minus it, 95 % | Holm-corrected p | seconds |"
    )
    print("|---|---|---|---|---|---|")
    for method, found in scores.items():
        seconds = np.mean([r["seconds"] for r in records if r["method"] == method])
        row = [method, str(len(found)), mean_and_error(np.array([*found.values()]))]
        if method in tested:
            row += [interval(gains[method]), f"{adjusted[method]:.2g}"]
        else:
            row += ["", ""]
        print("| " + " | ".join([*row, f"{seconds:.1f}"]) + " |")


FEWEST_TO_TEST = 3


def differences(ours: dict[int, float], others: dict[int, float]) -> np.ndarray:
    """What is gained on the splits that both have."""
    return np.array([ours[seed] - others[seed] for seed in sorted(ours.keys() & others.keys())])


def mean_and_error(values: np.ndarray) -> str:
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{values.mean():.4f} ± {error:.4f}"


def interval(gain: np.ndarray) -> str:
    """The mean gain with its 95 % interval by Student's distribution."""
    half = gain.std(ddof=1) / len(gain) ** 0.5 * stats.t.ppf(0.975, len(gain) - 1)
    return f"{gain.mean():+.4f} ({gain.mean() - half:+.4f} to {gain.mean() + half:+.4f})"


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """p-values corrected for as many comparisons."""
    adjusted, largest = {}, 0.0
    ordered = sorted(p_values, key=p_values.__getitem__)
    for index, method in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - index) * p_values[method]))
        adjusted[method] = largest
    return adjusted


if __name__ == "__main__":
    main()
