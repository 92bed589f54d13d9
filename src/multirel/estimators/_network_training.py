"""Training a network in rounds: at the start correlation, and again once the covariances are known."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn

from multirel.estimators._network_build import prefix_of, task_layers
from multirel.estimators._network_penalties import ComposedRidge, Ridge, weights_to_shrink
from multirel.estimators._network_plan import NetworkPlan
from multirel.networks import FactorizedTaskLinear, MultitaskNetwork
from multirel.priors import Penalty, TensorNormalPrior, attach_prior
from multirel.training import Callback, History, Losses, Recipe, Rows, TrainingState, train
from multirel.training._losses import Loss

__all__ = ["Trained", "Training", "mean_loss", "prior_layers", "train_in_rounds", "train_once"]

STEPS_BETWEEN_UPDATES = 100
"""Steps between two covariance updates where these run on, as in the paper."""

FEWEST_UPDATES = 20
"""Updates that a short training makes nonetheless."""

ROWS_PER_BATCH = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """What all trainings of one fit have in common."""

    plan: NetworkPlan
    """The method."""

    rows: Rows
    """Rows of the tasks that have labels, numbered without the others."""

    losses: Mapping[int, Loss]
    """The loss of every task."""

    recipe: Recipe
    """How to train."""

    strength: float
    """The multiplier λ."""

    divisor: float
    """What λ is divided by: N."""

    is_alike: bool
    """Whether all tasks predict the same."""

    progress: bool
    """Whether to show progress."""

    @property
    def ridge(self) -> float:
        """The rate of the penalty on weights without a prior."""
        strength = self.plan.ridge
        if strength is None:
            strength = (self.plan.prior or {}).get("strength", self.strength)
        return float(strength) / self.divisor


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A network after training."""

    network: nn.Module
    """The network."""

    prior: TensorNormalPrior | None
    """Its prior."""

    penalties: Sequence[Penalty]
    """All of its penalties, the prior among them."""

    history: History
    """What happened in the last training."""

    n_steps: int
    """Steps of all trainings."""

    is_complete: bool
    """Whether nobody interrupted it."""


class _Watch(Callback):
    """Remembers where training is, for one that is interrupted."""

    state: TrainingState | None = None

    def on_train_start(self, state: TrainingState) -> None:
        self.state = state


def prior_layers(
    plan: NetworkPlan, layers: MultitaskNetwork | None, *, is_alike: bool
) -> list[str]:
    """The names of the task-specific layers that a method's prior is on.

    Args:
        plan: The method.
        layers: The layers; None where there is one network for all tasks.
        is_alike: Whether all tasks predict the same; if not, the output layer has no prior.

    Raises:
        ValueError: If there is a prior that relates tasks, and no layer for it.
    """
    if plan.prior is None or layers is None:
        return []
    *hidden, output = layers.heads
    names = hidden if plan.layers in ("all", "hidden") else []
    if plan.layers in ("all", "output") and is_alike:
        names = [*names, output]
    if not names and plan.relates_tasks:
        if plan.layers == "hidden" or (plan.layers == "all" and not is_alike):
            raise ValueError(
                "`hidden_sizes` must have a layer to relate: the output layer has no prior where tasks have "
                "different classes or kinds, or with layers='hidden'. Use `hidden_sizes=(256,)`."
            )
        raise ValueError(
            f"`layers` must be 'all' where tasks have different classes or kinds: got {plan.layers!r}, and "
            f"no task-specific layer before the output."
        )
    return names


def train_in_rounds(training: Training, network: nn.Module) -> Trained:
    """The network trained at the start correlation, and after every update once more from its first weights.

    Interrupted in the first round it stays as it is then; later, it goes back to the end of the round before.

    Args:
        training: How to train.
        network: The network; its weights change.
    """
    initial = deepcopy(network.state_dict())
    n_rounds = training.plan.n_updates or 0
    done = train_once(training, network, _attach(training, network))
    for number in range(n_rounds if done.prior is not None else 0):
        if done.is_complete:
            done = _train_again(training, done, initial=initial, n_updates=number + 1)
    return done


def _train_again(
    training: Training, done: Trained, *, initial: Mapping[str, Tensor], n_updates: int
) -> Trained:
    network = done.network
    kept = deepcopy(network.state_dict())
    try:
        state = _updated_covariances(done.prior, n_updates)
        network.load_state_dict(initial)
        prior = _attach(training, network)
        if prior is not None:
            prior.load_state_dict(state)
        again = train_once(training, network, prior)
        if again.is_complete:
            return replace(again, n_steps=done.n_steps + again.n_steps)
    except KeyboardInterrupt:
        pass
    network.load_state_dict(kept)
    return replace(done, is_complete=False)


def _updated_covariances(prior: TensorNormalPrior | None, n_updates: int) -> dict[str, Tensor]:
    """The state of the prior after an update, as that of a training which has not begun."""
    if prior is None:
        return {}
    prior.update()
    state = prior.state_dict()
    state["counts"] = torch.tensor([0, n_updates, 1])
    state["pending"] = torch.zeros_like(state["pending"])
    return state


def _attach(training: Training, network: nn.Module) -> TensorNormalPrior | None:
    """The prior of the method, or None where there is none or nothing to relate."""
    layers = task_layers(network)
    names = prior_layers(training.plan, layers, is_alike=training.is_alike)
    if not names or layers is None or layers.n_tasks == 1:
        return None
    settings = dict(training.plan.prior or {})
    strength = settings.pop("strength", training.strength)
    if training.plan.n_updates is None:
        steps_per_epoch = ceil(len(training.rows) / training.recipe.batch_size)
        n_steps = training.recipe.count_steps(steps_per_epoch)
        every = max(1, min(STEPS_BETWEEN_UPDATES, n_steps // FEWEST_UPDATES))
        settings.setdefault("update_every", every)
    else:
        # Between trainings, not in one.
        settings["n_updates"] = 0
    prefix = prefix_of(network)
    return attach_prior(
        network,
        [f"{prefix}heads.{name}" for name in names],
        n_samples=training.divisor,
        strength=strength,
        **settings,
    )


def train_once(
    training: Training, network: nn.Module, prior: TensorNormalPrior | None = None
) -> Trained:
    """The network after one training, which an interrupt may end.

    Args:
        training: How to train.
        network: The network; its weights change.
        prior: The prior on some of its layers.
    """
    penalties = _penalties(training, network, prior)
    watch = _Watch()
    is_complete = True
    try:
        history = train(
            network,
            training.rows,
            recipe=training.recipe,
            penalties=penalties,
            losses=training.losses,
            callbacks=[watch],
            progress=training.progress,
        )
    except KeyboardInterrupt:
        if watch.state is None:
            raise
        history, is_complete = watch.state.history, False
        network.eval()
    return Trained(
        network=network,
        prior=prior,
        penalties=penalties,
        history=history,
        n_steps=history.n_steps,
        is_complete=is_complete,
    )


def _penalties(
    training: Training, network: nn.Module, prior: TensorNormalPrior | None
) -> list[Penalty]:
    """The prior, and a ridge on all weights without one."""
    penalties: list[Penalty] = [] if prior is None else [prior]
    under_prior = [] if prior is None else [p for stack in prior.stacks for p in stack.parameters]
    weights = weights_to_shrink(network, without=under_prior)
    if weights:
        penalties.append(Ridge(weights, training.ridge))
    factorized = [layer for layer in network.modules() if isinstance(layer, FactorizedTaskLinear)]
    if factorized:
        penalties.append(ComposedRidge(factorized, training.ridge))
    return penalties


@torch.no_grad()
def mean_loss(training: Training, network: nn.Module) -> float:
    """The average loss of the training rows, in evaluation mode."""
    rows, device = training.rows, next(network.parameters()).device
    losses: Any = Losses(training.losses, n_tasks=rows.n_tasks)
    total = 0.0
    for index in torch.arange(len(rows)).split(ROWS_PER_BATCH):
        batch = rows.take(index)
        values = losses(network(batch.x.to(device), batch.task), batch.y.to(device), batch.task)
        total += float((values.double().cpu() * batch.weight).sum())
    return total / rows.n_samples
