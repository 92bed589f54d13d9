"""The prior of one stack: its covariances, and what they do to its weights."""

from collections.abc import Mapping
from math import isfinite, prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from multirel._annotations import Bool, Float, Int
from multirel.exceptions import NotFiniteError, NotPositiveDefiniteError
from multirel.priors._covariance_step import CovarianceStep, estimate_where
from multirel.priors._mean import InitialMean, Mean, TaskAverageMean, ZeroMean
from multirel.priors._scatter import RowScatter, Scatter
from multirel.priors._settings import PriorSettings
from multirel.priors._stack import Stack
from multirel.tensor_normal import (
    Covariance,
    IdentityCovariance,
    KroneckerProx,
    Spectrum,
    correlation_matrix,
    unfold,
    without_autocast,
)

__all__ = ["StackPrior"]

TASK = 0
"""Position of the task mode."""


class StackPrior:
    """A tensor normal prior on one stack.

    Args:
        stack: The weights.
        settings: How the prior is estimated and acts.
        start: Task correlation to begin with.
    """

    def __init__(self, stack: Stack, settings: PriorSettings, *, start: Covariance) -> None:
        self.stack = stack
        self.batch_dims = len(stack.batch_shape)
        weight = self.weight().detach()
        first = weight.narrow(self.batch_dims, 0, 1)
        starts_equal = bool((weight == first).all())
        self.initial: Tensor | None = first.clone() if starts_equal else None
        self.mean = _make_mean(settings, weight, self.initial)
        self.largest_norm = self.norm()
        self.steps: list[CovarianceStep | None] = [
            None
            if settings.shrinkage_of(mode) == 1
            else settings.step_of(mode, size, stack.n_weights)
            for mode, size in zip(stack.modes, stack.shape, strict=True)
        ]
        self.covariances: list[Covariance] = [
            IdentityCovariance(size, dtype=weight.dtype, device=weight.device)
            for size in stack.shape
        ]
        self.spectra: list[Spectrum] = []
        task_step = self.steps[TASK]
        if task_step is not None:
            self.covariances[TASK] = task_step.start(start.to(weight))
        self.refresh()

    def weight(self) -> Float[Tensor, "*shape"]:
        """The stack in the precision that the algebra is done in: at least single."""
        weight = self.stack.tensor()
        return weight if weight.dtype in (torch.float32, torch.float64) else weight.float()

    def norm(self) -> float:
        """‖W − M‖."""
        with torch.no_grad():
            return float(torch.linalg.vector_norm(self.mean.deviation(self.weight())))

    def largest_variance(self) -> float:
        """The largest variance that the prior gives to a weight."""
        learned = [
            c for c, step in zip(self.covariances, self.steps, strict=True) if step is not None
        ]
        return prod(float(covariance.diagonal().max()) for covariance in learned)

    def refresh(self) -> None:
        """Bring the precisions in line with the covariances."""
        self.spectra = [self._spectrum_of(mode) for mode in range(self.stack.order)]
        self._prox: KroneckerProx | None = None

    def _spectrum_of(self, mode: int) -> Spectrum:
        step, covariance = self.steps[mode], self.covariances[mode]
        spectrum = covariance.precision_spectrum() if step is None else step.spectrum(covariance)
        return self.mean.task_spectrum(spectrum) if mode == TASK else spectrum

    def replace_covariance(self, mode: int, covariance: Covariance) -> None:
        """Put a covariance in the place of that of a mode."""
        self.covariances[mode] = covariance
        self.spectra[mode] = self._spectrum_of(mode)
        self._prox = None

    def follow(self, weight: Tensor) -> None:
        """Move the covariances to where the weights are."""
        first = self.covariances[TASK]
        if first.device == weight.device and first.dtype == weight.dtype:
            return
        self.covariances = [covariance.to(weight) for covariance in self.covariances]
        if self.initial is not None:
            self.initial = self.initial.to(weight)
        if isinstance(self.mean, InitialMean):
            self.mean.initial = self.mean.initial.to(weight)
        self.refresh()

    def half_distance(self) -> Float[Tensor, "*copies"]:
        """½⟨W − M, P (W − M)⟩, differentiable; its gradient P (W − M) is computed once, in passing."""
        weight = self.weight()
        with without_autocast(weight.device):
            self.follow(weight)
            half: Tensor = _HalfDistance.apply(weight, self)  # type: ignore[no-untyped-call]
        return half

    def penalized(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The part of W − M that costs something."""
        return self.mean.penalized(self.mean.deviation(weight), task_axis=self.batch_dims + TASK)

    def precision_product(self, deviation: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """P (W − M), mode by mode."""
        return self._products(deviation, power=1.0, skip=None)

    def _products(self, deviation: Tensor, *, power: float, skip: int | None) -> Tensor:
        """`deviation` times the power of each mode's precision, one mode left out if asked for."""
        order = self.stack.order
        for mode, spectrum in enumerate(self.spectra):
            is_identity = isinstance(self.covariances[mode], IdentityCovariance)
            # The spectrum of an identity has no basis, unless the average is taken off the tasks.
            is_neutral = is_identity and spectrum.is_multiple_of_identity
            if mode != skip and not is_neutral:
                deviation = spectrum.power_product(
                    deviation, power, mode - order, batch_dims=self.batch_dims
                )
        return deviation

    def log_terms(self) -> Float[Tensor, "*copies"]:
        """Σₖ (D / dₖ) (ln |Σₖ| + ε tr Σₖ⁻¹), the latter where the scale is free."""
        total = self.weight().new_zeros(self.stack.batch_shape)
        for step, covariance in zip(self.steps, self.covariances, strict=True):
            if step is not None:
                share = self.stack.n_weights / covariance.size
                total = total + share * step.log_term(covariance)
        return total

    @torch.no_grad()
    def shrink(self, step_size: float | Float[Tensor, "*copies"]) -> None:
        """Replace W − M by (I + c P)⁻¹ (W − M) with c = `step_size`."""
        weight = self.weight()
        with without_autocast(weight.device):
            self.follow(weight)
            if self._prox is None:
                self._prox = KroneckerProx(self.spectra)
            deviation = self.mean.deviation(weight)
            self._prox.apply_(deviation, step_size)
        self.stack.write(self.mean.restored(deviation))

    @torch.no_grad()
    def scatter(self, mode: int, deviation: Tensor | None = None) -> RowScatter:
        """Sₖ of the weights, white in all other modes, Eq. (11)."""
        deviation = self._deviation() if deviation is None else deviation
        white = self._products(deviation, power=0.5, skip=mode)
        rows = unfold(white, self.batch_dims + mode, batch_dims=self.batch_dims)
        return RowScatter(self.mean.task_rows(rows) if mode == TASK else rows)

    @torch.no_grad()
    def update(self, *, task: bool) -> None:
        """One sweep over the modes, task first; `task` says whether the task mode takes part.

        Copies, and modes, whose weights say nothing keep the covariance that they have.
        """
        deviation = self._deviation()
        for mode, step in enumerate(self.steps):
            if step is None or (mode == TASK and not task):
                continue
            scatter, kept = self.scatter(mode, deviation), self.covariances[mode]
            estimate = estimate_where(step, scatter, chosen=self.has_spread(scatter), kept=kept)
            self.replace_covariance(mode, estimate)

    def _deviation(self) -> Float[Tensor, "*shape"]:
        weight = self.weight()
        self.follow(weight)
        return self.mean.deviation(weight)

    def has_spread(self, scatter: Scatter) -> Bool[Tensor, "*copies"]:
        """Whether the weights say something about a covariance: not where W = M."""
        trace = scatter.trace()
        if self.batch_dims == 0:
            # One number is read from the device; what follows from it stays on the CPU.
            trace = trace.cpu()
        if self.batch_dims == 0 and not isfinite(trace):
            raise NotFiniteError(
                f"`network` must have finite weights: those of {self.stack.layer!r} hold NaN or "
                f"infinity. Lower the learning rate."
            )
        # A copy that has diverged does not stop the others: it keeps its covariances.
        return (trace > 0) & (trace < torch.inf)

    @torch.no_grad()
    def correlations(self, mode: int, *, raw: bool) -> Float[Tensor, "*copies d d"]:
        """Correlations of a mode: the prior's, or those of what training has changed.

        The copies of a layer that start equal stay close to one another whatever the tasks are, so they are
        told apart by W − W_initial, unless `raw`.
        """
        step = self.steps[mode]
        if raw or self.initial is None or step is None:
            return correlation_matrix(self.covariances[mode])
        weight = self.weight()
        self.follow(weight)
        change = weight - self.initial
        axes = tuple(range(self.batch_dims, weight.ndim))
        roundoff = torch.finfo(weight.dtype).eps * torch.linalg.vector_norm(weight, dim=axes)
        is_still = torch.linalg.vector_norm(change, dim=axes) <= roundoff
        identity = torch.eye(self.stack.shape[mode], dtype=weight.dtype, device=weight.device)
        unknown = identity.masked_fill(identity == 0, torch.nan)
        if bool(is_still.all()):
            return unknown.expand(*self.stack.batch_shape, *unknown.shape)
        scatter = self.scatter(mode, change)
        try:
            found = correlation_matrix(step.estimate(scatter))
        except NotPositiveDefiniteError:
            # A singular scatter makes no prior, but its correlations are what they are.
            found = correlation_matrix(scatter.dense())
        return torch.where(is_still[..., None, None], unknown, found)

    def memory(self) -> dict[str, Tensor]:
        """What the prior remembers of the layer beside its covariances, by name."""
        tensors = {} if self.initial is None else {"initial": self.initial}
        if isinstance(self.mean, InitialMean) and self.initial is None:
            tensors["mean"] = self.mean.initial
        norm = torch.tensor(self.largest_norm, dtype=torch.float64)
        names = torch.tensor(list("\n".join(self.stack.tasks).encode()), dtype=torch.uint8)
        return tensors | {"norm": norm, "learned": self._is_learned, "tasks": names}

    @property
    def _is_learned(self) -> Int[Tensor, "modes"]:
        """1 for every mode whose covariance is learned, else 0."""
        return torch.tensor([int(step is not None) for step in self.steps])

    def check_memory(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Names of what is missing in a state, or does not belong there."""
        needed = {"norm", "learned", "tasks"}
        known = needed | {"initial"}
        if isinstance(self.mean, InitialMean):
            known |= {"mean"}
            if not {"initial", "mean"} & set(tensors):
                return ["mean"]
        return sorted((needed - set(tensors)) | (set(tensors) - known))

    def modes_in_dispute(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Modes that are learned in a state and not here, or here and not there."""
        here = self._is_learned
        there = tensors.get("learned", here).cpu()
        if there.shape != here.shape:
            return [*self.stack.modes]
        differs = (here != there).tolist()
        return [mode for mode, is_other in zip(self.stack.modes, differs, strict=True) if is_other]

    def check_shapes(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise unless the weights in a state have the shape of these."""
        shape = (*self.stack.batch_shape, *self.stack.shape)
        first = (*self.stack.batch_shape, 1, *self.stack.shape[1:])
        for name, expected in (("initial", first), ("mean", shape)):
            if name in tensors and tuple(tensors[name].shape) != expected:
                raise ValueError(
                    f"`state` must hold weights of this network: expected shape {expected} for "
                    f"'{self.stack.layer}.{name}', got {tuple(tensors[name].shape)}."
                )

    def check_tasks(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise if a state is of other tasks, or has them in another order."""
        names = tensors.get("tasks")
        found = None if names is None else bytes(names.tolist()).decode().split("\n")
        if found is not None and found != [*self.stack.tasks]:
            raise ValueError(
                f"`state` must have the tasks of {self.stack.layer!r} in their order: expected "
                f"{', '.join(self.stack.tasks)}, got {', '.join(found)}."
            )

    def load_memory(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `memory` gave, whether or not these weights start equal."""
        like = self.covariances[TASK].diagonal()
        self.initial = tensors["initial"].to(like) if "initial" in tensors else None
        if isinstance(self.mean, InitialMean):
            mean = tensors["mean"] if self.initial is None else self.initial
            self.mean = InitialMean(mean.to(like))
        self.largest_norm = float(tensors["norm"])

    @property
    def reports_change(self) -> bool:
        """Whether `correlations` speaks of W − W_initial."""
        return self.initial is not None


class _HalfDistance(torch.autograd.Function):
    """½⟨W − M, P (W − M)⟩ with gradient P (W − M)."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, prior: StackPrior) -> Tensor:
        deviation = prior.penalized(weight)
        gradient = prior.precision_product(deviation)
        ctx.save_for_backward(gradient)
        axes = deviation.ndim - prior.batch_dims
        return 0.5 * (deviation * gradient).flatten(-axes).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        missing = gradient.ndim - output_gradient.ndim
        return output_gradient.reshape(*output_gradient.shape, *(1,) * missing) * gradient, None


def _make_mean(settings: PriorSettings, weight: Tensor, initial: Tensor | None) -> Mean:
    if settings.mean == "initial":
        return InitialMean(weight.clone() if initial is None else initial)
    if settings.mean == "task-average":
        return TaskAverageMean(settings.mean_strength)
    return ZeroMean()
