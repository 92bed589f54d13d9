"""What all regressors have in common."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin

from multirel.estimators._estimator import MultitaskEstimator
from multirel.estimators._numbers import as_numbers
from multirel.estimators._predict_input import PredictInput
from multirel.estimators._scores import r2, read_scored
from multirel.estimators._task_rows import EncodedLabels, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MultitaskRegressor"]

REGRESSION: Kind = "regression"


class MultitaskRegressor(RegressorMixin, MultitaskEstimator):
    """Predicts a number for every row: the interface of all regressors."""

    def predict(self, X: Any, *, tasks: Any = None) -> "NDArray[np.float64]":
        """The predicted number of every row; where y was wide, a column per task.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row; None where one task was fitted, y was wide, or `task_column` is
                given.
        """
        return self._predict(self._read(X, tasks))

    def _predict(self, rows: PredictInput) -> "NDArray[np.float64]":
        if rows.is_wide:
            n_tasks = len(self.tasks_)
            return np.stack([self._predict(rows.of_task(t)) for t in range(n_tasks)], axis=1)
        numbers: NDArray[np.float64] = self.model_.scores(rows.x, rows.task)[:, 0]
        return numbers

    def score(self, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None) -> float:
        """R² of every task, averaged over the tasks that have it.

        Args:
            X: Features, as in `fit`.
            y: The true numbers; rows without one do not count.
            tasks: The task of every row, as in `predict`.
            sample_weight: What every row counts.

        Raises:
            ValueError: If the labels do not fit the rows, or there is none.
        """
        rows = self._read(X, tasks)
        scored = read_scored(self, rows, y, sample_weight=sample_weight)
        predicted = scored.of_labelled(self._predict(rows))
        return scored.mean_over_tasks(r2, as_numbers(scored.labels), predicted)

    def _encode_labels(
        self, labels: "NDArray[Any]", task: "NDArray[np.int64]", *, weight: "NDArray[np.float64]"
    ) -> EncodedLabels:
        n_tasks = len(self.tasks_)
        return EncodedLabels(
            y=as_numbers(labels),
            weight=weight,
            kinds=(REGRESSION,) * n_tasks,
            classes_of=(None,) * n_tasks,
        )
