"""The training loop: batches in, gradients, optimizer, penalties, and what belongs to the end of an epoch."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import isfinite
from time import perf_counter

import torch
from torch import Tensor, nn

from multirel._annotations import Float, Int
from multirel.exceptions import NotFiniteError
from multirel.priors import Penalty
from multirel.training._callbacks import Callback, check_callbacks
from multirel.training._checkpoints import Checkpoint
from multirel.training._history import History
from multirel.training._loss_meter import explain_not_finite
from multirel.training._losses import ClassWeight, Loss
from multirel.training._optimizers import set_rate
from multirel.training._penalties import add_penalty_gradients, step_penalties
from multirel.training._progress import Report, show_progress
from multirel.training._recipe import Recipe
from multirel.training._rows import Batch, Rows
from multirel.training._run import Run
from multirel.training._start_run import check_forward, start_run
from multirel.training._surroundings import evaluating, seed_step, surroundings
from multirel.training._world import SingleProcess, World

__all__ = ["train"]


def train(
    network: nn.Module,
    rows: Rows,
    *,
    recipe: Recipe | None = None,
    penalties: Sequence[Penalty] = (),
    losses: Loss | Mapping[int, Loss] = "cross-entropy",
    class_weight: ClassWeight = None,
    validation: Rows | None = None,
    new_layers: Sequence[str] | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    progress: bool | None = None,
    world: World | None = None,
) -> History:
    """Train `network`, which comes back in evaluation mode, and the history of the training.

    A step minimizes Σ wₙ lossₙ / Σ wₙ over the rows of its batch, plus the penalties. Those with
    `application="gradient"` are in the gradient, the others act after the step of the optimizer. Rows without
    a label are left out.

    Args:
        network: What is called as `network(x, task)`, on any device; `task` stays on the CPU.
        rows: `TrainingRows` or `DatasetRows`.
        recipe: How to train; None means `Recipe()`.
        penalties: Penalties on the weights, such as the priors of `multirel.priors`.
        losses: "cross-entropy", "binary" or "squared"; or a mapping from the index of every task to one.
        class_weight: How much the rows of each class count; or a mapping from the index of a task to that.
        validation: Rows that are held out; None takes `validation_fraction` of the recipe from `rows`.
        new_layers: Names of the layers that start from random weights, such as "heads.fc8". None means all
            outside `network.backbone`, and the layers of the backbone that its weight file lacked.
        callbacks: What is called along the way.
        checkpoint: Where to save, and to go on from what has been saved there.
        progress: Whether to show progress on the error stream; None does so on a terminal.
        world: The processes that train together; None means this one alone.

    Raises:
        NotFiniteError: If the loss is NaN or infinite, or a weight at a checkpoint or at the end. On the CPU
            a loss is looked at before its step changes the weights. The last checkpoint stays as it is.
        TypeError: If an argument is of another type.
        ValueError: If there are no rows with a label, or arguments do not fit one another.

    Example:
        >>> from multirel.networks import MultitaskNetwork
        >>> from multirel.training import TrainingRows
        >>> network = MultitaskNetwork(3, ["a", "b"], n_outputs=2)
        >>> rows = TrainingRows(torch.randn(20, 3), torch.arange(20) % 2, torch.arange(20) // 10)
        >>> history = train(network, rows, recipe=Recipe(max_epochs=2, batch_size=5))
        >>> history.n_steps, history.n_epochs
        (8, 2)
    """
    check_callbacks(callbacks)
    run = start_run(
        network,
        rows,
        recipe=Recipe() if recipe is None else recipe,
        penalties=penalties,
        losses=losses,
        class_weight=class_weight,
        validation=validation,
        new_layers=new_layers,
        checkpoint=checkpoint,
        world=SingleProcess() if world is None else world,
    )
    check_forward(network)
    is_shown = progress if run.world.rank == 0 else False
    with (
        surroundings(run.recipe, run.device),
        show_progress(is_shown, n_steps=run.state.n_steps) as report,
    ):
        run.align()
        run.resume()
        run_to_the_end(run, callbacks, report)
    return run.state.history


def run_to_the_end(run: Run, callbacks: Sequence[Callback], report: Report) -> None:
    """Make steps until training is over, with all that belongs to the ends of epochs and to the last end."""
    state, checkpoint = run.state, run.checkpoint
    run.network.train()
    for callback in callbacks:
        callback.on_train_start(state)
    while not run.is_over:
        started = perf_counter()
        make_step(run)
        run.seconds_in_epoch += perf_counter() - started
        for callback in callbacks:
            callback.on_step_end(state)
        ends_epoch = _ends_epoch(run)
        if ends_epoch:
            end_epoch(run)
            for callback in callbacks:
                callback.on_epoch_end(state)
        if checkpoint is not None and checkpoint.is_due(state.step, ends_epoch=ends_epoch):
            run.save()
        report(state.step, _words(run))
    finish(run)
    for callback in callbacks:
        callback.on_train_end(state)


def make_step(run: Run) -> None:
    """Draw a batch, and change the weights and the penalties once."""
    state, recipe = run.state, run.recipe
    seed_step(recipe.seed, state.step, device=run.device, rank=run.world.rank)
    rate = recipe.rate_at(state.step / state.n_steps)
    set_rate(state.optimizer, rate)
    state.history.learning_rate.append(rate)
    state.optimizer.zero_grad()
    run.meter.add(add_gradients(run, next(run.sampler)))
    if recipe.clip_norm is not None:
        run.world.clip(state.network, recipe.clip_norm)
    state.optimizer.step()
    if state.penalties:
        # What penalties draw must not depend on what this process has drawn for its own rows.
        seed_step(recipe.seed, state.step, device=run.device)
    try:
        step_penalties(state.penalties, state.optimizer)
    except Exception:
        # Weights that are not finite make a penalty fail; the losses not yet looked at say so first.
        run.meter.look()
        raise
    state.step += 1


def add_gradients(run: Run, index: Int[Tensor, "n"]) -> Float[Tensor, ""]:
    """Add the gradient of the objective over some rows, and return their average loss.

    The rows are taken in parts, if the recipe says so, whose losses are divided by the weights of all rows:
    so the parts, and the shares of several processes, add up to the gradient of the whole batch.
    """
    world = run.world
    n_parts = min(run.recipe.accumulate, max(1, len(index) // world.size))
    batch = _take_share(run.rows, index, world)
    weight = batch.weight * run.losses.class_weights(batch.y, batch.task)
    # A batch whose rows all count nothing has no gradient, rather than one of NaN.
    total = float(world.sum(weight.sum()).clamp(min=torch.finfo(weight.dtype).tiny))
    parts = replace(batch, weight=weight * (world.size / total)).split(n_parts)
    sums = []
    for number, part in enumerate(parts, start=1):
        is_last = number == n_parts
        with nullcontext() if is_last else world.without_sync(run.network):
            losses = _row_losses(run, part)
            share = (losses * part.weight.to(losses)).sum()
            if not share.requires_grad:
                raise ValueError(
                    "`network` must give outputs that depend on its weights: got a loss without a "
                    "gradient. Take `detach` and `no_grad` out of its forward pass."
                )
            share.backward()
        sums.append(share.detach())
    world.exchange(run.network)
    add_penalty_gradients(run.state.penalties)
    loss = sums[0] if n_parts == 1 else torch.stack(sums).sum()
    return loss if world.size == 1 else world.sum(loss / world.size)


def _take_share(rows: Rows, index: Tensor, world: World) -> Batch:
    """The rows of this process; where there are fewer rows than processes, one that counts nothing."""
    mine = world.share(index)
    if len(mine) > 0:
        return rows.take(mine)
    borrowed = rows.take(index[:1])
    return replace(borrowed, weight=torch.zeros_like(borrowed.weight))


def _row_losses(run: Run, batch: Batch) -> Float[Tensor, "n"]:
    """The losses of rows, by a forward pass in the precision of the recipe."""
    is_half = run.recipe.precision == "bf16"
    x = batch.x.to(run.device, non_blocking=True)
    with torch.autocast(run.device.type, torch.bfloat16, enabled=is_half):
        outputs = run.network(x, batch.task)
    return run.losses(outputs, batch.y.to(run.device, non_blocking=True), batch.task)


def _ends_epoch(run: Run) -> bool:
    state = run.state
    is_last = state.step == state.n_steps or state.stops
    return is_last or state.step % state.history.steps_per_epoch == 0


def end_epoch(run: Run) -> None:
    """Put what the epoch came to into the history, and keep the weights if they are the best."""
    history = run.state.history
    run.meter.look()
    with torch.no_grad():
        penalty = sum(float(penalty()) for penalty in run.state.penalties)
    history.epoch_end.append(run.state.step)
    history.penalty.append(penalty)
    history.seconds.append(run.seconds_in_epoch)
    run.seconds_in_epoch = 0.0
    if run.validation is not None:
        score = _score(run, run.validation)
        history.validation_score.append(score)
        if run.stopping.is_better(score):
            run.stopping.keep(run.weights(trained_only=True))


@torch.no_grad()
def _score(run: Run, rows: Rows) -> float:
    """Minus the average loss of rows, in evaluation mode; processes share the work.

    Raises:
        NotFiniteError: If it is NaN or infinite.
        ValueError: If no row counts.
    """
    sums = torch.zeros(2, dtype=torch.float64)
    with evaluating(run.network):
        for index in torch.arange(len(rows)).split(run.sampler.rows_per_step):
            # All processes call the network equally often, since its parts may have to be gathered.
            batch = _take_share(rows, index, run.world)
            weight = batch.weight * run.losses.class_weights(batch.y, batch.task)
            losses = _row_losses(run, batch).double().cpu()
            sums += torch.stack([(losses * weight).sum(), weight.sum()])
    loss, weights = map(float, run.world.sum(sums))
    if weights == 0:
        raise ValueError(
            f"`validation` must have a row that counts: got none in {len(rows)} rows. Give rows with a label "
            f"whose weight and `class_weight` are above 0."
        )
    score = -loss / weights
    if not isfinite(score):
        raise NotFiniteError(
            explain_not_finite(
                "validation loss",
                f"{-score} after step {run.state.step}",
                rate=run.state.history.learning_rate[-1],
                checkpoint=run.checkpoint,
            )
        )
    return score


def finish(run: Run) -> None:
    """Save the end, and go back to the best weights.

    Raises:
        NotFiniteError: If the last step has made a weight NaN or infinite, which no further loss will tell.
    """
    if not run.is_finished:
        run.check_finite()
        run.is_finished = True
        run.save()
    if run.stopping.best_state:
        run.load_weights(run.stopping.best_state)
        run.state.history.best_epoch = run.stopping.best_epoch
    run.network.eval()


def _words(run: Run) -> str:
    history = run.state.history
    loss = f"loss {history.loss[-1]:.4g}" if history.loss else "training"
    scores = history.validation_score
    score = f", validation {scores[-1]:.4g}" if scores else ""
    return f"epoch {run.state.epoch}, {loss}{score}"
