"""The mean M of the prior: what the weights are pulled to."""

from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.priors._roundoff import without_roundoff
from multirel.tensor_normal import Spectrum, accurate_product

__all__ = ["InitialMean", "Mean", "TaskAverageMean", "ZeroMean"]


class Mean(ABC):
    """What the weights are pulled to."""

    @abstractmethod
    def deviation(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """W − M as far as M is fixed; the penalty acts on it through `task_spectrum`."""

    @abstractmethod
    def restored(self, deviation: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The weight that has this deviation."""

    def penalized(
        self, deviation: Float[Tensor, "*shape"], *, task_axis: int
    ) -> Float[Tensor, "*shape"]:
        """The part of `deviation` that costs something: it has the same penalty, with less roundoff."""
        del task_axis
        return deviation

    def task_rows(self, rows: Float[Tensor, "*copies T m"]) -> Float[Tensor, "*copies T m"]:
        """The rows that the task covariance is estimated from."""
        return rows

    def task_spectrum(self, spectrum: Spectrum) -> Spectrum:
        """The precision of the task mode as it acts on `deviation`."""
        return spectrum


@final
class ZeroMean(Mean):
    """M = 0, as in the paper."""

    def deviation(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return weight

    def restored(self, deviation: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return deviation


@final
class InitialMean(Mean):
    """M is the weights before training.

    Args:
        initial: These weights; broadcasts over the tasks where all of them started equal.
    """

    def __init__(self, initial: Float[Tensor, "*shape"]) -> None:
        self.initial = initial

    def deviation(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return weight - self.initial

    def restored(self, deviation: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return deviation + self.initial


@final
class TaskAverageMean(Mean):
    """M is the average over the tasks, live: the task precision becomes C Σ⁻¹ C + μ 11ᵀ/T.

    C = I − 11ᵀ/T takes the average off, so the shared part is penalized by μ alone.

    Args:
        strength: The weight μ ≥ 0 of the shared part.
    """

    def __init__(self, strength: float = 0.0) -> None:
        self.strength = strength

    def deviation(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return weight

    def restored(self, deviation: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return deviation

    def penalized(
        self, deviation: Float[Tensor, "*shape"], *, task_axis: int
    ) -> Float[Tensor, "*shape"]:
        return deviation if self.strength else _centered(deviation, task_axis)

    def task_rows(self, rows: Float[Tensor, "*copies T m"]) -> Float[Tensor, "*copies T m"]:
        return _centered(rows, -2)

    def task_spectrum(self, spectrum: Spectrum) -> Spectrum:
        if spectrum.is_complete:
            return self._complete(spectrum)
        return self._low_rank(spectrum)

    def _complete(self, spectrum: Spectrum) -> Spectrum:
        root = spectrum.basis * spectrum.inside.sqrt().unsqueeze(-2)
        centered = root - root.mean(-2, keepdim=True)
        size = spectrum.size
        matrix = centered @ centered.mT + self.strength / size
        values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
        values = without_roundoff(values, largest=values[..., -1:], size=size)
        return Spectrum(basis=vectors, inside=values, outside=torch.zeros_like(values[..., 0]))

    def _low_rank(self, spectrum: Spectrum) -> Spectrum:
        """C (a⁻¹ I + U (s⁻¹ − a⁻¹) Uᵀ) C + μ 11ᵀ/T, again low rank plus a multiple of the identity."""
        shape = (*spectrum.basis.shape[:-1], 1)
        ones = spectrum.basis.new_full(shape, spectrum.size**-0.5)
        centered = spectrum.basis - spectrum.basis.mean(-2, keepdim=True)
        outside = spectrum.outside.unsqueeze(-1)
        weights = torch.cat([spectrum.inside - outside, self.strength - outside], dim=-1)
        orthonormal, triangle = torch.linalg.qr(torch.cat([centered, ones], dim=-1))
        core = (triangle * weights.unsqueeze(-2)) @ triangle.mT
        values, vectors = torch.linalg.eigh((core + core.mT) / 2)
        inside = values + outside
        largest = torch.maximum(inside.amax(-1, keepdim=True), outside)
        inside = without_roundoff(inside, largest=largest, size=spectrum.size)
        basis = accurate_product(orthonormal, vectors)
        return Spectrum(basis=basis, inside=inside, outside=spectrum.outside)


def _centered(values: Tensor, axis: int) -> Tensor:
    """`values` without their average along `axis`: exactly zero where all are equal."""
    differences = values - values.narrow(axis, 0, 1)
    return differences - differences.mean(axis, keepdim=True)
