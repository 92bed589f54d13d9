"""Rows of several tasks for the tests of linear estimators."""

import numpy as np


def make_rows(n_tasks=4, n_rows=30, n_features=5, *, n_classes=None, seed=0, noise=1.5):
    """Shuffled X, y and tasks; y is a number, or a class with names of text."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_tasks * n_rows, n_features)) * rng.uniform(0.5, 3, n_features) + 2.0
    tasks = np.repeat([f"task {t}" for t in range(n_tasks)], n_rows)
    n_outputs = 1 if n_classes in (None, 2) else n_classes
    shared = rng.normal(size=(n_outputs, n_features))
    own = shared + 0.5 * rng.normal(size=(n_tasks, n_outputs, n_features))
    scores = np.einsum("ncr,nr->nc", np.repeat(own, n_rows, axis=0), x - 2.0)
    scores += noise * rng.normal(size=scores.shape)
    order = rng.permutation(len(x))
    if n_classes is None:
        y = scores[:, 0] + 3.0
    else:
        index = (scores[:, 0] > 0) * 1 if n_classes == 2 else scores.argmax(axis=1)
        y = np.array([f"class {c}" for c in range(n_classes)])[index]
    return x[order], y[order], tasks[order]
