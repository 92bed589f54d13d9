"""Deep multi-task learning by tensor factorization: the weights of all tasks are a product of shared factors.

Yang, Hospedales: Deep multi-task representation learning, a tensor factorisation approach. ICLR 2017.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from sklearn.utils.validation import check_is_fitted

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._documentation import documented
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._linear._factorized import Factorizing, solve_factorized
from multirel.estimators._linear._factorized_form import named_factors
from multirel.estimators._network_build import task_layers
from multirel.estimators._network_plan import NetworkPlan, uses_network
from multirel.estimators._new_task_priors import factors
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._targets import ClassSets
from multirel.networks import FactorizedTaskLinear
from multirel.networks._factorization import (
    Factorization,
    Ranks,
    check_factorization,
    resolve_ranks,
)

__all__ = ["DMTLClassifier", "DMTLRegressor"]

MEANINGS = {
    "strength": "The multiplier λ of the ridge penalty on the composed weights Ŵ.",
    "factorization": '"tucker" (core, task, output and input factors), "tt" (tensor train), or "laf" (every '
    "task combines shared layers).",
    "ranks": "Ranks (task, output, input) for Tucker, two for a tensor train, one for LAF; an int is each of "
    "them, as far as the sizes allow; None takes small ones that keep single-task weights within "
    "`relative_error`. For networks the ranks of every layer, or a mapping by layer.",
    "relative_error": "Largest relative error of the single-task weights where `ranks` is None.",
    "tolerance": "Largest relative optimality residual.",
}

LEARNED = {
    "ranks_": "The ranks, without what the other ranks leave no use for; of networks by layer.",
    "factors_": "The factors by name, in the user's units: composed they are `coef_`; of networks by layer.",
    "gap_": "NaN: the problem is not convex, and no bound on a better optimum is known. Where the ranks are "
    "full it is the certified gap of single-task training.",
    "residual_": "The relative optimality residual of linear models: what another Newton step would take off "
    "the objective, relative to it. It says that a stationary point is near, not that it is the best one.",
    "converged_": "Whether the residual came down to `tolerance`.",
}


@final
@documented(settings=MEANINGS, attributes=LEARNED)
@dataclass(kw_only=True, eq=False, repr=False)
class DMTLRegressor(MultitaskRegressor):
    r"""Ridge regressions, or networks, whose weights are a product of factors that the tasks share.

    $$\frac1N\sum_n\omega_n(y_n-f_n)^2+\frac{\lambda}{2N}\lVert\hat W\rVert^2,\qquad
    \hat W = S\times_1U_T\times_2U_O\times_3U_I$$

    Linear models start at the decomposition of the single-task weights and go to a stationary point near
    it, which need not be the best one. With full ranks they are the single-task models. A task without
    labels has the average of the others' task factors. Biases are not shared.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(8, 30, 12, correlation=0.9)
        >>> estimator = DMTLRegressor(factorization="laf", ranks=2)
        >>> estimator.fit(data.X, data.y, tasks=data.tasks).coef_.shape
        (8, 1, 12)
        >>> {name: factor.shape for name, factor in estimator.factors_.items()}
        {'task': (8, 2), 'layers': (2, 1, 12)}
    """

    strength: float = 1.0
    factorization: Factorization = "tucker"
    ranks: Ranks | Mapping[str, Ranks] = None
    relative_error: float = 0.1
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

    _rule_of_new_task = staticmethod(factors)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve(self, problem, start=start)

    def _plan(self) -> NetworkPlan:
        return _plan(self)

    @property
    def factors_(self) -> "dict[str, Any]":
        """The factors by name, or by layer and name."""
        return _factors(self)


@final
@documented(settings=MEANINGS, attributes=LEARNED)
@dataclass(kw_only=True, eq=False, repr=False)
class DMTLClassifier(MultitaskClassifier):
    r"""Logistic regressions, or networks, whose weights are a product of factors that the tasks share.

    $$\frac1N\sum_n\omega_n\ell(y_n,f_n)+\frac{\lambda}{2N}\lVert\hat W\rVert^2,\qquad
    \hat W = S\times_1U_T\times_2U_O\times_3U_I$$

    Linear models start at the decomposition of the single-task weights and go to a stationary point near
    it, which need not be the best one. With full ranks they are the single-task models. A task without
    labels has the average of the others' task factors. Biases are not shared. Tasks with different
    classes need hidden layers, and share those alone.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(6, 40, 10, n_classes=4, correlation=0.9)
        >>> estimator = DMTLClassifier(ranks=(2, 3, 4)).fit(data.X, data.y, tasks=data.tasks)
        >>> {name: factor.shape for name, factor in estimator.factors_.items()}
        {'core': (2, 3, 4), 'task': (6, 2), 'output': (4, 3), 'input': (10, 4)}
    """

    strength: float = 1.0
    factorization: Factorization = "tucker"
    ranks: Ranks | Mapping[str, Ranks] = None
    relative_error: float = 0.1
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

    _rule_of_new_task = staticmethod(factors)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return _solve(self, problem, start=start)

    def _plan(self) -> NetworkPlan:
        return _plan(self)

    @property
    def factors_(self) -> "dict[str, Any]":
        """The factors by name, or by layer and name."""
        return _factors(self)


def _solve(
    estimator: Any, problem: LinearProblem, *, start: LinearSolution | None
) -> LinearSolution:
    _check_factorizing(estimator)
    if isinstance(estimator.ranks, Mapping):
        raise TypeError(
            f"`ranks` must be a whole number, several or None without hidden layers: got "
            f"{estimator.ranks!r}. Name layers where `hidden_sizes` has some."
        )
    given = estimator.ranks
    if given is not None:
        shape = (problem.n_tasks, problem.n_outputs, problem.n_features)
        given = resolve_ranks(shape, estimator.factorization, given)
    factorizing = Factorizing(
        form=estimator.factorization, ranks=given, relative_error=estimator.relative_error
    )
    return solve_factorized(
        problem,
        factorizing,
        ridge=estimator.strength / problem.n_samples,
        tolerance=estimator.tolerance,
        start=start,
    )


def _plan(estimator: Any) -> NetworkPlan:
    _check_factorizing(estimator)
    return NetworkPlan(
        prior=None,
        factorization=estimator.factorization,
        ranks=estimator.ranks,
        relative_error=estimator.relative_error,
    )


def _check_factorizing(estimator: Any) -> None:
    check_factorization(estimator.factorization)
    if not 0 <= estimator.relative_error < 1:
        raise ValueError(
            f"`relative_error` must be at least 0 and below 1: got {estimator.relative_error}."
        )


def _factors(estimator: Any) -> "dict[str, Any]":
    """The factors of a linear model in the user's units, or those of every layer."""
    check_is_fitted(estimator)
    if not uses_network(estimator):
        return named_factors(estimator.coef_, estimator.factorization, ranks=estimator.ranks_)
    layers = task_layers(estimator.network_)
    heads = {} if layers is None else dict(layers.heads.items())
    return {
        name: {part: factor.detach().cpu().numpy() for part, factor in layer.factors.items()}
        for name, layer in heads.items()
        if isinstance(layer, FactorizedTaskLinear)
    }
