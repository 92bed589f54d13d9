"""Pipelines, cross-validation and searches of scikit-learn, which have to hand on the task of every row.

There are two ways: metadata routing, or a column of tasks, which needs none.
"""

import numpy as np
import pandas as pd
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PowerTransformer

from multirel.data import make_related_tasks
from multirel.estimators import MRNClassifier

N_TASKS, N_ROWS, N_TRAIN = 5, 240, 40
GRID = {"model__strength": [0.1, 0.3, 1.0], "model__start": [0.3, 0.6]}
# Folds of scikit-learn follow the order of the rows, here that of the tasks: so they are shuffled.
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def simulate():
    """Return skewed features, classes and tasks, and which rows train."""
    data = make_related_tasks(N_TASKS, N_ROWS, 12, n_classes=3, correlation=0.9, seed=0)
    return np.exp(data.X), data.y, data.tasks, np.arange(len(data)) % N_ROWS < N_TRAIN


def search_by_routing(X, y, tasks, train):
    """Print scores where `tasks` is an argument, which scikit-learn routes to the estimator."""
    sklearn.set_config(enable_metadata_routing=True)
    for name, scale in (
        ("no scaler, cross-validated", "passthrough"),
        ("scaler, cross-validated", PowerTransformer()),
    ):
        pipeline = Pipeline([("scale", scale), ("model", MRNClassifier())])
        scores = cross_val_score(
            pipeline, X[train], y[train], cv=FOLDS, params={"tasks": tasks[train]}
        )
        print(f"{name:<28} {scores.mean():.2f}")
    search = GridSearchCV(pipeline, GRID, cv=FOLDS).fit(X[train], y[train], tasks=tasks[train])
    print(f"best settings                {search.best_score_:.2f} {search.best_params_}")
    # The search hands `tasks` on to `score`, but nothing to `predict`: ask the pipeline that it found.
    predicted = search.best_estimator_.predict(X[~train], tasks=tasks[~train])
    print(f"routed, held-out rows        {(predicted == y[~train]).mean():.2f}")
    sklearn.set_config(enable_metadata_routing=False)


def search_with_column(X, y, tasks, train):
    """Print the same where the tasks are a column of X: nothing is routed, also not to `predict`."""
    names = [f"x{number}" for number in range(X.shape[1])]
    table = pd.DataFrame(X, columns=names).assign(site=tasks)
    scale = ColumnTransformer(
        [("scale", PowerTransformer(), names)],
        remainder="passthrough",  # This lets the column of tasks through.
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = Pipeline([("scale", scale), ("model", MRNClassifier(task_column="site"))])
    search = GridSearchCV(pipeline, GRID, cv=FOLDS).fit(table[train], y[train])
    accuracy = (search.predict(table[~train]) == y[~train]).mean()
    print(f"with a column, held-out rows {accuracy:.2f}")


if __name__ == "__main__":
    rows = simulate()
    search_by_routing(*rows)
    search_with_column(*rows)
