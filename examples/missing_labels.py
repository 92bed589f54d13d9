"""Drug assays: a column of labels per assay, of which most are missing, and one assay without any.

Compounds and potencies are simulated, so that predictions can be compared with what was never measured.
"""

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score

from multirel.data import make_related_tasks
from multirel.estimators import MRNRegressorCV, PooledRegressorCV, SingleTaskRegressorCV

ASSAYS = ["binding", "uptake", "cell 1", "cell 2", "in vivo"]
SHARE_MEASURED = [0.5, 0.3, 0.2, 0.1, 0.0]
METHODS = {
    "single task": SingleTaskRegressorCV(random_state=0),
    "pooled": PooledRegressorCV(random_state=0),
    "MRN": MRNRegressorCV(modes=("task",), random_state=0),
}
N_COMPOUNDS, N_PROPERTIES, N_SIMULATIONS = 200, 20, 5


def simulate(seed):
    """Return properties, the potency of every compound in every assay, and those that were measured."""
    rng = np.random.default_rng(seed)
    truth = make_related_tasks(5, 1, N_PROPERTIES, correlation=0.8, seed=seed)
    X = rng.standard_normal((N_COMPOUNDS, N_PROPERTIES))
    potency = X @ truth.true_weights[:, 0].T + 3 * rng.standard_normal((N_COMPOUNDS, 5))
    potency = pd.DataFrame(potency, columns=ASSAYS)
    is_measured = rng.random((N_COMPOUNDS, 5)) < SHARE_MEASURED
    return pd.DataFrame(X).add_prefix("p"), potency, potency.where(is_measured)


def scores_of(method, X, potency, measured):
    """Return R² in every assay, of the compounds that were not measured there."""
    # No `tasks`: the columns of y name them. Rows and assays without labels stay where they are.
    predicted = pd.DataFrame(method.fit(X, measured).predict(X), columns=method.tasks_)
    hidden = measured.isna()
    return {a: r2_score(potency[a][hidden[a]], predicted[a][hidden[a]]) for a in ASSAYS}


if __name__ == "__main__":
    scores = {name: [] for name in METHODS}
    for seed in range(N_SIMULATIONS):
        X, potency, measured = simulate(seed)
        for name, method in METHODS.items():
            scores[name].append(scores_of(method, X, potency, measured))
    print(f"{int(measured.isna().all(axis=1).sum())} of {len(X)} compounds have no label at all.\n")
    table = pd.DataFrame({name: pd.DataFrame(found).mean() for name, found in scores.items()})
    table.insert(0, "labels", measured.notna().sum())
    print("R² of what was not measured, over several simulations")
    print(table.round(2))
    print(
        "\nCorrelations between the assays in the last one; none is known of an assay without labels"
    )
    print(pd.DataFrame(METHODS["MRN"].task_correlation_, ASSAYS, ASSAYS).round(1))
