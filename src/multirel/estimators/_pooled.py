"""Pooled training: one model for the rows of all tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._documentation import documented
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import QuadraticPenalty
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._new_task_priors import pooled
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._targets import ClassSets

__all__ = ["PooledClassifier", "PooledRegressor"]

SETTINGS = {
    "task_intercepts": "Whether every task has an intercept of its own; a task without labels then has the "
    "average of the others.",
}
ATTRIBUTES = {
    "coef_": "Weights of linear models in the user's units, (T, C, F), the same for all tasks, with C = 1 "
    "for numbers and for two classes.",
}


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class PooledRegressor(MultitaskRegressor):
    r"""Ridge regression, or a network, for the rows of all tasks together.

    $$\frac1N\sum_n\omega_n(y_n-w^\top x_n-b)^2+\frac{\lambda}{2N}\lVert w\rVert^2$$

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(3, 40, 5, correlation=0.9)
        >>> model = PooledRegressor(task_intercepts=True).fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape, bool((model.coef_[0] == model.coef_[2]).all())
        ((3, 1, 5), True)
    """

    strength: float = 1.0
    task_intercepts: bool = False
    hidden_sizes: Sequence[int] = ()
    backbone: Any = None
    weights: Any = None
    max_epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 0.01
    standardize: bool = True
    task_column: str | int | None = None
    task_weighting: Literal["rows", "equal"] = "rows"
    tolerance: float = 1e-6
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    _rule_of_new_task = staticmethod(pooled)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_pooled(self, problem, start=start)

    def _plan(self) -> NetworkPlan:
        return NetworkPlan(sharing="all", prior=None, task_intercepts=self.task_intercepts)


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class PooledClassifier(MultitaskClassifier):
    r"""Logistic regression, or a network, for the rows of all tasks together.

    $$\frac1N\sum_n\omega_n\ell(y_n,Wx_n+b)+\frac{\lambda}{2N}\lVert W\rVert^2$$

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(3, 40, 5, n_classes=4, correlation=0.9)
        >>> model = PooledClassifier().fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape, bool((model.intercept_[0] == model.intercept_[2]).all())
        ((3, 4, 5), True)
    """

    strength: float = 1.0
    task_intercepts: bool = False
    hidden_sizes: Sequence[int] = ()
    backbone: Any = None
    weights: Any = None
    max_epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 0.01
    standardize: bool = True
    task_column: str | int | None = None
    task_weighting: Literal["rows", "equal"] = "rows"
    loss: Literal["logistic", "squared"] = "logistic"
    class_weight: ClassWeight = None
    classes: ClassSets = None
    tolerance: float = 1e-6
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    _rule_of_new_task = staticmethod(pooled)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_pooled(self, problem, start=start)

    def _plan(self) -> NetworkPlan:
        return NetworkPlan(sharing="all", prior=None, task_intercepts=self.task_intercepts)


def _solve_pooled(
    estimator: PooledRegressor | PooledClassifier,
    problem: LinearProblem,
    *,
    start: LinearSolution | None,
) -> LinearSolution:
    """The same weights for every task, from all rows as those of one task."""
    own = estimator.task_intercepts
    pooled = replace(
        problem,
        design=problem.design.with_one_task,
        intercept_starts=problem.design.starts if own else None,
    )
    if start is not None:
        intercepts = start.intercepts if own else start.intercepts[:1]
        start = replace(start, weights=start.weights[:1], intercepts=intercepts)
    solution = solve_quadratic(
        pooled,
        QuadraticPenalty.ridge(estimator.strength / problem.n_samples),
        tolerance=estimator.tolerance,
        start=start,
    )
    n_tasks = problem.n_tasks
    return replace(
        solution,
        weights=np.repeat(solution.weights, n_tasks, axis=0),
        intercepts=solution.intercepts if own else np.repeat(solution.intercepts, n_tasks, axis=0),
    )
