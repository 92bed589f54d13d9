"""Many heads at once: copies with their own seeds, rows and settings, trained side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, final

import torch
from torch import Tensor

from multirel._annotations import Bool, Float, Int
from multirel.networks import NetworkCopies
from multirel.priors import Penalty
from multirel.training._history import History
from multirel.training._labels import to_tensor
from multirel.training._losses import ClassWeight, Loss, Losses
from multirel.training._optimizers import MULTIPLIER, build_optimizer
from multirel.training._penalties import add_penalty_gradients, step_penalties
from multirel.training._progress import show_progress
from multirel.training._recipe import Recipe
from multirel.training._rows import TrainingRows
from multirel.training._sampling import TaskSampler
from multirel.training._start_run import check_penalties
from multirel.training._surroundings import seed_step, surroundings

__all__ = ["train_copies"]

MAY_DIFFER = ("learning_rate", "seed")
"""Settings of a recipe that are a copy's own."""

COPY_RATES = "copy_rates"
"""The entry of a parameter group with the learning rate of every copy, which a prior reads too."""


def train_copies(
    copies: NetworkCopies,
    rows: TrainingRows,
    *,
    index: Sequence[Int[Tensor, "n"]] | None = None,
    recipes: Recipe | Sequence[Recipe],
    penalties: Sequence[Penalty] = (),
    losses: Loss | Mapping[int, Loss] = "cross-entropy",
    class_weight: ClassWeight = None,
    progress: bool | None = None,
) -> list[History]:
    """Train all copies together, each as `train` would train it alone, and the history of each.

    Every copy has its own rows, seed, learning rate and, by one number per copy of `strength` and
    `n_samples`, its own prior. They make the same number of steps. Weights differ from those of single
    trainings by roundoff, and with dropout by its random numbers. A copy whose loss is not finite stops
    before that step, and its further losses are NaN; the others go on.

    Args:
        copies: The networks, as `NetworkCopies`.
        rows: All rows, in memory; faster on the device of the copies.
        index: The numbers of the rows that each copy trains on; None means all of them.
        recipes: One recipe for all copies, or one per copy; they differ in `learning_rate` and `seed` only.
        penalties: Penalties on the weights of the copies.
        losses: As for `train`.
        class_weight: As for `train`.
        progress: Whether to show progress on the error stream; None does so on a terminal.

    Raises:
        ValueError: If numbers of copies differ, recipes differ in another setting, or in their number of
            steps, or ask for what copies cannot do together.

    Example:
        >>> from multirel.networks import MultitaskNetwork
        >>> starts = [MultitaskNetwork(3, ["a", "b"], n_outputs=2) for _ in range(4)]
        >>> rows = TrainingRows(torch.randn(20, 3), torch.arange(20) % 2, torch.arange(20) // 10)
        >>> recipes = [Recipe(max_steps=5, learning_rate=rate) for rate in (1e-3, 1e-2, 1e-1, 1.0)]
        >>> histories = train_copies(NetworkCopies(starts), rows, recipes=recipes)
        >>> [history.n_steps for history in histories]
        [5, 5, 5, 5]
    """
    run = _start(
        copies,
        rows,
        index,
        recipes=recipes,
        penalties=penalties,
        losses=losses,
        class_weight=class_weight,
    )
    with (
        surroundings(run.recipes[0], run.device),
        show_progress(progress, n_steps=run.n_steps) as report,
    ):
        copies.train()
        for step in range(run.n_steps):
            run.make_step(step)
            if (step + 1) % run.steps_per_epoch == 0 or step + 1 == run.n_steps:
                run.end_epoch(step + 1)
            report(step + 1, f"{copies.n_copies} copies")
        copies.eval()
    return run.histories()


@final
@dataclass(kw_only=True, eq=False)
class _Copies:
    """What the training of copies holds."""

    copies: NetworkCopies
    rows: TrainingRows
    index: list[Tensor]
    recipes: list[Recipe]
    penalties: tuple[Penalty, ...]
    samplers: list[TaskSampler]
    sampler_of: list[int]
    optimizer: torch.optim.Optimizer
    device: torch.device
    n_steps: int
    steps_per_epoch: int
    losses: Losses
    is_active: Bool[Tensor, "copies"]
    step_losses: list[Tensor]
    epoch_ends: list[int]
    epoch_penalties: list[Tensor]

    def make_step(self, step: int) -> None:
        """One step of every copy that goes on."""
        first = self.recipes[0]
        seed_step(first.seed, step, device=self.device)
        self.optimizer.zero_grad()
        losses = self._add_gradients()
        self.is_active &= losses.isfinite()
        self.step_losses.append(losses.masked_fill(~self.is_active, torch.nan))
        if first.clip_norm is not None:
            self._clip(first.clip_norm)
        self._step_optimizer(step)
        seed_step(first.seed, step, device=self.device)
        step_penalties(self.penalties, self.optimizer)

    def _add_gradients(self) -> Float[Tensor, "copies"]:
        """Add the gradients of all objectives, and return the average loss of every copy's batch."""
        drawn = [next(sampler) for sampler in self.samplers]
        parts = [self.index[b][drawn[number]] for b, number in enumerate(self.sampler_of)]
        counts = torch.tensor([len(part) for part in parts])
        copy = torch.arange(len(parts)).repeat_interleave(counts)
        batch = self.rows.take(torch.cat(parts))
        weight = batch.weight * self.losses.class_weights(batch.y, batch.task)
        total = torch.zeros(len(parts), dtype=weight.dtype).index_add_(0, copy, weight)
        share = weight / total.clamp(min=torch.finfo(weight.dtype).tiny)[copy]
        x, y = (value.to(self.device, non_blocking=True) for value in (batch.x, batch.y))
        is_half = self.recipes[0].precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_half):
            outputs = self.copies(x, batch.task, copy=copy)
        losses = self.losses(outputs, y, batch.task)
        weighted = losses * share.to(losses)
        weighted.sum().backward()
        add_penalty_gradients(self.penalties)
        sums = torch.zeros(len(parts), dtype=losses.dtype, device=self.device)
        return sums.index_add_(0, copy.to(self.device), weighted.detach())

    def _clip(self, largest: float) -> None:
        """Shorten the gradient of every copy, as for a network alone."""
        gradients = [p.grad for p in self.copies.parameters() if p.grad is not None]
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
        # The small number is that of `torch.nn.utils.clip_grad_norm_`.
        factor = (largest / (norms + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(_along_copies(factor, gradient))

    @torch.no_grad()
    def _step_optimizer(self, step: int) -> None:
        """A step of rate 1, of which every copy goes as far as its own rate says.

        Steps of SGD and AdamW are proportional to their rate, and what they remember does not depend on it.
        """
        progress = step / self.n_steps
        rates = torch.tensor(
            [recipe.rate_at(progress) for recipe in self.recipes], dtype=torch.float64
        )
        rates = torch.where(self.is_active, rates.to(self.device), 0.0)
        for group in self.optimizer.param_groups:
            group["lr"] = group[MULTIPLIER]
            group[COPY_RATES] = rates
        parameters = list(self.copies.parameters())
        before = [parameter.detach().clone() for parameter in parameters]
        self.optimizer.step()
        for parameter, old in zip(parameters, before, strict=True):
            new = old + _along_copies(rates.to(old.dtype), old) * (parameter - old)
            parameter.copy_(torch.where(_along_copies(self.is_active, old), new, old))

    @torch.no_grad()
    def end_epoch(self, step: int) -> None:
        """Note the penalty of every copy."""
        total = torch.zeros(len(self.recipes), device=self.device)
        for penalty in self.penalties:
            of_copies = getattr(penalty, "of_copies", None)
            total = total + (torch.nan if of_copies is None else of_copies())
        self.epoch_ends.append(step)
        self.epoch_penalties.append(total)

    def histories(self) -> list[History]:
        """What happened to every copy."""
        losses = torch.stack(self.step_losses).cpu().double()
        penalties = torch.stack(self.epoch_penalties).cpu().double()
        return [
            History(
                recipe=recipe.to_dict(),
                sampling=self.samplers[self.sampler_of[b]].describe(),
                n_samples=float(self.rows.select(self.index[b]).n_samples),
                steps_per_epoch=self.steps_per_epoch,
                loss=losses[:, b].tolist(),
                learning_rate=[recipe.rate_at(n / self.n_steps) for n in range(self.n_steps)],
                epoch_end=list(self.epoch_ends),
                penalty=penalties[:, b].tolist(),
                seconds=[float("nan")] * len(self.epoch_ends),
            )
            for b, recipe in enumerate(self.recipes)
        ]


def _along_copies(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(-1, *(1,) * (like.ndim - 1))


def _start(
    copies: NetworkCopies,
    rows: TrainingRows,
    index: Sequence[Tensor] | None,
    *,
    recipes: Recipe | Sequence[Recipe],
    penalties: Sequence[Penalty],
    losses: Loss | Mapping[int, Loss],
    class_weight: ClassWeight,
) -> _Copies:
    _check_types(copies, rows)
    check_penalties(penalties)
    each, chosen = _per_copy(copies.n_copies, rows, index, recipes=recipes)
    _check_recipes(each)
    chosen, samplers, sampler_of = _samplers(rows, chosen, each)
    lengths = {each[0].count_steps(sampler.steps_per_epoch) for sampler in samplers}
    if len(lengths) > 1:
        raise ValueError(
            f"`index` must give every copy the same number of steps: got {min(lengths)} to "
            f"{max(lengths)}. Set `max_steps` in place of epochs."
        )
    device = next(copies.parameters()).device
    return _Copies(
        copies=copies,
        rows=rows,
        index=chosen,
        recipes=each,
        penalties=tuple(penalties),
        samplers=samplers,
        sampler_of=sampler_of,
        optimizer=build_optimizer(copies, each[0], penalties=penalties),
        device=device,
        n_steps=lengths.pop(),
        steps_per_epoch=samplers[0].steps_per_epoch,
        losses=Losses(losses, n_tasks=rows.n_tasks, class_weight=class_weight),
        is_active=torch.ones(copies.n_copies, dtype=torch.bool, device=device),
        step_losses=[],
        epoch_ends=[],
        epoch_penalties=[],
    )


def _per_copy(
    n_copies: int,
    rows: TrainingRows,
    index: Sequence[Tensor] | None,
    *,
    recipes: Recipe | Sequence[Recipe],
) -> tuple[list[Recipe], list[Tensor]]:
    """The recipe and the numbers of the rows of every copy."""
    each = list(recipes) if isinstance(recipes, Sequence) else [recipes] * n_copies
    if not all(isinstance(recipe, Recipe) for recipe in each):
        raise TypeError(f"`recipes` must be a Recipe, or one per copy: got {recipes!r}.")
    everything = torch.arange(len(rows))
    chosen = [everything] * n_copies if index is None else [_row_numbers(i, rows) for i in index]
    for name, n_given in (("recipes", len(each)), ("index", len(chosen))):
        if n_given != n_copies:
            raise ValueError(f"`{name}` must be one per copy: expected {n_copies}, got {n_given}.")
    return each, chosen


def _check_types(copies: Any, rows: Any) -> None:
    for name, value, kind in (("copies", copies, NetworkCopies), ("rows", rows, TrainingRows)):
        if not isinstance(value, kind):
            raise TypeError(
                f"`{name}` must be {kind.__name__}: got {type(value).__name__}. Wrap it as "
                f"{kind.__name__}(…)."
            )


def _row_numbers(index: Any, rows: TrainingRows) -> Int[Tensor, "n"]:
    """The numbers of the rows of one copy, on the CPU."""
    numbers = to_tensor("index", index).cpu()
    if numbers.ndim != 1 or numbers.is_floating_point() or numbers.dtype == torch.bool:
        raise TypeError(
            f"`index` must hold the numbers of each copy's rows: expected shape (n,), got "
            f"{tuple(numbers.shape)} of {numbers.dtype}. Make numbers of a mask by `mask.nonzero()[:, 0]`."
        )
    numbers = numbers.long()
    wrong = numbers[(numbers < 0) | (numbers >= len(rows))]
    if len(wrong) > 0:
        raise ValueError(
            f"`index` must hold numbers of rows: expected 0 to {len(rows) - 1}, got {int(wrong[0])}."
        )
    return numbers


def _check_recipes(recipes: Sequence[Recipe]) -> None:
    first = recipes[0]
    for field in fields(Recipe):
        values = dict.fromkeys(getattr(recipe, field.name) for recipe in recipes)
        if len(values) > 1 and field.name not in MAY_DIFFER:
            raise ValueError(
                f"`recipes` must differ in {' and '.join(MAY_DIFFER)} only: got {field.name} "
                f"{', '.join(map(repr, values))}. Train copies of each kind together."
            )
    alone = {
        "accumulate": first.accumulate > 1,
        "validation_fraction": first.validation_fraction > 0,
        "patience": first.patience is not None,
    }
    for name, is_set in alone.items():
        if is_set:
            raise ValueError(
                f"`{name}` must be left alone in recipes of copies: got {getattr(first, name)}. Copies "
                f"make all their steps, with whole batches; train one by one with `train` instead."
            )


def _samplers(
    rows: TrainingRows, index: Sequence[Tensor], recipes: Sequence[Recipe]
) -> tuple[list[Tensor], list[TaskSampler], list[int]]:
    """Rows with labels of every copy, and samplers that copies with equal rows and seeds share."""
    has_label = rows.has_label
    known: dict[tuple[int, bytes], int] = {}
    kept: list[Tensor] = []
    samplers: list[TaskSampler] = []
    sampler_of: list[int] = []
    for recipe, mine in zip(recipes, index, strict=True):
        labelled = mine[has_label[mine]]
        if len(labelled) == 0:
            raise ValueError(
                f"`index` must give every copy a row with a label: got none in {len(mine)} rows."
            )
        key = (recipe.seed, labelled.numpy().tobytes())
        if key not in known:
            known[key] = len(samplers)
            samplers.append(
                TaskSampler(
                    rows.task[labelled],
                    batch_size=recipe.batch_size,
                    policy=recipe.sampling,
                    seed=recipe.seed,
                )
            )
        kept.append(labelled)
        sampler_of.append(known[key])
    return kept, samplers, sampler_of
