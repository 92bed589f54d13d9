"""From the arguments of `train` to a run: checks, rows held out, optimizer and sampler."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch import nn

from multirel.priors import Penalty
from multirel.training._callbacks import TrainingState
from multirel.training._checkpoints import Checkpoint
from multirel.training._early_stopping import EarlyStopping
from multirel.training._history import History
from multirel.training._hold_out import hold_out
from multirel.training._loss_meter import LossMeter
from multirel.training._losses import ClassWeight, Loss, Losses
from multirel.training._optimizers import build_optimizer, check_trained
from multirel.training._recipe import Recipe
from multirel.training._rows import Rows
from multirel.training._run import Run
from multirel.training._sampling import TaskSampler
from multirel.training._world import World

__all__ = ["check_forward", "check_penalties", "start_run"]


def start_run(
    network: nn.Module,
    rows: Rows,
    *,
    recipe: Recipe,
    penalties: Sequence[Penalty],
    losses: Loss | Mapping[int, Loss],
    class_weight: ClassWeight,
    validation: Rows | None,
    new_layers: Sequence[str] | None,
    checkpoint: Checkpoint | None,
    world: World,
) -> Run:
    """The run that the arguments of `train` describe, before its first step."""
    _check_types(network, recipe, penalties=penalties, checkpoint=checkpoint, world=world)
    rows, validation = _divide(rows, validation, recipe)
    module = world.module(network)
    check_trained(module, recipe.trained)
    sampler = _new_sampler(recipe, rows)
    history = _new_history(recipe, sampler, rows)
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    return Run(
        state=TrainingState(
            network=module,
            optimizer=build_optimizer(module, recipe, penalties=penalties, new_layers=new_layers),
            penalties=tuple(penalties),
            history=history,
            n_steps=recipe.count_steps(sampler.steps_per_epoch),
        ),
        network=network,
        rows=rows,
        validation=validation,
        recipe=recipe,
        losses=Losses(losses, n_tasks=rows.n_tasks, class_weight=class_weight),
        sampler=sampler,
        stopping=EarlyStopping(recipe.patience),
        meter=LossMeter(history, device, checkpoint=checkpoint),
        checkpoint=checkpoint,
        world=world,
        device=device,
    )


def _new_sampler(recipe: Recipe, rows: Rows) -> TaskSampler:
    return TaskSampler(
        rows.task, batch_size=recipe.batch_size, policy=recipe.sampling, seed=recipe.seed
    )


def _new_history(recipe: Recipe, sampler: TaskSampler, rows: Rows) -> History:
    return History(
        recipe=recipe.to_dict(),
        sampling=sampler.describe(),
        n_samples=rows.n_samples,
        steps_per_epoch=sampler.steps_per_epoch,
    )


def _check_types(network: Any, recipe: Any, *, penalties: Any, checkpoint: Any, world: Any) -> None:
    """Raise a TypeError unless the arguments of `train` are what they should be."""
    kinds = {
        "network": (network, nn.Module, "Write it as a module with forward(x, task)"),
        "recipe": (recipe, Recipe, "Write Recipe(…) or Recipe.preset(…)"),
        "world": (world, World, "Write DistributedWorld()"),
    }
    if checkpoint is not None:
        kinds["checkpoint"] = (checkpoint, Checkpoint, "Write Checkpoint(folder)")
    for name, (value, kind, advice) in kinds.items():
        if not isinstance(value, kind):
            raise TypeError(
                f"`{name}` must be a {kind.__name__}: got {type(value).__name__}. {advice}."
            )
    check_penalties(penalties)
    if checkpoint is not None and world.rank == 0:
        checkpoint.check_folder()


def check_forward(network: nn.Module) -> None:
    """Raise a TypeError unless `network` can be called with rows and their tasks."""
    forward = signature(network.forward)
    try:
        forward.bind("x", "task")
    except TypeError as error:
        raise TypeError(
            f"`network` must be called as network(x, task): got {type(network).__name__} with "
            f"forward{forward}. Wrap it in a module whose forward takes both."
        ) from error


def check_penalties(penalties: Any) -> None:
    """Raise unless these are penalties, each of them once."""
    if isinstance(penalties, Penalty):
        raise TypeError(
            f"`penalties` must be a sequence: got one {type(penalties).__name__}. Write "
            f"penalties=[prior]."
        )
    for penalty in penalties:
        if not isinstance(penalty, Penalty):
            raise TypeError(
                f"`penalties` must be penalties, such as `attach_prior` makes: got "
                f"{type(penalty).__name__}. See `multirel.priors.Penalty`."
            )
    if len({id(penalty) for penalty in penalties}) < len(penalties):
        raise ValueError("`penalties` must have each penalty once: got one of them twice.")
    seen: set[int] = set()
    for penalty in penalties:
        for stack in getattr(penalty, "stacks", ()):
            if not seen.isdisjoint(map(id, stack.parameters)):
                raise ValueError(
                    f"`penalties` must have one prior per layer: got two on {stack.layer!r}. Name other "
                    f"layers in one of them."
                )
            seen.update(map(id, stack.parameters))


def _check_rows(rows: Any, validation: Any) -> None:
    for name, value in (("rows", rows), ("validation", validation)):
        if not isinstance(value, Rows) and not (name == "validation" and value is None):
            raise TypeError(
                f"`{name}` must be TrainingRows or DatasetRows: got {type(value).__name__}. Wrap data as "
                f"TrainingRows(x, y, task)."
            )


def _divide(rows: Rows, validation: Rows | None, recipe: Recipe) -> tuple[Rows, Rows | None]:
    """Rows with labels to train on, and those held out."""
    _check_rows(rows, validation)
    if validation is not None and recipe.validation_fraction > 0:
        raise ValueError(
            f"`validation_fraction` must be 0 where `validation` is given: got "
            f"{recipe.validation_fraction}."
        )
    labelled = _with_labels("rows", rows)
    if recipe.validation_fraction > 0:
        labelled, validation = hold_out(
            labelled, fraction=recipe.validation_fraction, seed=recipe.seed
        )
        labelled = _with_labels("rows", labelled)
    if recipe.patience is not None and validation is None:
        raise ValueError(
            f"`patience` must come with rows held out: got patience={recipe.patience} and none. Set "
            f"`validation_fraction`, or give `validation`."
        )
    if validation is not None:
        validation = _with_labels("validation", validation)
        if validation.n_tasks > labelled.n_tasks:
            raise ValueError(
                f"`validation` must have no more tasks than `rows`: expected {labelled.n_tasks}, got "
                f"{validation.n_tasks}."
            )
    return labelled, validation


def _with_labels(name: str, rows: Rows) -> Rows:
    labelled = rows.without_missing()
    if len(labelled) == 0 or not labelled.n_samples > 0:
        raise ValueError(
            f"`{name}` must have a row with a label and a weight above 0: got none in {len(rows)} rows. "
            f"Training needs labels."
        )
    return labelled
