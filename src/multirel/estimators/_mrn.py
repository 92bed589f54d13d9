"""Multilinear relationship networks: a prior on the weights of all tasks, whose relations it learns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._documentation import documented
from multirel.estimators._learned_matrices import LearnedMatrix
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._mrn_documentation import ATTRIBUTES, SETTINGS
from multirel.estimators._mrn_fit import lies_in_span, plan_network, solve_linear
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._new_task_priors import multilinear
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._relations import relation_intervals_of, remember_rows, without_rows
from multirel.estimators._targets import ClassSets
from multirel.estimators._task_rows import Kind, TaskRows

__all__ = ["MRNClassifier", "MRNRegressor"]

Layers = Literal["all", "output", "hidden"]
Shrinkage = float | Mapping[str, float] | Sequence[float] | None
Mean = Literal["zero", "initial", "task-average"]
ShrinkageTarget = Literal["identity", "constant-correlation"]


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class MRNRegressor(MultitaskRegressor):
    r"""Regression under a prior on the weights of all tasks, whose covariances are learned.

    $$\frac1N\sum_n\omega_n(y_n-f_n)^2
    +\frac{\lambda}{2N}\langle W,(\Sigma_T\otimes\Sigma_O\otimes\Sigma_I)^{-1}W\rangle$$

    Linear models are fitted with a task correlation of `start`, then the covariances are estimated from the
    weights, and the models are fitted again; each fit is a convex problem.

    Differs from the paper: covariances are shrunk, normalized, and estimated once, from weakly coupled
    weights, since their updates, run on, couple the tasks too strongly.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(4, 50, 10, correlation=0.9)
        >>> model = MRNRegressor(strength=3.0).fit(data.X, data.y, tasks=data.tasks)
        >>> model.task_correlation_.shape, bool(model.task_correlation_.min() > 0.5)
        ((4, 4), True)
    """

    strength: float = 1.0
    modes: Sequence[str] = ("task", "output", "input")
    layers: Layers = "all"
    shrinkage: Shrinkage = None
    shrinkage_target: ShrinkageTarget = "identity"
    start: Any = 0.5
    n_updates: int | None = 1
    mean: Mean = "zero"
    mean_strength: float = 0.0
    share_task_covariance: bool = False
    scale: Literal["trace", "free", "determinant"] = "trace"
    covariance_update: Literal["logdet", "trace"] = "logdet"
    inverse: Literal["ridge", "pseudo"] = "ridge"
    jitter: float = 1e-6
    rank: int | Literal["auto"] | None = "auto"
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

    task_covariance_: ClassVar[Any] = LearnedMatrix("task")
    task_correlation_: ClassVar[Any] = LearnedMatrix("task", correlations=True)
    output_covariance_: ClassVar[Any] = LearnedMatrix("output")
    output_correlation_: ClassVar[Any] = LearnedMatrix("output", correlations=True)
    input_covariance_: ClassVar[Any] = LearnedMatrix("input")
    input_correlation_: ClassVar[Any] = LearnedMatrix("input", correlations=True)

    _rule_of_new_task = staticmethod(multilinear)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return solve_linear(self, problem, start=start)

    def _plan(self) -> NetworkPlan:
        return plan_network(self)

    @property
    def _uses_span(self) -> bool:
        return lies_in_span(self)

    def _fit_rows(self, rows: TaskRows) -> None:
        super()._fit_rows(rows)
        remember_rows(self, rows)

    def __getstate__(self) -> dict[str, Any]:
        return without_rows(super().__getstate__())

    relation_intervals = relation_intervals_of


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class MRNClassifier(MultitaskClassifier):
    r"""Classification under a prior on the weights of all tasks, whose covariances are learned.

    $$\frac1N\sum_n\omega_n\ell(y_n,f_n)
    +\frac{\lambda}{2N}\langle W,(\Sigma_T\otimes\Sigma_O\otimes\Sigma_I)^{-1}W\rangle$$

    Linear models are fitted with a task correlation of `start`, then the covariances are estimated from the
    weights, and the models are fitted again; each fit is a convex problem.

    Differs from the paper: covariances are shrunk, normalized, and estimated once, from weakly coupled
    weights, since their updates, run on, couple the tasks too strongly.

    Example:
        >>> from multirel.data import make_related_tasks
        >>> data = make_related_tasks(3, 60, 5, n_classes=4, correlation=0.9)
        >>> model = MRNClassifier(modes=("task",)).fit(data.X, data.y, tasks=data.tasks)
        >>> model.coef_.shape, bool(model.task_correlation_.min() > 0.5)
        ((3, 4, 5), True)
    """

    strength: float = 1.0
    modes: Sequence[str] = ("task", "output", "input")
    layers: Layers = "all"
    shrinkage: Shrinkage = None
    shrinkage_target: ShrinkageTarget = "identity"
    start: Any = 0.5
    n_updates: int | None = 1
    mean: Mean = "zero"
    mean_strength: float = 0.0
    share_task_covariance: bool = False
    scale: Literal["trace", "free", "determinant"] = "trace"
    covariance_update: Literal["logdet", "trace"] = "logdet"
    inverse: Literal["ridge", "pseudo"] = "ridge"
    jitter: float = 1e-6
    rank: int | Literal["auto"] | None = "auto"
    hidden_sizes: Sequence[int] = ()
    backbone: Any = None
    weights: Any = None
    max_epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 0.01
    loss: Literal["logistic", "squared"] = "logistic"
    class_weight: ClassWeight = None
    classes: ClassSets = None
    kinds: Mapping[Any, Kind] | None = None
    standardize: bool = True
    task_column: str | int | None = None
    task_weighting: Literal["rows", "equal"] = "rows"
    tolerance: float = 1e-6
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    task_covariance_: ClassVar[Any] = LearnedMatrix("task")
    task_correlation_: ClassVar[Any] = LearnedMatrix("task", correlations=True)
    output_covariance_: ClassVar[Any] = LearnedMatrix("output")
    output_correlation_: ClassVar[Any] = LearnedMatrix("output", correlations=True)
    input_covariance_: ClassVar[Any] = LearnedMatrix("input")
    input_correlation_: ClassVar[Any] = LearnedMatrix("input", correlations=True)

    _rule_of_new_task = staticmethod(multilinear)

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        return solve_linear(self, problem, start=start)

    def _plan(self) -> NetworkPlan:
        return plan_network(self)

    @property
    def _uses_span(self) -> bool:
        return lies_in_span(self)

    def _fit_rows(self, rows: TaskRows) -> None:
        super()._fit_rows(rows)
        remember_rows(self, rows)

    def __getstate__(self) -> dict[str, Any]:
        return without_rows(super().__getstate__())

    relation_intervals = relation_intervals_of
