"""Fitting a network: from rows to training, from its weights to what users see."""

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from multirel.estimators._fit_linear import fit_linear
from multirel.estimators._network_attributes import set_learned
from multirel.estimators._network_build import build_network, names_of_tasks, task_layers
from multirel.estimators._network_factorization import factorize_layers, single_task_plan
from multirel.estimators._network_images import (
    BackboneFeatures,
    BackboneModel,
    count_features,
    is_frozen,
    make_backbone,
    to_images,
    with_features,
)
from multirel.estimators._network_model import NetworkModel
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._network_rows import InputUnits, LabelledRows, find_units
from multirel.estimators._network_targets import NetworkTargets, encode_targets
from multirel.estimators._network_tasks import AllTasks, plan_of_tasks, with_all_tasks
from multirel.estimators._network_training import (
    Trained,
    Training,
    mean_loss,
    prior_layers,
    train_in_rounds,
    train_once,
)
from multirel.estimators._task_rows import TaskRows
from multirel.exceptions import MultirelWarning
from multirel.training import Recipe

__all__ = ["fit_network"]

LARGEST_SEED = 2**31 - 1

LONGEST_GRADIENT = 10.0
"""The norm to which gradients of all weights together are cut; those of the first steps are shorter."""


def fit_network(estimator: Any, rows: TaskRows, plan: NetworkPlan) -> None:
    """Train the network of an estimator, and set what it has learned.

    With a frozen backbone and no hidden layer the model of its features is linear, and fitted as such.

    Args:
        estimator: The estimator.
        rows: Labelled rows, of features or of images.
        plan: How the method's network differs from those of others.

    Raises:
        ValueError: If settings do not fit the rows or one another; the message says which.

    Warns:
        MultirelWarning: If an interrupt has ended training; the network is what it was then.
    """
    if plan.sharing == "all" and not rows.is_alike:
        raise ValueError(
            "`classes` must be the same in all tasks for one network of all: got tasks with different "
            "classes or kinds. Use an estimator with heads of their own, such as SharedNetworkClassifier."
        )
    seed = int(check_random_state(estimator.random_state).randint(LARGEST_SEED))
    if estimator.backbone is None:
        _fit_layers(estimator, rows, plan, seed=seed)
        return
    if isinstance(rows.x, BackboneFeatures):
        backbone = rows.x.backbone
    else:
        backbone = make_backbone(estimator, seed=seed)
    if not is_frozen(backbone):
        _fit_layers(estimator, rows, plan, seed=seed, backbone=backbone)
        return
    rows = with_features(rows, backbone, device=estimator.device)
    rows = replace(rows, x=rows.x.values)
    if len(estimator.hidden_sizes) == 0:
        fit_linear(estimator, rows)
    else:
        _fit_layers(estimator, rows, plan, seed=seed)
    estimator.model_ = BackboneModel(backbone, estimator.model_, device=estimator.device)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Inputs:
    """What a network sees."""

    x: Tensor
    units: InputUnits | None
    n_features: int
    backbone: nn.Module | None
    source: Tensor


def _fit_layers(
    estimator: Any,
    rows: TaskRows,
    plan: NetworkPlan,
    *,
    seed: int,
    backbone: nn.Module | None = None,
) -> None:
    """Train the layers behind features, and the backbone if there is one."""
    targets = _targets(estimator, rows, plan)
    tasks = _find_tasks(rows, targets)
    inputs = _read_inputs(estimator, rows, backbone)
    network = build_network(
        plan,
        inputs.backbone,
        n_features=inputs.n_features,
        tasks=tasks.pick(tasks.names),
        n_outputs=tasks.pick(tasks.n_outputs),
        hidden_sizes=[int(size) for size in estimator.hidden_sizes],
        seed=seed,
    ).to(estimator.device)
    initial = deepcopy(network)
    layers = prior_layers(plan, task_layers(network), is_alike=rows.is_alike)
    training = Training(
        plan=plan_of_tasks(plan, tasks),
        rows=_labelled_rows(estimator, rows, tasks, inputs=inputs, targets=targets),
        losses=dict(enumerate(tasks.pick(targets.losses))),
        recipe=_recipe(estimator, seed, all_new=_starts_at_random(backbone)),
        strength=float(estimator.strength),
        divisor=getattr(rows, plan.strength_per),
        is_alike=rows.is_alike,
        progress=bool(estimator.verbose),
    )
    trained = _train(training, network)
    whole = with_all_tasks(trained.network, tasks, plan=plan, layers=layers, initial=initial)
    estimator.model_ = NetworkModel(whole, inputs.units, center=targets.center, scale=targets.scale)
    set_learned(estimator, trained, tasks, training=training, network=whole, layers=layers)
    objective = mean_loss(training, trained.network) + _penalty(trained)
    estimator.objective_ = targets.loss_scale * objective
    _warn_of_interrupt(estimator, trained)


def _targets(estimator: Any, rows: TaskRows, plan: NetworkPlan) -> NetworkTargets:
    return encode_targets(
        rows,
        loss=getattr(estimator, "loss", "squared"),
        has_task_intercepts=plan.sharing != "all" or plan.task_intercepts,
    )


def _find_tasks(rows: TaskRows, targets: NetworkTargets) -> AllTasks:
    totals = np.bincount(rows.task, weights=rows.weight, minlength=rows.n_tasks)
    return AllTasks(
        names=names_of_tasks(rows.tasks.tolist()),
        n_outputs=targets.n_outputs,
        kinds=rows.kinds,
        labelled=np.flatnonzero(totals > 0),
    )


def _warn_of_interrupt(estimator: Any, trained: Trained) -> None:
    if not trained.is_complete:
        warnings.warn(
            f"{type(estimator).__name__} was interrupted after {trained.n_steps} steps of training. "
            f"What it had learned by then is kept; fit again to train to the end.",
            MultirelWarning,
            stacklevel=6,
        )


def _read_inputs(estimator: Any, rows: TaskRows, backbone: nn.Module | None) -> _Inputs:
    """The rows of x that have labels, as the network sees them, on its device."""
    some, source = np.unique(rows.source, return_inverse=True)
    if backbone is not None:
        x = to_images(backbone, rows.x[some])
        n_features = count_features(backbone, rows.x[some[:1]])
        units = None
    else:
        units = find_units(rows, standardize=estimator.standardize)
        x = torch.from_numpy(units.apply(rows.x[some]).astype(np.float32))
        n_features = x.shape[1]
    return _Inputs(
        x=x.to(estimator.device),
        units=units,
        n_features=n_features,
        backbone=backbone,
        source=torch.from_numpy(source.astype(np.int64)),
    )


def _labelled_rows(
    estimator: Any, rows: TaskRows, tasks: AllTasks, *, inputs: _Inputs, targets: NetworkTargets
) -> LabelledRows:
    """The rows of the tasks with labels, whose numbers leave out the others."""
    position = np.zeros(rows.n_tasks, dtype=np.int64)
    position[tasks.labelled] = np.arange(len(tasks.labelled))
    kept = np.flatnonzero(rows.weight > 0)
    index = torch.from_numpy(kept)
    return LabelledRows(
        inputs.x,
        inputs.source[index],
        targets.y[index].to(estimator.device),
        task=torch.from_numpy(position[rows.task[kept]]),
        weight=torch.from_numpy(rows.weight[kept]),
        n_tasks=len(tasks.labelled),
    )


def _starts_at_random(backbone: nn.Module | None) -> bool:
    """Whether nothing has been trained before: there is no backbone, or one without a weight file."""
    return backbone is None or getattr(backbone, "weights_checksum", "") is None


def _recipe(estimator: Any, seed: int, *, all_new: bool) -> Recipe:
    """How all methods train.

    The learning rate is that of layers that were trained before. Those that start from random weights have a
    multiple of it, also where there are no others. A gradient that explodes, as that of factors may, is cut.
    """
    multiple = Recipe().new_layer_multiplier if all_new else 1.0
    return Recipe(
        learning_rate=float(estimator.learning_rate) * multiple,
        batch_size=int(estimator.batch_size),
        max_epochs=int(estimator.max_epochs),
        seed=seed,
        clip_norm=LONGEST_GRADIENT,
    )


def _train(training: Training, network: nn.Module) -> Trained:
    """The trained network; a factorized one starts from single-task weights."""
    plan = training.plan
    if plan.factorization is None:
        return train_in_rounds(training, network)
    # An error in the settings shows before training.
    factorize_layers(network, plan, is_alike=training.is_alike)
    first = train_once(replace(training, plan=single_task_plan(plan)), network)
    if not first.is_complete:
        return first
    factorized = factorize_layers(network, plan, is_alike=training.is_alike)
    second = train_once(training, factorized)
    return replace(second, n_steps=first.n_steps + second.n_steps)


def _penalty(trained: Trained) -> float:
    """The penalties at the end, with the determinants where these make an objective."""
    total = 0.0
    with torch.no_grad():
        for penalty in trained.penalties:
            has_objective = penalty is trained.prior and trained.prior.settings.scale != "trace"
            value = trained.prior.objective() if has_objective and trained.prior else penalty()
            total += float(value)
    return total
