"""The tensor normal prior on the stacks of a network."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor, nn

from multirel._annotations import Float
from multirel.exceptions import PriorCollapseWarning
from multirel.priors._prior_state import (
    check_state,
    covariances_from_state,
    memory_of,
    stack_to_tensors,
)
from multirel.priors._settings import PerCopy, PriorSettings
from multirel.priors._stack import Stack
from multirel.priors._stack_prior import StackPrior
from multirel.priors._start import start_covariance
from multirel.priors._step_size import find_groups, rate_of_groups
from multirel.priors._summarize import summarize
from multirel.priors._summary import PriorSummary
from multirel.priors._task_relationship import TaskRelationship
from multirel.tensor_normal import Covariance, Spectrum, without_autocast

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TensorNormalPrior"]

COLLAPSE = 0.05
"""Share of the largest norm that it has had at which a stack counts as collapsed."""


@final
class TensorNormalPrior:
    """A tensor normal prior on the stacks of a network, Eqs. (8) to (11); made by `attach_prior`.

    Two ways to use it. With `application="proximal"`, call `prior.step(optimizer)` after `optimizer.step()`.
    With `application="gradient"`, add `prior()` to the loss, and call `prior.step()` for the covariance
    updates.

    Differs from the paper: the logarithms of the determinants have the sign of a density, the prior counts
    once and not once per training row, and covariances are shrunk, scaled and estimated early, since the
    joint objective of weights and covariances has no useful minimum.

    Args:
        stacks: The stacks.
        settings: How the covariances are estimated, and how they act.
        relationship: The task covariance that the stacks share, if they do.
    """

    def __init__(
        self,
        stacks: Sequence[Stack],
        settings: PriorSettings,
        *,
        relationship: TaskRelationship | None = None,
    ) -> None:
        self.settings = settings
        self.relationship = relationship
        with without_autocast(stacks[0].parameters[0].device):
            self._priors = [
                StackPrior(stack, settings, start=self._start_of(stack)) for stack in stacks
            ]
        self._pending: list[float | Tensor] = [0.0] * len(stacks)
        self._groups: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._n_steps = 0
        self._n_updates = 0
        self._is_held = False
        self._is_in_gradient = False
        self._has_warned = False
        if relationship is not None:
            for prior in self._priors:
                relationship.check_member(prior)
            for prior in self._priors:
                relationship.join(prior, self._rate)

    def _start_of(self, stack: Stack) -> Covariance:
        if self.relationship is not None:
            return self.relationship.start
        return start_covariance(self.settings.start, len(stack.tasks))

    @classmethod
    def from_preset(
        cls, preset: str, network: nn.Module, layers: str | Sequence[str], **settings: Any
    ) -> "TensorNormalPrior":
        """The prior of a preset, "paper" or "released-code"; `settings` are those of `attach_prior`."""
        from multirel.priors._presets import prior_from_preset

        return prior_from_preset(preset, network, layers, **settings)

    @property
    def application(self) -> str:
        """How the prior reaches the weights: "proximal" or "gradient"."""
        return self.settings.application

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks that the prior acts on."""
        return tuple(prior.stack for prior in self._priors)

    @property
    def n_updates(self) -> int:
        """How many covariance updates have been made."""
        return self._n_updates

    @property
    def _device(self) -> torch.device:
        return self._priors[0].stack.parameters[0].device

    @property
    def _rate(self) -> PerCopy:
        """λ/N, of every copy where the stacks hold several."""
        rate = self.settings.strength / self.settings.n_samples
        return rate.double().to(self._device) if isinstance(rate, Tensor) else rate

    def __call__(self) -> Float[Tensor, ""]:
        """(λ/N) Σ ½⟨W − M, P (W − M)⟩ over stacks and copies, differentiable in the weights."""
        if torch.compiler.is_compiling():
            # Eigenvectors are kept between calls, which a compiled graph cannot do.
            penalty: Tensor = torch.compiler.disable(self._penalty)()
            return penalty
        return self._penalty()

    def _penalty(self) -> Tensor:
        total = self.of_copies().sum()
        if self.application == "proximal" and total.requires_grad:
            self._is_in_gradient = True
        return total

    def of_copies(self) -> Float[Tensor, "*copies"]:
        """The penalty of each copy where the stacks hold several, else the penalty."""
        return self._total([prior.half_distance() for prior in self._priors])

    def _total(self, parts: Sequence[Tensor]) -> Tensor:
        """λ/N times the sum over the stacks, which may be on several devices."""
        here = [part.to(self._device) for part in parts]
        total = sum(here[1:], here[0])
        return (self._rate * total).to(total)

    @torch.no_grad()
    def objective(self) -> Float[Tensor, "*copies"]:
        """What the prior adds to the objective, Eq. (9): `prior()` and the terms of the covariances.

        One number, or one per copy where the stacks hold several.
        """
        return self._total([p.half_distance() + 0.5 * p.log_terms() for p in self._priors])

    def apply(self, optimizer: torch.optim.Optimizer) -> None:
        """Replace W − M by (I + c P)⁻¹ (W − M), with c of the optimizer's steps since the last time.

        If none is pending, c belongs to one step.

        Raises:
            ValueError: If `application` is "gradient", if `prior()` was in the loss as well, or if the
                optimizer's rates for a stack differ.
        """
        self._check_proximal()
        for index in range(len(self._priors)):
            if isinstance(self._pending[index], float) and self._pending[index] == 0:
                self._pending[index] = self._rate_of_one_step(optimizer, index)
            self._apply_to(index)

    def update(self) -> None:
        """Estimate the covariances again from the weights: one sweep, task, output, input."""
        with without_autocast(self._device):
            if self.relationship is not None:
                self.relationship.update()
            for prior in self._priors:
                prior.update(task=self.relationship is None)
        self._n_updates += 1
        self._warn_of_collapse()

    def hold(self) -> None:
        """Make no further scheduled updates."""
        self._is_held = True

    def step(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Apply and update on schedule; call it after `optimizer.step()`.

        Raises:
            TypeError: If `application` is "proximal" and no optimizer is given.
            ValueError: As `apply` does.
        """
        rates = self._rates_of_one_step(optimizer)
        self._n_steps += 1
        for index, rate in enumerate(rates):
            self._pending[index] += rate
            n_weights = self._priors[index].stack.n_weights
            if self._n_steps % self.settings.apply_every_of(n_weights) == 0:
                self._apply_to(index)
        if self._n_steps % self.settings.update_every == 0 and self._is_update_due:
            self.update()

    def _rates_of_one_step(self, optimizer: torch.optim.Optimizer | None) -> list[PerCopy]:
        """What one step adds to c of each stack; nothing if the prior is in the gradient."""
        if self.application == "proximal":
            if optimizer is None:
                raise TypeError(
                    "`optimizer` must be given with application='proximal': call "
                    "prior.step(optimizer) after optimizer.step()."
                )
            self._check_proximal()
            return [self._rate_of_one_step(optimizer, index) for index in range(len(self._priors))]
        return []

    @property
    def _is_update_due(self) -> bool:
        limit = self.settings.n_updates
        return not self._is_held and (limit is None or self._n_updates < limit)

    def _check_proximal(self) -> None:
        if self.application == "gradient":
            raise ValueError(
                "`application` must be 'proximal' for a prior that is applied: got 'gradient', where "
                "`prior()` belongs into the loss."
            )
        if self._is_in_gradient:
            raise ValueError(
                "`prior()` must not be in the loss with application='proximal': the prior would count "
                "twice. Leave it out, or attach the prior with application='gradient'."
            )

    def _rate_of_one_step(self, optimizer: torch.optim.Optimizer, index: int) -> PerCopy:
        stack = self._priors[index].stack
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                f"`optimizer` must be a torch.optim.Optimizer: got {type(optimizer).__name__}. Give the "
                f"one that trains the network."
            )
        if not _is_trained(stack):
            return 0.0
        # Looking for the groups takes longer than applying a small prior.
        groups = [group["params"] for group in optimizer.param_groups]
        firsts = (value for group in groups for value in (len(group), *map(id, group[:1])))
        form = (id(optimizer), *firsts)
        if self._groups.get(index, ((), ()))[0] != form:
            found = find_groups(optimizer, stack.parameters, layer=stack.layer)
            self._groups[index] = (form, found)
        rate = rate_of_groups(optimizer, self._groups[index][1], layer=stack.layer)
        return rate.to(self._device) if isinstance(rate, Tensor) else rate

    def _apply_to(self, index: int) -> None:
        self._priors[index].shrink(self._rate * self._pending[index])
        self._pending[index] = 0.0

    def correlations(
        self, layer: str, mode: str = "task", raw: bool = False
    ) -> "NDArray[np.float64]":
        """Correlations between the entries of a mode, with unit diagonal.

        Args:
            layer: The layer, by the pattern that it was attached with.
            mode: Name of the mode.
            raw: Report the prior's own covariance also for layers whose copies started equal. By default
                those are told apart by how training has changed them (W − W_initial), since their weights
                stay close to one another whatever the tasks are. Before training there is nothing to
                tell, and the correlations are NaN.

        Raises:
            ValueError: If the prior has no such layer or mode.
        """
        prior = self._prior_of(layer)
        if mode not in prior.stack.modes:
            raise ValueError(
                f"`mode` must be a mode of {layer!r}: expected {', '.join(prior.stack.modes)}, got "
                f"{mode!r}."
            )
        with without_autocast(self._device):
            matrix = prior.correlations(prior.stack.modes.index(mode), raw=raw)
        correlations: NDArray[np.float64] = matrix.double().cpu().numpy()
        return correlations

    def covariances(self, layer: str) -> dict[str, Covariance]:
        """The covariance Σₖ of every mode of a layer, by the name of the mode.

        Args:
            layer: The layer, by the pattern that it was attached with.

        Raises:
            ValueError: If the prior has no such layer.
        """
        prior = self._prior_of(layer)
        return dict(zip(prior.stack.modes, prior.covariances, strict=True))

    def precisions(self, layer: str) -> dict[str, Spectrum]:
        """The precision by which every mode of a layer acts on its weights, by the name of the mode.

        It is the inverse of the covariance, unless the scale, the mean or `inverse` says otherwise.

        Args:
            layer: The layer, by the pattern that it was attached with.

        Raises:
            ValueError: If the prior has no such layer.
        """
        prior = self._prior_of(layer)
        return dict(zip(prior.stack.modes, prior.spectra, strict=True))

    def _prior_of(self, layer: str) -> StackPrior:
        for prior in self._priors:
            if prior.stack.layer == layer:
                return prior
        known = ", ".join(repr(prior.stack.layer) for prior in self._priors)
        raise ValueError(
            f"`layer` must be one that has this prior: expected {known}, got {layer!r}."
        )

    def summary(self) -> PriorSummary:
        """A table with one row per stack: what is learned, how strongly it acts, what it costs."""
        return summarize(self._priors, self.settings, n_updates=self._n_updates)

    def state_dict(self) -> dict[str, Tensor]:
        """Covariances, counts and pending steps as named tensors, to save beside the network's."""
        state = {
            "counts": torch.tensor([self._n_steps, self._n_updates, int(self._is_held)]),
            "pending": self._pending_steps(),
        }
        for prior in self._priors:
            state |= stack_to_tensors(prior)
        return state

    def _pending_steps(self) -> Float[Tensor, "stacks *copies"]:
        steps = [torch.as_tensor(rate, dtype=torch.float64).cpu() for rate in self._pending]
        shape = self.stacks[0].batch_shape
        return torch.stack([step.expand(shape) for step in steps])

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave, for the same layers.

        Raises:
            TypeError: If the state is no mapping.
            ValueError: If the state belongs to other layers or sizes; then nothing is taken over.
        """
        if not isinstance(state, Mapping):
            raise TypeError(
                f"`state` must be what `state_dict` gave: got {type(state).__name__}. Load the file first."
            )
        check_state(state, self._priors)
        loaded = [covariances_from_state(state, prior) for prior in self._priors]
        for prior, covariances in zip(self._priors, loaded, strict=True):
            prior.covariances = covariances
            prior.load_memory(memory_of(state, prior))
            with without_autocast(self._device):
                prior.refresh()
        self._n_steps, self._n_updates, held = (int(count) for count in state["counts"])
        self._is_held = bool(held)
        self._pending = [
            rate.to(self._device) if bool(rate.any()) and rate.ndim else float(rate.max())
            for rate in state["pending"]
        ]

    def _warn_of_collapse(self) -> None:
        """Say so once if the literal objective of the paper draws weights and covariances to zero."""
        if self.settings.scale != "free" or self._has_warned:
            return
        for prior in self._priors:
            norm = prior.norm()
            if norm < COLLAPSE * prior.largest_norm:
                warnings.warn(
                    f"The prior on {prior.stack.layer!r} collapses: the norm of the weights fell from "
                    f"{prior.largest_norm:.3g} to {norm:.3g}, and the largest variance of a weight is "
                    f"{prior.largest_variance():.3g} with jitter {self.settings.jitter:.3g}. The "
                    f"objective of scale='free' has no useful minimum; use scale='trace'.",
                    PriorCollapseWarning,
                    stacklevel=3,
                )
                self._has_warned = True
            prior.largest_norm = max(prior.largest_norm, norm)


def _is_trained(stack: Stack) -> bool:
    """Whether the weights of a stack train; a prior leaves those alone that are frozen.

    Raises:
        ValueError: If only some of them do.
    """
    frozen = [
        name
        for name, parameter in zip(stack.parameter_names, stack.parameters, strict=True)
        if not parameter.requires_grad
    ]
    if frozen and len(frozen) < len(stack.parameters):
        raise ValueError(
            f"`layers` must train together under a prior: {frozen[0]!r} is frozen, and other weights of "
            f"{stack.layer!r} are not. Set requires_grad alike for all of them."
        )
    return not frozen
