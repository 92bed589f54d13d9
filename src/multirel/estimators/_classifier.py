"""What all classifiers have in common."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from multirel.estimators._class_weights import ClassWeight
from multirel.estimators._classes import find_classes, kinds_of_tasks
from multirel.estimators._estimator import MultitaskEstimator
from multirel.estimators._predict_input import PredictInput
from multirel.estimators._scores import accuracy, read_scored
from multirel.estimators._targets import ClassSets
from multirel.estimators._task_labels import shown_names
from multirel.estimators._task_rows import EncodedLabels, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MultitaskClassifier"]

N_BINARY = 2


def _gives_probabilities(estimator: Any) -> bool:
    if getattr(estimator, "loss", "logistic") != "logistic":
        raise AttributeError(
            f"`predict_proba` needs loss='logistic': got {estimator.loss!r}. Use `decision_function`."
        )
    return True


class MultitaskClassifier(ClassifierMixin, MultitaskEstimator):
    """Predicts a class for every row: the interface of all classifiers."""

    # These reach the methods as `tasks` reaches `predict`.
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__predict_log_proba: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool]] = {"tasks": True}

    classes: ClassSets
    class_weight: ClassWeight
    classes_: Any
    classes_of_: "tuple[NDArray[Any] | None, ...]"
    has_own_classes_: bool
    kinds_: tuple[Kind, ...]
    multi_class_: Literal["binary", "softmax", "one-vs-rest"]

    def predict(self, X: Any, *, tasks: Any = None) -> "NDArray[Any]":
        """The predicted class of every row; where y was wide, a column per task.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row; None where one task was fitted, y was wide, or `task_column` is
                given.

        Raises:
            ValueError: If the features or tasks are not those of `fit`, or a task has no classes.
        """
        return self._predict(self._read(X, tasks))

    def _predict(self, rows: PredictInput) -> "NDArray[Any]":
        if rows.is_wide:
            n_tasks = len(self.tasks_)
            return np.stack([self._predict(rows.of_task(t)) for t in range(n_tasks)], axis=1)
        scores = self.model_.scores(rows.x, rows.task)
        if not self.has_own_classes_ and "regression" not in self.kinds_:
            return self.classes_[_best(scores, len(self.classes_))]
        predicted = np.empty(rows.n_rows, dtype=self._dtype_of_predictions())
        for number, classes in enumerate(self.classes_of_):
            mine = rows.task == number
            if classes is None:
                predicted[mine] = scores[mine, 0]
            else:
                predicted[mine] = classes[_best(scores[mine], len(classes))]
        return predicted

    def _dtype_of_predictions(self) -> Any:
        types = [classes.dtype for classes in self.classes_of_ if classes is not None]
        return object if "regression" in self.kinds_ else np.result_type(*types)

    def _read(self, X: Any, tasks: Any) -> PredictInput:
        rows = super()._read(X, tasks)
        wanted = range(len(self.tasks_)) if rows.is_wide else np.unique(rows.task).tolist()
        for number in wanted:
            classes = self.classes_of_[number]
            if classes is not None and len(classes) == 0:
                raise ValueError(
                    f"`tasks` must have labels in `fit` where classes are per task: got "
                    f"{self.tasks_.tolist()[number]!r}, which has none. Leave its rows out."
                )
        return rows

    def decision_function(self, X: Any, *, tasks: Any = None) -> "NDArray[np.float64]":
        """Scores of the classes, the largest of which is predicted: "n C", or "n" for two classes.

        Where y was wide there is an axis for the tasks after the rows. Where tasks have their own classes,
        there are as many columns as the largest has, and those that a task does not have are −∞.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row, as in `predict`.
        """
        rows = self._read(X, tasks)
        if rows.is_wide:
            n_tasks = len(self.tasks_)
            return np.stack([self._decide(rows.of_task(t)) for t in range(n_tasks)], axis=1)
        return self._decide(rows)

    def _decide(self, rows: PredictInput) -> "NDArray[np.float64]":
        scores: NDArray[np.float64] = self.model_.scores(rows.x, rows.task)
        if self._is_binary():
            return scores[:, 0]
        return self._full_scores(scores, rows.task)

    def _is_binary(self) -> bool:
        return all(
            classes is not None and len(classes) <= N_BINARY for classes in self.classes_of_
        ) and not (self.has_own_classes_)

    def _full_scores(
        self, scores: "NDArray[np.float64]", task: "NDArray[np.int64]"
    ) -> "NDArray[np.float64]":
        """A score per class, also for tasks with two classes beside tasks with more."""
        sizes = [1 if classes is None else len(classes) for classes in self.classes_of_]
        full = np.full((len(scores), max(sizes)), -np.inf)
        for number, size in enumerate(sizes):
            mine = task == number
            if self.classes_of_[number] is None or size > N_BINARY:
                full[mine, :size] = scores[mine, :size]
            else:
                # The score of the second class is the logarithm of its odds.
                full[mine, 0] = 0.0
                if size == N_BINARY:
                    full[mine, 1] = scores[mine, 0]
        return full

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any, *, tasks: Any = None) -> "NDArray[np.float64]":
        """Probabilities of the classes, "n C"; with an axis for the tasks after the rows where y was wide.

        Where tasks have their own classes, a row has zeros for those that its task does not have. Rows of
        tasks that predict numbers are NaN.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row, as in `predict`.
        """
        rows = self._read(X, tasks)
        if rows.is_wide:
            n_tasks = len(self.tasks_)
            return np.stack([self._probabilities(rows.of_task(t)) for t in range(n_tasks)], axis=1)
        return self._probabilities(rows)

    def _probabilities(self, rows: PredictInput) -> "NDArray[np.float64]":
        scores: NDArray[np.float64] = self.model_.scores(rows.x, rows.task)
        if self._is_binary():
            second = expit(scores[:, 0])
            return np.stack([expit(-scores[:, 0]), second], axis=1)[:, : len(self.classes_)]
        if self.model_.is_one_vs_rest:
            each = expit(scores)
            total = each.sum(axis=1, keepdims=True)
            # All classes may be as good as impossible.
            return np.where(total > 0, each / np.where(total > 0, total, 1), 1 / each.shape[1])
        probabilities = softmax(self._full_scores(scores, rows.task), axis=1)
        is_number = np.array([classes is None for classes in self.classes_of_])
        probabilities[is_number[rows.task]] = np.nan
        return probabilities

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any, *, tasks: Any = None) -> "NDArray[np.float64]":
        """Logarithms of `predict_proba`.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row, as in `predict`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, tasks=tasks))

    def score(self, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of every task, averaged over the tasks.

        Args:
            X: Features, as in `fit`.
            y: The true classes; rows without one do not count.
            tasks: The task of every row, as in `predict`.
            sample_weight: What every row counts.

        Raises:
            ValueError: If the labels do not fit the rows, or there is none; or if some tasks predict
                numbers, since no score is common to both.
        """
        rows = self._read(X, tasks)
        self._check_has_one_score()
        scored = read_scored(self, rows, y, sample_weight=sample_weight)
        predicted = scored.of_labelled(self._predict(rows))
        return scored.mean_over_tasks(accuracy, scored.labels, predicted)

    def _check_has_one_score(self) -> None:
        if "regression" in self.kinds_:
            numbers = [k == "regression" for k in self.kinds_]
            raise ValueError(
                f"`score` must be of tasks that all predict classes: got {shown_names(self.tasks_[numbers])} "
                f"with kinds='regression'. Score the tasks of each kind by what `predict` says."
            )

    def _encode_labels(
        self, labels: "NDArray[Any]", task: "NDArray[np.int64]", *, weight: "NDArray[np.float64]"
    ) -> EncodedLabels:
        kinds = kinds_of_tasks(getattr(self, "kinds", None), self.tasks_)
        found = find_classes(labels, task, kinds=kinds, classes=self.classes)
        self.classes_, self.classes_of_ = found.as_attribute(), found.of_tasks
        self.has_own_classes_, self.kinds_ = found.are_own, kinds
        if found.are_mixed and self.classes is None:
            self._note(
                f"Tasks have different classes with some in common, so all {len(found.known)} classes are "
                f"shared by all tasks. `classes='per-task'` keeps them apart; `classes='shared'` says that "
                f"it is meant."
            )
        self._set_multi_class(found.n_largest)
        return found.encode(labels, task, weight=weight, class_weight=self.class_weight)

    def _set_multi_class(self, n_classes: int) -> None:
        """Set how the classes are told apart, and say so where it is not by one loss."""
        if n_classes <= N_BINARY:
            self.multi_class_ = "binary"
        elif self.multi_class == "softmax" and getattr(self, "loss", "logistic") == "logistic":
            self.multi_class_ = "softmax"
        else:
            self.multi_class_ = "one-vs-rest"
            self._note(
                f"{n_classes} classes are told apart one-vs-rest: there is one problem per class, and the "
                f"largest score wins."
            )


def _best(scores: "NDArray[np.float64]", n_classes: int) -> "NDArray[np.int64]":
    """The position of the predicted class."""
    if n_classes <= N_BINARY:
        return (scores[:, 0] > 0).astype(np.int64) * (n_classes - 1)
    return scores[:, :n_classes].argmax(axis=1)
