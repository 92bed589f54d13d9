"""A table of patients of six hospitals, each with few known outcomes: does learning together help?

The table is simulated: three hospitals treat much the same patients, and three others theirs. Every method
chooses its settings by cross-validation on 25 patients of every hospital, and is scored on all the others.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from multirel.data import make_related_tasks
from multirel.estimators import MRNRegressorCV, PooledRegressorCV, SingleTaskRegressorCV

HOSPITALS = ["Ashby", "Brook", "Cliff", "Dale", "Elms", "Ford"]
MEASURED = ["age", "pulse", "pressure", "glucose", "sodium", "albumin", "urea", "platelets"]
METHODS = {
    "single task": SingleTaskRegressorCV(task_column="hospital", random_state=0),
    "pooled": PooledRegressorCV(task_column="hospital", random_state=0),
    "MRN": MRNRegressorCV(task_column="hospital", modes=("task",), random_state=0),
}
N_LABELED = 25
N_SPLITS = 5


def write_table(path):
    """Write a row per patient: hospital, measurements, and the days that the patient stayed."""
    relations = np.kron(np.eye(2), np.full((3, 3), 0.9)) + 0.1 * np.eye(6)
    simulated = make_related_tasks(
        6, 300, len(MEASURED), covariances={"task": relations}, noise=2.0, seed=1
    )
    table = pd.DataFrame((50 + 10 * simulated.X).round(1), columns=MEASURED)
    table.insert(0, "hospital", np.repeat(HOSPITALS, 300))
    table.assign(days=(12 + simulated.y).round(1)).to_csv(path, index=False)


def compare(patients):
    """Return R² on held-out patients by method and split, and the relations that MRN has learned."""
    scores, relations = {name: [] for name in METHODS}, []
    for seed in range(N_SPLITS):
        train = patients.groupby("hospital").sample(N_LABELED, random_state=seed)
        test = patients.drop(train.index)
        for name, method in METHODS.items():
            method.fit(train.drop(columns="days"), train["days"])
            scores[name].append(method.score(test.drop(columns="days"), test["days"]))
        relations.append(METHODS["MRN"].task_correlation_)
    names = METHODS["MRN"].tasks_
    return pd.DataFrame(scores), pd.DataFrame(np.mean(relations, axis=0), names, names)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "patients.csv")
        scores, relations = compare(pd.read_csv(Path(folder) / "patients.csv"))
    print("R² on held-out patients, and the gain over single task")
    for name in METHODS:
        gain = scores[name] - scores["single task"]
        print(f"{name:<12} {scores[name].mean():.2f}  {gain.mean():+.2f} ± {gain.sem():.2f}")
    print("\nCorrelations between the hospitals that MRN has learned, averaged over the splits")
    print(relations.round(2))
