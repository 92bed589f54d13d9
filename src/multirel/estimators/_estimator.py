"""What all estimators have in common: `fit`, `predict` and `score` with the task of every row."""

import os
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from multirel.estimators._add_task import add_task
from multirel.estimators._fit_input import read_fit_input
from multirel.estimators._fit_linear import fit_linear
from multirel.estimators._fit_network import fit_network
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._model import Model
from multirel.estimators._network_plan import NetworkPlan, uses_network
from multirel.estimators._predict_input import PredictInput, read_predict_input
from multirel.estimators._saved_estimator import save_estimator
from multirel.estimators._settings import check_settings
from multirel.estimators._task_rows import EncodedLabels, TaskRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MultitaskEstimator"]

Estimator = TypeVar("Estimator", bound="MultitaskEstimator")


class MultitaskEstimator(BaseEstimator, ABC):
    """Learns several tasks together: the interface of all estimators.

    A method says how a convex problem is solved where the model is linear (`_solve`), and what its
    network and penalty are where there are hidden layers or a backbone (`_plan`).
    """

    multi_class: ClassVar[Literal["softmax", "one-vs-rest"]] = "softmax"
    """How more than two classes are told apart by linear models."""

    # `tasks` reaches `fit`, `predict` and `score` through pipelines and searches without a request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"tasks": True}

    model_: Model
    tasks_: "NDArray[Any]"
    notes_: tuple[str, ...]

    def fit(
        self: Estimator, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None
    ) -> Estimator:
        """The estimator itself, fitted to rows of all tasks.

        Args:
            X: Features: an array, a sparse matrix, a data frame or a tensor; images where there is a
                backbone.
            y: A label per row, NaN or None where there is none; or a column of labels per task, with
                `tasks` left out.
            tasks: The task of every row, of any type; None means one task, or those in `task_column`.
            sample_weight: What every row counts; None means 1. Rows that count 0 are left out.

        Raises:
            ValueError: If something does not fit; the message says what.
        """
        check_settings(self)
        self.notes_ = ()
        rows = read_fit_input(self, X, y, tasks=tasks, sample_weight=sample_weight)
        self._fit_rows(rows)
        return self

    def add_task(
        self: Estimator, X: Any, y: Any, *, name: Any, sample_weight: Any = None
    ) -> Estimator:
        """The estimator itself, with one more task that is learned from few labels, all else fixed.

        The other tasks' weights, and what was learned about their relations, stay as they are, and say
        what the new task's weights may be like. In regression and classification by linear models.

        Args:
            X: Features of the new task's rows, as in `fit`.
            y: Their labels, of the classes that were fitted.
            name: The name of the task; it comes last in `tasks_`.
            sample_weight: What every row counts, as in `fit`.

        Raises:
            ValueError: If the estimator has no linear models, the name is taken, or rows do not fit.
        """
        add_task(self, X, y, name=name, sample_weight=sample_weight)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator into a folder, from which `load_estimator` reads it.

        Args:
            path: The folder, which is made if need be; a model that is there is replaced, all of it or
                nothing.
        """
        save_estimator(self, path)

    def _fit_rows(self, rows: TaskRows) -> None:
        """Learn from rows that have been read."""
        if uses_network(self):
            fit_network(self, rows, self._plan())
        else:
            fit_linear(self, rows)

    def _note(self, sentence: str) -> None:
        """Keep something that users may want to know, and say it where `verbose` is on."""
        self.notes_ = (*self.notes_, sentence)
        if getattr(self, "verbose", False):
            print(f"{type(self).__name__}: {sentence}", file=sys.stderr)

    @abstractmethod
    def _encode_labels(
        self, labels: "NDArray[Any]", task: "NDArray[np.int64]", *, weight: "NDArray[np.float64]"
    ) -> EncodedLabels:
        """Labels as numbers, with the weights of their classes in those of the rows."""

    @abstractmethod
    def _solve(
        self, problem: LinearProblem, *, start: LinearSolution | None = None
    ) -> LinearSolution:
        """The solution of a linear problem, from a start that may be near."""

    def _plan(self) -> NetworkPlan:
        """What to train where there are hidden layers or a backbone; linear methods have none."""
        raise NotImplementedError

    def _read(self, X: Any, tasks: Any) -> PredictInput:
        """Rows to predict."""
        check_is_fitted(self)
        return read_predict_input(self, X, tasks=tasks)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = getattr(self, "backbone", None) is None
        return tags
