"""Candidates of a search, gathered by what they have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import _safe_indexing

from multirel.estimators._columns import as_array
from multirel.estimators._fit_input import read_fit_input
from multirel.estimators._network_images import is_frozen, make_backbone, with_features
from multirel.estimators._sample_weights import read_sample_weight
from multirel.estimators._search_scores import choose_metric
from multirel.estimators._search_split import Group
from multirel.estimators._settings import check_settings
from multirel.estimators._task_rows import TaskRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SearchData", "make_groups"]

READ_SETTINGS = (
    "task_column",
    "task_weighting",
    "class_weight",
    "classes",
    "kinds",
    "missing_label",
    "backbone",
    "weights",
    "standardize",
    "loss",
)
"""Settings that say how rows are read, or what the problem is before any penalty."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchData:
    """What `fit` was given."""

    X: Any
    y: Any
    tasks: Any
    sample_weight: Any

    def read(self, estimator: Any) -> TaskRows:
        """The labelled rows, once the settings make sense; sets what is learned from looking."""
        check_settings(estimator)
        estimator.notes_ = ()
        return read_fit_input(
            estimator, self.X, self.y, tasks=self.tasks, sample_weight=self.sample_weight
        )

    def weights_of(self, rows: TaskRows) -> "NDArray[np.float64]":
        """What labelled rows count before classes and tasks are weighed."""
        return read_sample_weight(self.sample_weight, rows.x)[rows.source]

    def score(
        self, scoring: Callable[..., float], estimator: Any, numbers: "NDArray[np.int64]"
    ) -> float:
        """What a function of the user says of a fitted estimator and some rows.

        Args:
            scoring: Called with the estimator, X and y, and with `tasks` where these were given to `fit`.
            estimator: A fitted estimator.
            numbers: Numbers of rows of X.
        """
        x, y = (_safe_indexing(as_array(values), numbers) for values in (self.X, self.y))
        if self.tasks is None:
            return float(scoring(estimator, x, y))
        return float(scoring(estimator, x, y, tasks=_safe_indexing(self.tasks, numbers)))


def make_groups(
    candidates: Sequence[Mapping[str, Any]],
    *,
    make: Callable[[Mapping[str, Any]], Any],
    data: SearchData,
    scoring: Any,
) -> list[Group]:
    """Candidates gathered so that those that can share rows and a problem do.

    Args:
        candidates: Settings of every candidate.
        make: Gives an estimator with some settings.
        data: What `fit` was given.
        scoring: The name of a metric, None, or a function of the user.
    """
    estimators = [make(settings) for settings in candidates]
    numbers_by_key: dict[Any, list[int]] = {}
    for number, estimator in enumerate(estimators):
        # Settings may be of types without a hash; equal ones that are two objects only lose some time.
        has_layers = len(getattr(estimator, "hidden_sizes", ())) > 0
        key = (*(id(getattr(estimator, name, None)) for name in READ_SETTINGS), has_layers)
        numbers_by_key.setdefault(key, []).append(number)
    groups = []
    for numbers in numbers_by_key.values():
        order = sorted(numbers, key=lambda number: _place(estimators[number], candidates[number]))
        chosen = [estimators[number] for number in order]
        groups.append(_make_group(order, chosen, data, scoring))
    return groups


def _make_group(
    numbers: Sequence[int], estimators: Sequence[Any], data: SearchData, scoring: Any
) -> Group:
    first, *others = estimators
    rows = data.read(first)
    learned = {name: value for name, value in vars(first).items() if name.endswith("_")}
    for other in others:
        check_settings(other)
        vars(other).update(learned)
    is_logistic = getattr(first, "loss", "squared") == "logistic"
    metric = None if callable(scoring) else choose_metric(scoring, rows, is_logistic=is_logistic)
    features, backbone = _with_features(first, rows)
    return Group(
        numbers=numbers,
        estimators=estimators,
        rows=features,
        place=rows.source,
        n_rows=rows.x.shape[0],
        backbone=backbone,
        weight=data.weights_of(rows),
        metric=metric,
    )


def _with_features(estimator: Any, rows: TaskRows) -> tuple[TaskRows, Any]:
    """Rows with the features of a frozen backbone, and that backbone if the model is linear."""
    if getattr(estimator, "backbone", None) is None:
        return rows, None
    backbone = make_backbone(estimator, seed=0)
    if not is_frozen(backbone):
        return rows, None
    features = with_features(rows, backbone, device=estimator.device)
    if len(estimator.hidden_sizes) > 0:
        return features, None
    return replace(features, x=features.x.values), backbone


def _place(estimator: Any, settings: Mapping[str, Any]) -> tuple[list[str], float, str]:
    """Strengths fall within every combination of the other settings, but shrinkages share first fits."""
    others = [
        f"{name}={value!r}"
        for name, value in sorted(settings.items())
        if name not in ("strength", "shrinkage")
    ]
    return others, -float(estimator.strength), repr(settings.get("shrinkage"))
