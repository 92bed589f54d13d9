"""Robust multi-task learning: a part of low rank that tasks share, and parts of outlier tasks."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._documentation import documented
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._linear._robust_blocks import BlockWeights
from multirel.estimators._linear._robust_penalty import RobustPenalty
from multirel.estimators._linear._spectral_solve import solve_spectral
from multirel.estimators._linear._spectral_strengths import check_strength
from multirel.estimators._new_task_priors import robust
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._targets import ClassSets

__all__ = ["RMTLClassifier", "RMTLRegressor"]

SETTINGS = {
    "strength": "The multiplier ρ₁ of the trace norm of the shared part, beside the mean loss.",
    "outlier_strength": "The multiplier ρ₂ of the lengths of the tasks' own parts.",
}

ATTRIBUTES = {
    "shared_coef_": "L in the user's units, (T, C, F).",
    "outlier_coef_": "S in the user's units, (T, C, F), with zeros for tasks that are no outliers; "
    "`coef_` is the sum of both.",
    "outlier_tasks_": "The names of the tasks whose own part is not zero, for one of the outputs at least.",
}


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class RMTLRegressor(MultitaskRegressor):
    r"""Regression with weights of low rank for all tasks, and weights of their own for outlier tasks.

    $$\frac1N\sum_n\omega_n(y_n-f_n)^2+\rho_1\lVert L\rVert_*+\rho_2\sum_t\lVert s_t\rVert_2,\qquad W=L+S$$

    A task with s_t ≠ 0 is an outlier (Chen, Zhou and Ye, 2011). With task_weighting="equal" the loss is
    the sum over the tasks of the mean over each one's rows. Tasks without labels have weights 0 and the
    average intercept.

    Differs from the paper: it is solved by splitting with Anderson mixing, to a certified gap.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(6, 30, 10, correlation=0.9)
        >>> model = RMTLRegressor(strength=0.3, outlier_strength=1.0).fit(data.X, data.y, tasks=data.tasks)
        >>> model.outlier_tasks_.tolist(), int(np.linalg.matrix_rank(model.shared_coef_[:, 0])) < 6
        ([], True)
    """

    strength: float = 0.01
    outlier_strength: float = 0.01
    standardize: bool = True
    task_column: str | int | None = None
    task_weighting: Literal["rows", "equal"] = "rows"
    tolerance: float = 1e-6
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    @property
    def outlier_tasks_(self) -> Any:
        """The names of the tasks whose own part is not zero."""
        return _outlier_tasks(self)

    _rule_of_new_task = staticmethod(robust)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_rmtl(self, problem, start=start)


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class RMTLClassifier(MultitaskClassifier):
    r"""Classification with weights of low rank for all tasks, and weights of their own for outlier tasks.

    $$\frac1N\sum_n\omega_n\ell(y_n,f_n)+\rho_1\lVert L\rVert_*+\rho_2\sum_t\lVert s_t\rVert_2,\qquad W=L+S$$

    A task with s_t ≠ 0 is an outlier (Chen, Zhou and Ye, 2011). With task_weighting="equal" the loss is
    the sum over the tasks of the mean over each one's rows. Tasks without labels have weights 0 and the
    average intercept. More than two classes are told apart one against the rest: every class is a
    problem of its own, with its own parts.

    Differs from the paper: it is solved by splitting with Anderson mixing, to a certified gap.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(6, 30, 10, n_classes=3, correlation=0.9)
        >>> model = RMTLClassifier(strength=0.01).fit(data.X, data.y, tasks=data.tasks)
        >>> model.outlier_coef_.shape, model.multi_class_
        ((6, 3, 10), 'one-vs-rest')
    """

    strength: float = 0.01
    outlier_strength: float = 0.01
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

    @property
    def outlier_tasks_(self) -> Any:
        """The names of the tasks whose own part is not zero."""
        return _outlier_tasks(self)

    _rule_of_new_task = staticmethod(robust)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve_rmtl(self, problem, start=start)


def _solve_rmtl(
    estimator: RMTLRegressor | RMTLClassifier,
    problem: LinearProblem,
    *,
    start: LinearSolution | None,
) -> LinearSolution:
    scale = problem.objective_scale
    penalty = RobustPenalty(
        strength=check_strength("strength", estimator.strength) / scale,
        outlier_strength=check_strength("outlier_strength", estimator.outlier_strength) / scale,
    )
    found = solve_spectral(problem, penalty, tolerance=estimator.tolerance, start=_blocks_of(start))
    shared, outlier = (BlockWeights(weights=block) for block in found.blocks)
    return replace(found.solution, learned={"shared_coef_": shared, "outlier_coef_": outlier})


def _blocks_of(start: LinearSolution | None) -> Any:
    """L and S of a solution, "2 T C r"."""
    if start is None:
        return None
    if "outlier_coef_" not in start.learned:
        return np.stack([start.weights, np.zeros_like(start.weights)])
    return np.stack([start.learned[name].weights for name in ("shared_coef_", "outlier_coef_")])


def _outlier_tasks(estimator: RMTLRegressor | RMTLClassifier) -> Any:
    if "outlier_coef_" not in vars(estimator):
        raise AttributeError(
            f"{type(estimator).__name__!r} object has no attribute 'outlier_tasks_'"
        )
    return estimator.tasks_[np.any(estimator.outlier_coef_, axis=(1, 2))]
