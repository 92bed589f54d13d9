"""Estimators that choose their settings by cross-validation on the rows of `fit`."""

import os
import sys
import warnings
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from multirel.estimators._averaging import average_models
from multirel.estimators._fit_linear import build_problem
from multirel.estimators._model import LinearModel
from multirel.estimators._network_plan import uses_network
from multirel.estimators._saved_estimator import save_estimator
from multirel.estimators._search_folds import make_splits
from multirel.estimators._search_grid import (
    Grid,
    LinearGrid,
    depths,
    iter_settings,
    network_grid,
)
from multirel.estimators._search_groups import SearchData, make_groups
from multirel.estimators._search_results import Selection, choose, table_of
from multirel.estimators._search_split import Group, Outcome, fit_all, run_split
from multirel.exceptions import MultirelWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SearchedEstimator"]

Search = TypeVar("Search", bound="SearchedEstimator")

SELECTIONS = ("best", "one-se", "average")


def _has(name: str) -> Callable[["SearchedEstimator"], bool]:
    """Whether the estimator that is searched for has a method; raises its own words if not."""

    def check(search: "SearchedEstimator") -> bool:
        getattr(search._make({}), name)
        return True

    return check


class SearchedEstimator(BaseEstimator, ABC):
    """An estimator that chooses its settings by itself: the interface of all twins.

    Settings of the estimator that `grid` does not name stay as they are given. Everything that the chosen
    estimator has learned, and every method that it has, is there under the same name.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__predict_log_proba: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"tasks": True}

    _estimator_class: ClassVar[type[Any]]
    _linear_grid: ClassVar[LinearGrid]

    grid: Grid | None
    cv: Any
    n_repeats: Any
    scoring: Any
    selection: Selection
    n_jobs: int | None

    def fit(
        self: Search, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None
    ) -> Search:
        """The estimator itself, with settings chosen by cross-validation and then fitted to all rows.

        Args:
            X: Features, as in `fit` of the estimator.
            y: A label per row, or a column of labels per task.
            tasks: The task of every row.
            sample_weight: What every row counts, in fits and in scores.

        Raises:
            ValueError: If something does not fit; the message says what.
        """
        self._check()
        data = SearchData(X=X, y=y, tasks=tasks, sample_weight=sample_weight)
        candidates = self._candidates(data)
        groups = make_groups(candidates, make=self._make, data=data, scoring=self.scoring)
        splits, protocol = make_splits(
            self.cv, groups[0], n_repeats=self.n_repeats, random_state=self.random_state
        )
        outcomes = self._run(groups, splits, data)
        self.cv_protocol_ = {**protocol, "n_splits": len(outcomes)}
        self.cv_results_ = table_of(candidates, outcomes)
        self.best_index_, chosen = choose(self.cv_results_, self.selection)
        self.best_params_ = dict(candidates[self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        begin = perf_counter()
        self.best_estimator_ = _refit(groups, self.best_index_, chosen)
        self.refit_time_ = perf_counter() - begin
        self.averaged_ = chosen
        return self

    def _check(self) -> None:
        if self.selection not in SELECTIONS:
            known = ", ".join(map(repr, SELECTIONS))
            raise ValueError(f"`selection` must be one of {known}: got {self.selection!r}.")
        if not isinstance(self.n_repeats, int) or self.n_repeats < 1:
            raise ValueError(f"`n_repeats` must be a whole number above 0: got {self.n_repeats!r}.")
        if self.scoring is not None and not (
            isinstance(self.scoring, str) or callable(self.scoring)
        ):
            raise ValueError(
                f"`scoring` must be None, the name of a metric, or a function of an estimator, X and y: got "
                f"{self.scoring!r}."
            )

    def _make(self, settings: Mapping[str, Any]) -> Any:
        """An estimator with these settings, and with those of this one elsewhere."""
        names = [field.name for field in fields(self._estimator_class)]
        given = {name: getattr(self, name) for name in names}
        several = depths(given.get("hidden_sizes", ()))
        if several is not None:
            given["hidden_sizes"] = several[0]
        return self._estimator_class(**{**given, **settings})

    def _candidates(self, data: SearchData) -> list[dict[str, Any]]:
        """The settings of all candidates."""
        several = depths(getattr(self, "hidden_sizes", ()))
        shapes = [{}] if several is None else [{"hidden_sizes": [sizes]} for sizes in several]
        if self.grid is None:
            maps = [
                {**shape, **one}
                for shape in shapes
                for one in _mappings(self._default_grid(shape, data))
            ]
        else:
            maps = [{**shape, **one} for shape in shapes for one in _mappings(self.grid)]
        names = [field.name for field in fields(self._estimator_class)]
        return list(iter_settings(maps, known=names))

    def _default_grid(self, shape: Mapping[str, Any], data: SearchData) -> Grid:
        estimator = self._make({name: values[0] for name, values in shape.items()})
        rows = data.read(estimator)
        if uses_network(estimator) or not rows.is_alike:
            # A linear model behind a backbone is tried at as many strengths as a network.
            return network_grid(estimator, rows)
        grid = type(self)._linear_grid(estimator, build_problem(estimator, rows)[0])
        return [self._without_given(one) for one in _mappings(grid)]

    def _without_given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of a default grid, without those of settings that the user has given."""
        defaults = {field.name: field.default for field in fields(self._estimator_class)}
        is_free = {name: _is_same(getattr(self, name), defaults[name]) for name in values}
        return {
            name: several for name, several in values.items() if name == "strength" or is_free[name]
        }

    def _run(
        self, groups: Sequence[Group], splits: "Sequence[Any]", data: SearchData
    ) -> list[list[Outcome]]:
        """The outcomes of all candidates, for every split."""
        user_score = partial(data.score, self.scoring) if callable(self.scoring) else None
        if self.n_jobs is not None and self.n_jobs != 1:
            run = delayed(run_split)
            return Parallel(n_jobs=self.n_jobs)(
                run(groups, split, user_score=user_score) for split in splits
            )
        outcomes: list[list[Outcome]] = []
        try:
            for number, split in enumerate(splits, start=1):
                begin = perf_counter()
                outcomes.append(run_split(groups, split, user_score=user_score))
                self._tell(f"split {number} of {len(splits)}: {perf_counter() - begin:.1f} s")
        except KeyboardInterrupt:
            if not outcomes:
                raise
            warnings.warn(
                f"{type(self).__name__} was interrupted: settings are chosen by {len(outcomes)} of "
                f"{len(splits)} splits.",
                MultirelWarning,
                stacklevel=3,
            )
        return outcomes

    def _tell(self, words: str) -> None:
        if self.verbose:
            print(f"{type(self).__name__}: {words}", file=sys.stderr)

    def predict(self, X: Any, *, tasks: Any = None) -> "NDArray[Any]":
        """What the chosen estimator predicts.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row.
        """
        return self._chosen().predict(X, tasks=tasks)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any, *, tasks: Any = None) -> "NDArray[np.float64]":
        """Probabilities of the classes by the chosen estimator.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row.
        """
        return self._chosen().predict_proba(X, tasks=tasks)

    @available_if(_has("predict_log_proba"))
    def predict_log_proba(self, X: Any, *, tasks: Any = None) -> "NDArray[np.float64]":
        """Logarithms of `predict_proba`.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row.
        """
        return self._chosen().predict_log_proba(X, tasks=tasks)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any, *, tasks: Any = None) -> "NDArray[np.float64]":
        """Scores of the classes by the chosen estimator.

        Args:
            X: Features, as in `fit`.
            tasks: The task of every row.
        """
        return self._chosen().decision_function(X, tasks=tasks)

    def score(self, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None) -> float:
        """The score of the chosen estimator, whatever metric the settings were chosen by.

        Args:
            X: Features, as in `fit`.
            y: The truth.
            tasks: The task of every row.
            sample_weight: What every row counts.
        """
        return self._chosen().score(X, y, tasks=tasks, sample_weight=sample_weight)

    def add_task(self: Search, X: Any, y: Any, *, name: Any, sample_weight: Any = None) -> Search:
        """The estimator itself, with one more task that the chosen estimator learns, all else fixed.

        Args:
            X: Features of the new task's rows, as in `fit`.
            y: Their labels.
            name: The name of the task; it comes last in `tasks_`.
            sample_weight: What every row counts.
        """
        self._chosen().add_task(X, y, name=name, sample_weight=sample_weight)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the search and the chosen estimator into a folder, from which `load_estimator` reads them.

        Args:
            path: The folder, which is made if need be; a model that is there is replaced, all of it or
                nothing.
        """
        save_estimator(self, path)

    def _chosen(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def __getattr__(self, name: str) -> Any:
        # Private names are asked for by copying and pickling, when there are no attributes yet.
        chosen = None if name.startswith("_") else vars(self).get("best_estimator_")
        if chosen is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(chosen, name)

    def __sklearn_tags__(self) -> Tags:
        return self._make({}).__sklearn_tags__()


def _is_same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _mappings(grid: Any) -> list[Mapping[str, Any]]:
    """A grid as a list of mappings."""
    if isinstance(grid, Mapping):
        return [grid]
    if isinstance(grid, Sequence) and all(isinstance(one, Mapping) for one in grid):
        return list(grid)
    raise ValueError(
        f"`grid` must be a mapping from settings to values, or a list of such: got {grid!r}."
    )


def _refit(groups: Sequence[Group], best: int, chosen: "NDArray[np.int64]") -> Any:
    """The best candidate fitted to all rows, with the average of the models of all that are chosen."""
    fitted: dict[int, Any] = {}
    for group in groups:
        fitted |= fit_all(group, [best, *chosen.tolist()])
    estimator = fitted[best]
    if len(chosen) > 1:
        rows = groups[0].rows
        estimator.model_ = average_models(
            [fitted[number].model_ for number in chosen.tolist()],
            sizes=[0 if classes is None else len(classes) for classes in rows.classes_of],
            is_logistic=getattr(estimator, "loss", "squared") == "logistic",
        )
        if isinstance(estimator.model_, LinearModel):
            estimator.coef_ = estimator.model_.weights
            estimator.intercept_ = estimator.model_.intercepts
    return estimator
