"""The table of estimators that the contracts run over: a new one adds a line to `METHODS`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import multirel.estimators

DEEP = {"hidden_sizes": (8,), "batch_size": 10_000, "max_epochs": 5, "learning_rate": 0.05}
"""Full batches and few epochs."""

METHODS: Mapping[str, list[dict[str, Any]]] = {
    "SingleTask": [{}, DEEP],
    "Pooled": [{}, {"task_intercepts": True}, DEEP],
    "SharedNetwork": [DEEP],
    "MeanRegularized": [{}, DEEP],
    "MTFL": [{}],
    "RMTL": [{}],
    "MTRL": [{}],
    "DMTL": [{}, {"factorization": "laf"}, DEEP],
    "MRN": [{}, {"modes": ("task",)}, DEEP],
}
"""Settings that every method is tested with, for its classifier and its regressor."""

N_TASKS = 3
EXACT, EXACT_IN_SINGLE_PRECISION = 1e-6, 1e-5
"""Largest difference of outputs that should be the same, relative to the largest of them."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An estimator with settings."""

    method: str
    is_classifier: bool
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def estimator(self) -> type:
        """The class."""
        kind = "Classifier" if self.is_classifier else "Regressor"
        return getattr(multirel.estimators, self.method + kind)

    @property
    def is_deep(self) -> bool:
        """Whether a network is trained."""
        return bool(self.settings.get("hidden_sizes"))

    @property
    def exactness(self) -> float:
        """How close outputs are that should be the same; networks compute in single precision."""
        return EXACT_IN_SINGLE_PRECISION if self.is_deep else EXACT

    @property
    def name(self) -> str:
        """The name of a test case."""
        settings = "-deep" if self.is_deep else "".join(f"-{v}" for v in self.settings.values())
        return f"{self.method}{'Classifier' if self.is_classifier else 'Regressor'}{settings}"

    def make(self, **changes: Any) -> Any:
        """A new estimator, solved so exactly that the same problem has the same predictions."""
        settings = {"random_state": 0, "tolerance": 1e-13} | dict(self.settings) | changes
        if not hasattr(self.estimator, "tolerance"):
            # What is always a network is not solved.
            del settings["tolerance"]
        return self.estimator(**settings)


def cases() -> list[Case]:
    """Every estimator with all of its settings."""
    return [
        Case(method=method, is_classifier=is_classifier, settings=settings)
        for method, rows in METHODS.items()
        for is_classifier in (True, False)
        for settings in rows
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows of several tasks."""

    X: Any
    y: Any
    tasks: Any

    def select(self, index: Any) -> "Rows":
        """Some rows."""
        return Rows(X=self.X[index], y=self.y[index], tasks=self.tasks[index])

    def replace(self, **changes: Any) -> "Rows":
        """The same rows with other fields."""
        return Rows(**{"X": self.X, "y": self.y, "tasks": self.tasks} | changes)


@cache
def rows_of(is_classifier: bool, *, n_classes: int = 2, n_features: int = 4) -> Rows:
    """Rows of three related tasks of different sizes, shuffled; classes are whole numbers from 0."""
    rng = np.random.default_rng(n_features)
    task = rng.permutation(np.repeat(range(N_TASKS), [14, 12, 10]))
    n_outputs = n_classes if is_classifier else 1
    shared = rng.standard_normal((n_outputs, n_features))
    weights = shared + 0.7 * rng.standard_normal((N_TASKS, n_outputs, n_features))
    # Single precision can tell these numbers exactly.
    x = rng.standard_normal((len(task), n_features)).astype(np.float32).astype(np.float64)
    scores = np.einsum("nof,nf->no", weights[task], x) + 0.5 * task[:, None] * range(n_outputs)
    scores += rng.gumbel(size=scores.shape) if is_classifier else rng.standard_normal(scores.shape)
    y = scores.argmax(axis=1) if is_classifier else scores[:, 0]
    rows = Rows(X=x, y=y, tasks=np.array(["ash", "elm", "oak"])[task])
    for values in (rows.X, rows.y, rows.tasks):
        values.flags.writeable = False
    return rows


def fit(estimator: Any, rows: Rows, **more: Any) -> Any:
    """The estimator, fitted to rows."""
    return estimator.fit(rows.X, rows.y, tasks=rows.tasks, **more)


def outputs(estimator: Any, X: Any, tasks: Any = None) -> np.ndarray:
    """What an estimator computes for rows, before classes are made of it."""
    name = "decision_function" if hasattr(estimator, "decision_function") else "predict"
    return getattr(estimator, name)(X, tasks=tasks)


def assert_same(case: Case, actual: Any, expected: Any, *, tolerance: float | None = None) -> None:
    """Assert the same outputs, up to a share of the largest of them."""
    finite = np.abs(expected[np.isfinite(expected)])
    largest = (case.exactness if tolerance is None else tolerance) * finite.max(initial=1e-3)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=largest)


@cache
def fitted(name: str, n_classes: int = 2) -> Any:
    """The estimator of a case, fitted to its rows once for all tests; they leave it as it is."""
    (case,) = [case for case in cases() if case.name == name]
    return fit(case.make(), rows_of(case.is_classifier, n_classes=n_classes))
