"""Multi-task feature learning: all tasks use few directions in the space of the features."""

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
from multirel.estimators._new_task_priors import features
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._targets import ClassSets

__all__ = ["MTFLClassifier", "MTFLRegressor"]

SETTINGS = {
    "strength": "The multiplier γ of the penalty, beside the mean loss.",
}

ATTRIBUTES = {
    "input_covariance_": "F · D, (F, F), of the features as they were standardized; written out from the "
    "factors in `relations_` each time. With several outputs, the average over them.",
    "input_correlation_": "The correlations that belong to it, (F, F).",
    "relations_": "The covariance as factors.",
}


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class MTFLRegressor(MultitaskRegressor):
    r"""Regression with a feature covariance that all tasks share and that is learned with the weights.

    $$\frac1N\sum_n\omega_n(y_n-f_n)^2+\gamma\sum_tw_t^\top D^+w_t,\qquad D\succeq0,\ \mathrm{tr}\,D\le1$$

    Minimized over D, the penalty is γ ‖W‖_*², and D = (Σ_t w_t w_tᵀ)^½ / tr(·) (Argyriou, Evgeniou and
    Pontil, 2008). With task_weighting="equal" the loss is the sum over the tasks of the mean over each
    one's rows. Tasks without labels have weights 0 and the average intercept.

    Differs from the paper: it is not solved by alternating, which stalls, but by splitting, to a
    certified gap.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(6, 30, 10, correlation=0.9)
        >>> model = MTFLRegressor(strength=0.01).fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape, model.input_covariance_.shape
        ((6, 1, 10), (10, 10))
    """

    strength: float = 0.01
    standardize: bool = True
    task_column: str | int | None = None
    task_weighting: Literal["rows", "equal"] = "rows"
    tolerance: float = 1e-6
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    input_covariance_: ClassVar = LearnedMatrix("input")
    input_correlation_: ClassVar = LearnedMatrix("input", correlations=True)

    _rule_of_new_task = staticmethod(features)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_mtfl(self, problem, start=start)


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class MTFLClassifier(MultitaskClassifier):
    r"""Classification with a feature covariance that all tasks share and that is learned with the weights.

    $$\frac1N\sum_n\omega_n\ell(y_n,f_n)+\gamma\sum_tw_t^\top D^+w_t,\qquad D\succeq0,\ \mathrm{tr}\,D\le1$$

    Minimized over D, the penalty is γ ‖W‖_*², and D = (Σ_t w_t w_tᵀ)^½ / tr(·) (Argyriou, Evgeniou and
    Pontil, 2008). With task_weighting="equal" the loss is the sum over the tasks of the mean over each
    one's rows. Tasks without labels have weights 0 and the average intercept. More than two classes are
    told apart one against the rest: every class is a problem of its own, with its own covariance.

    Differs from the paper: it is not solved by alternating, which stalls, but by splitting, to a
    certified gap.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(6, 30, 10, n_classes=3, correlation=0.9)
        >>> model = MTFLClassifier(strength=0.001).fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape, model.multi_class_
        ((6, 3, 10), 'one-vs-rest')
    """

    strength: float = 0.01
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
    input_covariance_: ClassVar = LearnedMatrix("input")
    input_correlation_: ClassVar = LearnedMatrix("input", correlations=True)

    _rule_of_new_task = staticmethod(features)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_mtfl(self, problem, start=start)


def _solve_mtfl(
    estimator: MTFLRegressor | MTFLClassifier,
    problem: LinearProblem,
    *,
    start: LinearSolution | None,
) -> LinearSolution:
    strength = check_strength("strength", estimator.strength)
    penalty = TraceNormPenalty(strength=strength / problem.objective_scale)
    near = None if start is None else start.weights[np.newaxis]
    found = solve_spectral(problem, penalty, tolerance=estimator.tolerance, start=near)
    relations = trace_norm_relations(
        found.solution.weights,
        problem.design.counts > 0,
        mode="input",
        n_features=problem.n_features,
    )
    return replace(found.solution, learned={"relations_": relations})
