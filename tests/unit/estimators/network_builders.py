"""Rows, plans and estimators for tests of networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._task_rows import TaskRows

FULL_BATCH = 10_000

PLANS = {
    "single": NetworkPlan(prior={"start": 0.0, "n_updates": 0, "modes": ("task",)}),
    "pooled": NetworkPlan(sharing="all", prior=None),
    "pooled-intercepts": NetworkPlan(sharing="all", prior=None, task_intercepts=True),
    "shared": NetworkPlan(sharing="hidden", prior=None),
    "fixed": NetworkPlan(prior={"start": 0.7, "n_updates": 0, "modes": ("task",)}),
    "mrn": NetworkPlan(prior={}),
    "mrn-8": NetworkPlan(sharing="hidden", prior={}, layers="output"),
    "mrn-hidden": NetworkPlan(prior={}, layers="hidden"),
    "mrn-t": NetworkPlan(prior={"modes": ("task",), "n_updates": 2}),
    "mrn-on": NetworkPlan(prior={"n_updates": None}),
    "mrn-shared-covariance": NetworkPlan(prior={"share_task_covariance": True}),
    "tucker": NetworkPlan(prior=None, factorization="tucker"),
    "tt": NetworkPlan(prior=None, factorization="tt"),
    "laf": NetworkPlan(prior=None, factorization="laf", ranks=2),
}
"""Every way in which networks of methods differ."""


@dataclass(kw_only=True, eq=False, repr=False)
class PlannedRegressor(MultitaskRegressor):
    """A regressor that follows a plan."""

    plan: Any = None
    strength: float = 1.0
    hidden_sizes: Sequence[int] = (16,)
    backbone: Any = None
    weights: Any = None
    max_epochs: int = 40
    batch_size: int = FULL_BATCH
    learning_rate: float = 0.05
    standardize: bool = True
    task_column: Any = None
    task_weighting: str = "rows"
    tolerance: float = 1e-6
    random_state: Any = 0
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    def _solve(self, problem, *, start=None):
        raise NotImplementedError

    def _plan(self) -> NetworkPlan:
        return self.plan


@dataclass(kw_only=True, eq=False, repr=False)
class PlannedClassifier(MultitaskClassifier):
    """A classifier that follows a plan."""

    plan: Any = None
    strength: float = 1.0
    hidden_sizes: Sequence[int] = (16,)
    backbone: Any = None
    weights: Any = None
    max_epochs: int = 40
    batch_size: int = FULL_BATCH
    learning_rate: float = 0.05
    standardize: bool = True
    task_column: Any = None
    task_weighting: str = "rows"
    loss: str = "logistic"
    class_weight: Any = None
    classes: Any = None
    kinds: Any = None
    tolerance: float = 1e-6
    random_state: Any = 0
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    def _solve(self, problem, *, start=None):
        raise NotImplementedError

    def _plan(self) -> NetworkPlan:
        return self.plan


@dataclass(frozen=True, kw_only=True)
class Data:
    """Rows of three tasks."""

    x: Any
    y: Any
    tasks: Any

    @property
    def task(self) -> np.ndarray:
        """The number of each row's task."""
        return np.unique(self.tasks, return_inverse=True)[1]


def make_data(n_classes: int | None = 3, *, n_rows: int = 30, seed: int = 0) -> Data:
    """Rows of three related tasks with four features; numbers where there are no classes."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(99)
    shared = weights.standard_normal((n_classes or 1, 4))
    own = shared + 0.4 * weights.standard_normal((3, n_classes or 1, 4))
    task = rng.permutation(np.repeat(range(3), n_rows))
    x = rng.standard_normal((len(task), 4))
    scores = np.einsum("nof,nf->no", own[task], x)
    y = 20 + 5 * scores[:, 0] if n_classes is None else scores.argmax(1)
    if n_classes == 1:
        y = (scores[:, 0] > 0) * 1
    return Data(x=x, y=y, tasks=np.array(["a", "b", "c"])[task])


def fit(estimator: Any, data: Data, **more: Any) -> Any:
    """The estimator, fitted to rows."""
    return estimator.fit(data.x, data.y, tasks=data.tasks, **more)


def make_images(n_rows: int = 10, *, side: int = 8, seed: int = 0) -> Data:
    """Gray images of uint8 whose class is where they are bright."""
    rng = np.random.default_rng(seed)
    task = np.repeat(range(3), n_rows)
    y = rng.integers(0, 2, len(task))
    x = rng.integers(0, 100, (len(task), 1, side, side))
    half = side // 2
    for row, label in enumerate(y):
        x[row, 0, :, half * label : half * (label + 1)] += 120
    return Data(x=x.astype(np.uint8), y=y, tasks=np.array(["a", "b", "c"])[task])


def make_module(seed: int = 0) -> nn.Module:
    """A small backbone of a user's own, for images of 8 × 8 pixels."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 6), nn.ReLU())


def make_rows(data: Data, **changes: Any) -> TaskRows:
    """Rows as estimators read them, with classes or, where labels are no whole numbers, with numbers."""
    is_class = data.y.dtype.kind in "iu"
    classes = np.unique(data.y) if is_class else None
    values = {
        "x": data.x,
        "source": np.arange(len(data.y)),
        "task": data.task,
        "y": data.y.astype(np.float64),
        "weight": np.ones(len(data.y)),
        "tasks": np.unique(data.tasks),
        "kinds": ("classification" if is_class else "regression",) * 3,
        "classes_of": (classes,) * 3,
    }
    return TaskRows(**values | changes)
