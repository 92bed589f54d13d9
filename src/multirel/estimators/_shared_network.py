"""Hard sharing: one hidden network for all tasks, and a linear head for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, final

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classifier import MultitaskClassifier
from multirel.estimators._documentation import documented
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._regressor import MultitaskRegressor
from multirel.estimators._targets import ClassSets
from multirel.estimators._task_rows import Kind

__all__ = ["SharedNetworkClassifier", "SharedNetworkRegressor"]

SETTINGS = {
    "strength": "The multiplier λ: hidden layers, heads, and a backbone that trains cost (λ/2N)‖W‖².",
    "hidden_sizes": "Sizes of the hidden layers, which all tasks share; at least one, unless a backbone "
    "trains.",
}
ATTRIBUTES = {
    "network_": "The trained network.",
    "history_": "What happened in training, step by step.",
    "prior_": "None: the tasks share layers, and nothing else relates them.",
    "n_iter_": "Steps of training.",
    "converged_": "Whether training came to its end.",
}


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class SharedNetworkRegressor(MultitaskRegressor):
    """A network whose hidden layers all tasks share, with a linear head for every task.

    Most multi-task software means this. A task without labels has the average of the other heads.
    """

    strength: float = 1.0
    hidden_sizes: Sequence[int] = (256,)
    backbone: Any = None
    weights: Any = None
    max_epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 0.01
    standardize: bool = True
    task_column: str | int | None = None
    task_weighting: Literal["rows", "equal"] = "rows"
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        _refuse()

    def _plan(self) -> NetworkPlan:
        return NetworkPlan(sharing="hidden", prior=None)


@final
@documented(settings=SETTINGS, attributes=ATTRIBUTES)
@dataclass(kw_only=True, eq=False, repr=False)
class SharedNetworkClassifier(MultitaskClassifier):
    """A network whose hidden layers all tasks share, with a linear head for every task.

    Most multi-task software means this. A task without labels has the average of the other heads.
    """

    strength: float = 1.0
    hidden_sizes: Sequence[int] = (256,)
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
    random_state: Any = None
    device: Any = "cpu"
    verbose: bool = False
    missing_label: Any = None

    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        _refuse()

    def _plan(self) -> NetworkPlan:
        return NetworkPlan(sharing="hidden", prior=None)


def _refuse() -> NoReturn:
    raise ValueError(
        "`hidden_sizes` must have at least one layer for tasks to share: got (). Use `hidden_sizes=(256,)`."
    )
