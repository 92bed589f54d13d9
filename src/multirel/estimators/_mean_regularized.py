"""Mean-regularized training: the weights of every task are pulled to their average."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._documentation import documented
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty
from multirel.estimators._linear._unlabeled_tasks import labeled_problem, with_unlabeled_tasks
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._new_task_priors import average
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._targets import ClassSets

__all__ = ["MeanRegularizedClassifier", "MeanRegularizedRegressor"]

SETTINGS = {
    "strength": "The multiplier λ₁ of the distances from the average.",
    "ridge": "The multiplier λ₂ of the weights themselves. The default keeps the average finite and hardly "
    "shrinks it: next to the mean loss of standardized features, 1e-3 takes off a thousandth.",
}


@final
@documented(settings=SETTINGS)
@dataclass(kw_only=True, eq=False, repr=False)
class MeanRegularizedRegressor(MultitaskRegressor):
    r"""Regression whose weights are pulled to the average of those of all tasks.

    $$\frac1N\sum_n\omega_n(y_n-f_n)^2+\lambda_1\sum_t\lVert w_t-\bar w\rVert^2+\lambda_2\lVert W\rVert^2$$

    With task_weighting="equal" the loss is the sum over the tasks of the mean over each one's rows. It is
    the prior of `MRNRegressor` with one task correlation for all pairs, λ₁ / (λ₁ + T λ₂), held (Evgeniou and
    Pontil, 2004). Tasks without labels do not count; their weights are those that this prior expects.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(3, 40, 5, correlation=0.9)
        >>> model = MeanRegularizedRegressor(strength=0.1).fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape
        (3, 1, 5)
    """

    strength: float = 1.0
    ridge: float = 1e-3
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

    _rule_of_new_task = staticmethod(average)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_mean_regularized(self, problem, start=start)

    def _plan(self) -> NetworkPlan:
        return _plan_mean_regularized(self)


@final
@documented(settings=SETTINGS)
@dataclass(kw_only=True, eq=False, repr=False)
class MeanRegularizedClassifier(MultitaskClassifier):
    r"""Classification whose weights are pulled to the average of those of all tasks.

    $$\frac1N\sum_n\omega_n\ell(y_n,f_n)+\lambda_1\sum_t\lVert w_t-\bar w\rVert^2+\lambda_2\lVert W\rVert^2$$

    With task_weighting="equal" the loss is the sum over the tasks of the mean over each one's rows. It is
    the prior of `MRNClassifier` with one task correlation for all pairs, λ₁ / (λ₁ + T λ₂), held (Evgeniou and
    Pontil, 2004). Tasks without labels do not count; their weights are those that this prior expects.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(3, 40, 5, n_classes=4, correlation=0.9)
        >>> model = MeanRegularizedClassifier(strength=0.1).fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape
        (3, 4, 5)
    """

    strength: float = 1.0
    ridge: float = 1e-3
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

    _rule_of_new_task = staticmethod(average)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_mean_regularized(self, problem, start=start)

    def _plan(self) -> NetworkPlan:
        return _plan_mean_regularized(self)


def _solve_mean_regularized(
    estimator: MeanRegularizedRegressor | MeanRegularizedClassifier,
    problem: LinearProblem,
    *,
    start: LinearSolution | None,
) -> LinearSolution:
    problem, has_rows = labeled_problem(problem)
    if start is not None:
        start = replace(
            start, weights=start.weights[has_rows], intercepts=start.intercepts[has_rows]
        )
    n_tasks, scale = problem.n_tasks, problem.objective_scale
    # λ₁ W (I − 11ᵀ/T) W + λ₂ W W is ½ ⟨W, P W⟩ with P = 2 λ₂ along 1 and 2 (λ₁ + λ₂) elsewhere.
    task = ModeSpectrum(
        basis=np.full((n_tasks, 1), n_tasks**-0.5),
        inside=np.array([2 * estimator.ridge]),
        outside=2 * (estimator.strength + estimator.ridge),
    )
    one = ModeSpectrum.identity()
    penalty = QuadraticPenalty(strength=1 / scale, task=task, output=one, input=one)
    solution = solve_quadratic(problem, penalty, tolerance=estimator.tolerance, start=start)
    correlation = _correlation(estimator, n_tasks)
    # A correlation of 1 gives the average too, as do both strengths 0.
    solution = with_unlabeled_tasks(solution, has_rows, start=correlation, mean="zero")
    return replace(solution, objective=solution.objective * scale)


def _correlation(
    estimator: MeanRegularizedRegressor | MeanRegularizedClassifier, n_tasks: int
) -> float:
    """The correlation ρ for which the eigenvalues 1 + (T − 1) ρ and 1 − ρ have the ratio of the penalties."""
    total = estimator.strength + n_tasks * estimator.ridge
    return estimator.strength / total if total > 0 else 0.0


def _plan_mean_regularized(
    estimator: MeanRegularizedRegressor | MeanRegularizedClassifier,
) -> NetworkPlan:
    if estimator.ridge <= 0:
        raise ValueError(
            f"`ridge` must be above 0 where there are hidden layers: got {estimator.ridge!r}. Use 1e-3."
        )
    correlation = _correlation(estimator, len(estimator.tasks_))
    both = estimator.strength + estimator.ridge
    return NetworkPlan(
        prior={
            "start": correlation,
            "n_updates": 0,
            "modes": ("task",),
            "strength": 2 * both * (1 - correlation),
        },
        ridge=2 * estimator.ridge,
        strength_per="objective_scale",
    )
