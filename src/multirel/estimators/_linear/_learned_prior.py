"""The tensor normal prior of a linear model, whose covariances are learned from its weights."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import torch
from torch import nn

from multirel.estimators._linear._covariance_factors import CovarianceFactors, restricted_spectrum
from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty
from multirel.priors import attach_prior
from multirel.tensor_normal import IdentityCovariance, Spectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._problem import LinearProblem

__all__ = ["MODES", "LearnedPrior"]

MODES = ("task", "output", "input")
LAYER = "weights"
FEWEST_TASKS = 2
"""A stack of a prior has at least two tasks."""


class _Weights(nn.Module):
    """Weights of a linear model as a stack that a prior recognizes."""

    stack_modes: ClassVar[tuple[str, ...]] = MODES

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape, dtype=torch.float64))


@final
class LearnedPrior:
    """The prior of weights "T C r": precisions for a solver, and covariances from its solutions.

    The input mode has the size of the features F, also where the weights are given in r < F coordinates
    that span the rows: they are then seen with zeros for the others.

    Args:
        problem: The problem, whose tasks all have rows.
        strength: The multiplier λ.
        settings: Settings of `attach_prior`.
    """

    def __init__(
        self, problem: "LinearProblem", *, strength: float, settings: Mapping[str, Any]
    ) -> None:
        self._shape = problem.weight_shape
        self._n_features = problem.n_features
        self._rate = strength / problem.n_samples
        n_tasks, n_outputs, n_coordinates = self._shape
        modes = settings["modes"]
        needs_all = "input" in modes or settings["scale"] == "free"
        shape = (n_tasks, n_outputs, problem.n_features if needs_all else n_coordinates)
        # Equal weights of two tasks have the same outputs and inputs to learn from as one of them.
        shape = (max(n_tasks, FEWEST_TASKS), *shape[1:])
        self._weights = _Weights(shape)
        if settings["rank"] == "auto":
            settings = {**settings, "rank": _exact_rank(self._shape, shape, settings)}
        self._prior = attach_prior(
            nn.ModuleDict({LAYER: self._weights}),
            LAYER,
            n_samples=problem.n_samples,
            strength=strength,
            **(settings if n_tasks > 1 else _without_tasks(settings)),
        )

    def update(self, weights: "NDArray[np.float64]") -> None:
        """Estimate the covariances again: one sweep, task, output, input.

        Args:
            weights: "T C r".
        """
        stack = self._weights.weight.detach()
        stack[..., : self._shape[-1]] = torch.from_numpy(np.ascontiguousarray(weights))
        self._prior.update()

    def penalty(self) -> QuadraticPenalty:
        """(λ/N)·½⟨W, P W⟩, by the precisions as they are now."""
        spectra = self._prior.precisions(LAYER)
        modes = {
            mode: self._restricted(spectra[mode], size)
            for mode, size in zip(MODES, self._shape, strict=True)
        }
        return QuadraticPenalty(strength=self._rate, **modes)

    def _restricted(self, spectrum: Spectrum, size: int) -> ModeSpectrum:
        if spectrum.size <= size:
            return ModeSpectrum.from_spectrum(spectrum)
        basis, inside, outside = restricted_spectrum(
            spectrum.basis.numpy(),
            spectrum.inside.numpy(),
            float(spectrum.outside),
            n_kept=size,
        )
        if basis.shape[1] == 0:
            return ModeSpectrum.identity(outside)
        # What is negative by roundoff is zero.
        return ModeSpectrum(basis=basis, inside=inside.clip(min=0), outside=outside)

    def log_terms(self) -> float:
        """(λ/N)·½ Σₖ (D / dₖ)(ln |Σₖ| + ε tr Σₖ⁻¹), Eq. (9), the latter where the scale is free."""
        n_tasks = self._shape[0]
        stack = self._weights.weight.shape
        with torch.no_grad():
            terms = float(self._prior.objective() - self._prior())
        # D counts the features and the tasks of the model.
        return terms * (self._n_features / stack[-1]) * (n_tasks / stack[0])

    def covariances(self) -> dict[str, CovarianceFactors]:
        """The covariance of every mode, in the coordinates of the weights."""
        found = self._prior.covariances(LAYER)
        return {
            mode: CovarianceFactors.identity(size)
            if isinstance(found[mode], IdentityCovariance)
            else CovarianceFactors.from_covariance(found[mode], size)
            for mode, size in zip(MODES, self._shape, strict=True)
        }


def _exact_rank(
    weights: tuple[int, ...], stack: tuple[int, ...], settings: Mapping[str, Any]
) -> int | None:
    """A rank that the scatters of all modes cannot exceed; None where it would not save anything."""
    needs_all = (
        settings["scale"] == "determinant"
        or settings["inverse"] == "pseudo"
        or settings["covariance_update"] != "logdet"
    )
    size = int(np.prod(weights))
    rank = max(min(d, size // d) for d in weights)
    return None if needs_all or rank >= max(stack) else rank


def _without_tasks(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a single task, which has no correlation with others."""
    modes = tuple(mode for mode in settings["modes"] if mode != "task")
    if not modes:
        return {"modes": ("output",), "shrinkage": 1.0}
    shrinkage = settings["shrinkage"]
    if isinstance(shrinkage, Mapping):
        shrinkage = {mode: weight for mode, weight in shrinkage.items() if mode != "task"}
    elif isinstance(shrinkage, Sequence):
        pairs = zip(settings["modes"], shrinkage, strict=True)
        shrinkage = [weight for mode, weight in pairs if mode != "task"]
    without = {"modes": modes, "shrinkage": shrinkage, "start": 0.0}
    return {**settings, **without, "mean": "zero", "mean_strength": 0.0}
