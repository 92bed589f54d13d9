"""Multi-task relationship learning: a covariance of the tasks, learned with the weights."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._documentation import documented
from multirel.estimators._learned_matrices import LearnedMatrix
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._linear._spectral_relations import trace_norm_relations
from multirel.estimators._linear._spectral_solve import solve_spectral
from multirel.estimators._linear._spectral_strengths import check_strength
from multirel.estimators._linear._trace_norm_penalty import TraceNormPenalty
from multirel.estimators._new_task_priors import relationships
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._relations import relation_intervals_of, remember_rows, without_rows
from multirel.estimators._targets import ClassSets
from multirel.estimators._task_rows import TaskRows

__all__ = ["MTRLClassifier", "MTRLRegressor"]

SETTINGS = {
    "strength": "The multiplier λ₂ of what relates the tasks, beside the mean loss.",
    "ridge": "The multiplier λ₁ of the weights themselves. One of both strengths must be above 0.",
}

ATTRIBUTES = {
    "task_covariance_": "T · Ω, (T, T), with NaN for tasks without labels; written out from the factors in "
    "`relations_` each time. With several outputs, the average over them.",
    "task_correlation_": "The correlations between the tasks, (T, T).",
    "relations_": "The covariance as factors.",
}


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class MTRLRegressor(MultitaskRegressor):
    r"""Regression with a covariance of the tasks that is learned with the weights, in one convex problem.

    $$\frac1N\sum_n\omega_n(y_n-f_n)^2+\frac{\lambda_1}2\lVert W\rVert^2
    +\frac{\lambda_2}2\mathrm{tr}(W\Omega^{-1}W^\top),\qquad\Omega\succeq0,\ \mathrm{tr}\,\Omega=1$$

    Minimized over Ω, the last term is (λ₂/2) ‖W‖_*², and Ω = (WᵀW)^½ / tr(·), with a column of W per
    task (Zhang and Yeung, 2010). With task_weighting="equal" the loss is the sum over the tasks of the
    mean over each one's rows, as there. Tasks without labels have weights 0 and the average intercept.

    Differs from the paper: it is not solved by alternating, which stalls, but by splitting, to a
    certified gap.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(6, 30, 10, correlation=0.9)
        >>> model = MTRLRegressor(strength=0.01).fit(data.X, data.y, tasks=data.tasks)
        >>> model.task_covariance_.shape, round(float(model.task_covariance_.trace()), 6)
        ((6, 6), 6.0)
    """

    strength: float = 0.01
    ridge: float = 0.01
    standardize: bool = True
    task_column: str | int | None = None
    task_weighting: Literal["rows", "equal"] = "rows"
    tolerance: float = 1e-6
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    task_covariance_: ClassVar = LearnedMatrix("task")
    task_correlation_: ClassVar = LearnedMatrix("task", correlations=True)

    _rule_of_new_task = staticmethod(relationships)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_mtrl(self, problem, start=start)

    def _fit_rows(self, rows: TaskRows) -> None:
        super()._fit_rows(rows)
        remember_rows(self, rows)

    def __getstate__(self) -> dict[str, Any]:
        return without_rows(super().__getstate__())

    relation_intervals = relation_intervals_of


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class MTRLClassifier(MultitaskClassifier):
    r"""Classification with a covariance of the tasks that is learned with the weights, in one convex problem.

    $$\frac1N\sum_n\omega_n\ell(y_n,f_n)+\frac{\lambda_1}2\lVert W\rVert^2
    +\frac{\lambda_2}2\mathrm{tr}(W\Omega^{-1}W^\top),\qquad\Omega\succeq0,\ \mathrm{tr}\,\Omega=1$$

    Minimized over Ω, the last term is (λ₂/2) ‖W‖_*², and Ω = (WᵀW)^½ / tr(·), with a column of W per
    task (Zhang and Yeung, 2010). With task_weighting="equal" the loss is the sum over the tasks of the
    mean over each one's rows, as there. Tasks without labels have weights 0 and the average intercept.
    More than two classes are told apart one against the rest: every class is a problem of its own, with
    its own covariance.

    Differs from the paper: it is not solved by alternating, which stalls, but by splitting, to a
    certified gap.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(6, 30, 10, n_classes=2, correlation=0.9)
        >>> model = MTRLClassifier(strength=0.001).fit(data.X, data.y, tasks=data.tasks)
        >>> model.task_correlation_.shape
        (6, 6)
    """

    strength: float = 0.01
    ridge: float = 0.01
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

    multi_class: ClassVar[Literal["softmax", "one-vs-rest"]] = "one-vs-rest"
    task_covariance_: ClassVar = LearnedMatrix("task")
    task_correlation_: ClassVar = LearnedMatrix("task", correlations=True)

    _rule_of_new_task = staticmethod(relationships)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_mtrl(self, problem, start=start)

    def _fit_rows(self, rows: TaskRows) -> None:
        super()._fit_rows(rows)
        remember_rows(self, rows)

    def __getstate__(self) -> dict[str, Any]:
        return without_rows(super().__getstate__())

    relation_intervals = relation_intervals_of


def _solve_mtrl(
    estimator: MTRLRegressor | MTRLClassifier,
    problem: LinearProblem,
    *,
    start: LinearSolution | None,
) -> LinearSolution:
    ridge = check_strength("ridge", estimator.ridge, may_be_zero=True)
    strength = check_strength("strength", estimator.strength, may_be_zero=ridge > 0)
    scale = problem.objective_scale
    # (λ₂/2) tr(W Ω⁻¹ Wᵀ), minimized over Ω, is (λ₂/2) ‖W‖_*².
    penalty = TraceNormPenalty(strength=strength / (2 * scale), ridge=ridge / scale)
    near = None if start is None else start.weights[np.newaxis]
    found = solve_spectral(problem, penalty, tolerance=estimator.tolerance, start=near)
    relations = trace_norm_relations(
        found.solution.weights,
        problem.design.counts > 0,
        mode="task",
        n_features=problem.n_features,
    )
    return replace(found.solution, learned={"relations_": relations})
