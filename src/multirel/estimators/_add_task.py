"""One more task for a fitted estimator, from few labels, with all else fixed."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.utils.validation import check_is_fitted

from multirel.estimators._class_weights import check_class_weight, class_factors
from multirel.estimators._columns import objects, without_objects
from multirel.estimators._features import read_features
from multirel.estimators._fit_linear import targets_of
from multirel.estimators._linear._covariance_factors import CovarianceFactors
from multirel.estimators._linear._new_task import NewTask, NewTaskSolution, solve_new_task
from multirel.estimators._model import LinearModel
from multirel.estimators._new_task_priors import KnownTasks, Rule, TaskPrior
from multirel.estimators._numbers import as_numbers
from multirel.estimators._sample_weights import read_sample_weight
from multirel.estimators._targets import labels_of, positions_in
from multirel.estimators._task_labels import read_tasks
from multirel.exceptions import ConvergenceWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["add_task"]

EDGE = 1e-9
"""How close to 0 and 1 a share may come."""


def add_task(estimator: Any, X: Any, y: Any, *, name: Any, sample_weight: Any) -> None:
    """Learn a task that was not in `fit`, and add it to all that the estimator has learned by task.

    Args:
        estimator: The fitted estimator.
        X: Features of the new task's rows.
        y: Their labels.
        name: The name of the task.
        sample_weight: What every row counts.

    Raises:
        ValueError: If the estimator has no linear models, the name is taken, or rows do not fit.
    """
    check_is_fitted(estimator)
    _check_may_grow(estimator)
    names = read_tasks(objects([name]), n_rows=1)
    if names.tolist()[0] in estimator.tasks_.tolist():
        raise ValueError(f"`name` must be that of a new task: got {name!r}, which was fitted.")
    x, labels, weight = _read_rows(estimator, X, y, name=name, sample_weight=sample_weight)
    loss, targets, weight = _encode(estimator, labels, weight)
    total = float(weight.sum())
    if estimator.task_weighting == "equal":
        weight = weight / total
    z = (x - estimator.feature_mean_) / estimator.feature_scale_
    parts = _learn(
        estimator, z, targets, loss=loss, weight=weight, total=estimator.total_weight_ + total
    )
    coef = np.concatenate([part.weights for part in parts]) / estimator.feature_scale_
    intercepts = np.concatenate([part.intercepts for part in parts])
    _append(estimator, names, coef, intercepts - coef @ estimator.feature_mean_)
    _append_learned(estimator, [part.learned for part in parts])
    estimator.task_counts_ = np.append(estimator.task_counts_, len(labels))
    estimator.total_weight_ += 1.0 if estimator.task_weighting == "equal" else total


def _check_may_grow(estimator: Any) -> None:
    if getattr(estimator, "has_own_classes_", False) or "regression" in getattr(
        estimator, "kinds_", ()
    ):
        raise ValueError(
            "`add_task` needs tasks that all predict the same: got tasks with their own classes, or of "
            "different kinds. Fit again with the rows of the new task."
        )
    if not isinstance(estimator.model_, LinearModel) or not hasattr(estimator, "feature_scale_"):
        raise ValueError(
            f"`add_task` needs linear models, with `hidden_sizes=()` and no backbone: got "
            f"{type(estimator).__name__} with a network. Fit again with the rows of the new task."
        )


def _read_rows(
    estimator: Any, X: Any, y: Any, *, name: Any, sample_weight: Any
) -> "tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]":
    """The rows that have a label and count, as a dense array, their labels and weights."""
    x, column = read_features(estimator, X, reset=False)
    others = [] if column is None else [other for other in column.tolist() if other != name]
    if others:
        raise ValueError(f"`X` must hold rows of the task {name!r} only: got one of {others[0]!r}.")
    labels, has_label = labels_of(y, missing_label=estimator.missing_label)
    if labels.shape != (x.shape[0],):
        raise ValueError(
            f"`y` must hold a label per row of X: expected shape {(x.shape[0],)}, got {labels.shape}."
        )
    weight = read_sample_weight(sample_weight, x)
    kept = has_label & (weight > 0)
    if not kept.any():
        raise ValueError(
            f"`y` must hold a label that counts: got none in {len(kept)} rows. A task without labels is "
            f"given to `fit`, with NaN as its labels."
        )
    x = x[kept]
    return (x.toarray() if sparse.issparse(x) else x), labels[kept], weight[kept]


def _encode(
    estimator: Any, labels: "NDArray[Any]", weight: "NDArray[np.float64]"
) -> "tuple[Any, NDArray[np.float64], NDArray[np.float64]]":
    """The loss, the targets, and weights with those of the classes."""
    if not hasattr(estimator, "classes_"):
        return (*targets_of(estimator, None, as_numbers(labels)), weight)
    classes = estimator.classes_
    labels = without_objects(labels)
    strangers = [label for label in labels.tolist() if label not in set(classes.tolist())]
    if strangers:
        raise ValueError(
            f"`y` must hold classes of `fit`: expected some of {', '.join(map(repr, classes.tolist()))}, "
            f"got {strangers[0]!r}."
        )
    position = positions_in(classes, labels)
    check_class_weight(estimator.class_weight, classes.tolist())
    weight = weight * class_factors(estimator.class_weight, classes, position, weight=weight)
    return (*targets_of(estimator, len(classes), position), weight)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Learned:
    """What is learned about outputs of the new task, of features as they were standardized."""

    weights: "NDArray[np.float64]"
    intercepts: "NDArray[np.float64]"
    learned: "NDArray[np.float64] | None" = None


def _learn(
    estimator: Any,
    z: "NDArray[np.float64]",
    targets: "NDArray[np.float64]",
    *,
    loss: Any,
    weight: "NDArray[np.float64]",
    total: float,
) -> list[_Learned]:
    """The outputs of the new task: all at once, or each on its own in one-vs-rest."""
    n_outputs = targets.shape[1]
    is_apart = estimator.multi_class == "one-vs-rest"
    groups = [[c] for c in range(n_outputs)] if is_apart else [[*range(n_outputs)]]
    # Methods whose tasks have parts of their own relate what is shared.
    known = getattr(estimator, "shared_coef_", estimator.coef_)[estimator.task_counts_ > 0]
    parts = []
    for outputs in groups:
        tasks = KnownTasks(
            weights=known[:, outputs] * estimator.feature_scale_,
            total_weight=1.0 if estimator.task_weighting == "equal" else total,
        )
        problem = NewTask(
            design=np.zeros((len(z), len(outputs), 0)),
            offset=np.zeros((len(z), len(outputs))),
            targets=targets[:, outputs],
            coefficients=weight,
            loss=loss,
            strength=0.0,
        )
        rule = estimator._rule_of_new_task(estimator, tasks)
        parts.append(_search(estimator, rule, z, problem=problem))
    return parts


def _search(estimator: Any, rule: Rule, z: "NDArray[np.float64]", *, problem: NewTask) -> _Learned:
    """The weights and intercepts under the best share, if the prior depends on one."""
    share = 0.5
    if rule.is_searched:
        found = minimize_scalar(
            lambda share: _solve(estimator, rule.prior(share), z, problem=problem)[2],
            bounds=(EDGE, 1 - EDGE),
            method="bounded",
            options={"xatol": EDGE},
        )
        share = float(found.x)
    weights, solution, _ = _solve(estimator, rule.prior(share), z, problem=problem)
    if solution.gap > estimator.tolerance:
        warnings.warn(
            f"{type(estimator).__name__} stopped with a relative gap of {solution.gap:.1e} for the new "
            f"task, above `tolerance` {estimator.tolerance:.1e}. Scale the features, or raise the strength.",
            ConvergenceWarning,
            stacklevel=2,
        )
    intercepts = solution.intercepts
    if not rule.has_intercept:
        intercepts = estimator.intercept_[0] + estimator.coef_[0] @ estimator.feature_mean_
    learned = None if rule.learned is None else rule.learned(share, weights[0])
    return _Learned(weights=weights, intercepts=intercepts, learned=learned)


def _solve(
    estimator: Any, prior: TaskPrior, z: "NDArray[np.float64]", *, problem: NewTask
) -> "tuple[NDArray[np.float64], NewTaskSolution, float]":
    """The weights under a prior, what else is known about them, and the objective."""
    design, compose = _design(prior, z)
    task = replace(problem, design=design, offset=z @ prior.mean.T, strength=prior.strength)
    solution = solve_new_task(task, tolerance=estimator.tolerance)
    weights = prior.mean + compose(solution.values)
    return weights, solution, solution.objective + prior.constant


def _design(
    prior: TaskPrior, z: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], Callable[[NDArray[np.float64]], NDArray[np.float64]]]":
    """How the outputs depend on unknowns with a ridge penalty, and the weights that these stand for."""
    basis, n_outputs = prior.basis, len(prior.mean)
    if basis is not None:
        return np.einsum("kcf,nf->nck", basis, z), lambda v: np.tensordot(v, basis, axes=1)
    each = np.eye(n_outputs)
    left = each if prior.output is None else _root(prior.output, each)
    rows, values, right = np.linalg.svd(_root(prior.input, z), full_matrices=False)
    inside = values > values.max(initial=0.0) * max(z.shape) * np.finfo(np.float64).eps
    rows, right = rows[:, inside] * values[inside], right[inside]

    def compose(v: "NDArray[np.float64]") -> "NDArray[np.float64]":
        return _root(prior.input, left @ v.reshape(n_outputs, -1) @ right)

    return np.einsum("cd,nr->ncdr", left, rows).reshape(len(z), n_outputs, -1), compose


def _root(factors: CovarianceFactors, rows: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Rows times the square root of a covariance."""
    outside = np.sqrt(factors.outside)
    inside = np.sqrt(factors.inside) - outside
    result: NDArray[np.float64] = (
        rows * outside + ((rows @ factors.basis) * inside) @ factors.basis.T
    )
    return result


def _append(
    estimator: Any,
    names: "NDArray[Any]",
    coef: "NDArray[np.float64]",
    intercepts: "NDArray[np.float64]",
) -> None:
    """Add a task to everything that has an entry per task."""
    known = estimator.tasks_
    is_alike = known.dtype.kind == names.dtype.kind
    estimator.tasks_ = (
        np.concatenate([known, names]) if is_alike else objects([*known.tolist(), *names.tolist()])
    )
    estimator.coef_ = np.concatenate([estimator.coef_, coef[None]])
    estimator.intercept_ = np.concatenate([estimator.intercept_, intercepts[None]])
    estimator.model_ = LinearModel(
        estimator.coef_, estimator.intercept_, is_one_vs_rest=estimator.model_.is_one_vs_rest
    )
    for name in ("classes_of_", "kinds_"):
        if hasattr(estimator, name):
            setattr(estimator, name, (*getattr(estimator, name), getattr(estimator, name)[0]))
    # Rows that bootstrap samples are drawn from are those of the other tasks only.
    estimator.__dict__.pop("_rows_of_fit", None)


def _append_learned(estimator: Any, learned: "list[NDArray[np.float64] | None]") -> None:
    """Add a task to the parts of weights, and to relations, which are NaN where they are not learned."""
    found = [value for value in learned if value is not None]
    if hasattr(estimator, "shared_coef_"):
        shared = np.stack(found) / estimator.feature_scale_
        own = estimator.coef_[-1] - shared
        estimator.shared_coef_ = np.concatenate([estimator.shared_coef_, shared[None]])
        estimator.outlier_coef_ = np.concatenate([estimator.outlier_coef_, own[None]])
    if hasattr(estimator, "relations_"):
        relations = estimator.relations_
        if found:
            average = np.mean(found, axis=0) * len(found[0])
            values, basis = np.linalg.eigh(average)
            task = CovarianceFactors(basis=basis, inside=values.clip(min=0), outside=0.0)
            relations = replace(relations, task=task)
        has_rows = np.append(relations.has_rows, bool(found))
        estimator.relations_ = replace(relations, has_rows=has_rows)
