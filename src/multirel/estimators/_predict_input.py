"""Rows to predict."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._features import read_features
from multirel.estimators._task_labels import HOW_TO_ROUTE, number_tasks, read_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._estimator import MultitaskEstimator

__all__ = ["PredictInput", "read_predict_input"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictInput:
    """Rows to predict: each is a row of `x` and its task."""

    x: Any
    """Features."""

    task: "NDArray[np.int64]"
    """The number of each row's task; where `is_wide`, unused."""

    is_wide: bool
    """Whether every row is predicted for all tasks."""

    def of_task(self, number: int) -> "PredictInput":
        """The same rows, all of one task."""
        return PredictInput(x=self.x, task=np.full(self.n_rows, number), is_wide=False)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.x.shape[0])


def read_predict_input(estimator: "MultitaskEstimator", X: Any, *, tasks: Any) -> PredictInput:
    """Rows to predict, once they are known to fit the estimator.

    Raises:
        ValueError: If the features are others than in `fit`, or tasks are missing or unknown.
    """
    x, column = read_features(estimator, X, reset=False)
    n_rows = x.shape[0]
    if tasks is not None and column is not None:
        raise ValueError(
            "`tasks` must be None where `task_column` is given: got both. Leave one of them out."
        )
    names = column if tasks is None else tasks
    if names is None:
        if estimator.was_wide_:
            return PredictInput(x=x, task=np.empty(0, dtype=np.int64), is_wide=True)
        if len(estimator.tasks_) > 1:
            raise ValueError(
                f"`tasks` must name the task of every row, since {len(estimator.tasks_)} tasks were "
                f"fitted: got None. {HOW_TO_ROUTE}"
            )
        return PredictInput(x=x, task=np.zeros(n_rows, dtype=np.int64), is_wide=False)
    task = number_tasks(read_tasks(names, n_rows=n_rows), estimator.tasks_)
    return PredictInput(x=x, task=task, is_wide=False)
