"""Single-task training: every task on its own, the yardstick of all others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._documentation import documented
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import QuadraticPenalty
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._new_task_priors import own
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._targets import ClassSets
from multirel.estimators._task_rows import Kind

__all__ = ["SingleTaskClassifier", "SingleTaskRegressor"]


@final
@documented()
@dataclass(kw_only=True, eq=False, repr=False)
class SingleTaskRegressor(MultitaskRegressor):
    r"""Ridge regression, or a network, for every task on its own.

    $$\frac1N\sum_n\omega_n(y_n-f_n)^2+\frac{\lambda}{2N}\lVert W\rVert^2$$

    A task without labels has weights 0 and the average of the other intercepts.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(3, 40, 5)
        >>> model = SingleTaskRegressor(strength=2.0).fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape, bool(model.gap_ <= 1e-6)
        ((3, 1, 5), True)
    """

    strength: float = 1.0
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

    _solves_tasks_apart: ClassVar[bool] = True

    _rule_of_new_task = staticmethod(own)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        penalty = QuadraticPenalty.ridge(self.strength / problem.n_samples)
        return solve_quadratic(problem, penalty, tolerance=self.tolerance, start=start)

    def _plan(self) -> NetworkPlan:
        return NetworkPlan(prior={"start": 0.0, "n_updates": 0, "modes": ("task",)})


@final
@documented()
@dataclass(kw_only=True, eq=False, repr=False)
class SingleTaskClassifier(MultitaskClassifier):
    r"""Logistic regression, or a network, for every task on its own.

    $$\frac1N\sum_n\omega_n\ell(y_n,f_n)+\frac{\lambda}{2N}\lVert W\rVert^2$$

    Linear models of tasks with different classes, or of which some predict numbers, are separate problems. A
    task without labels has weights 0 and the average of the other intercepts.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(3, 40, 5, n_classes=4)
        >>> model = SingleTaskClassifier().fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape, model.predict_proba(data.X, tasks=data.tasks).shape
        ((3, 4, 5), (120, 4))
    """

    strength: float = 1.0
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
    kinds: Mapping[Any, Kind] | None = None
    tolerance: float = 1e-6
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    _solves_tasks_apart: ClassVar[bool] = True

    _rule_of_new_task = staticmethod(own)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        penalty = QuadraticPenalty.ridge(self.strength / problem.n_samples)
        return solve_quadratic(problem, penalty, tolerance=self.tolerance, start=start)

    def _plan(self) -> NetworkPlan:
        return NetworkPlan(prior={"start": 0.0, "n_updates": 0, "modes": ("task",)})
