"""Quadratic penalties whose precision is a Kronecker product, with a spectrum per mode."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from multirel.tensor_normal import Spectrum

__all__ = ["ModeSpectrum", "QuadraticPenalty"]

MODES = ("task", "output", "input")


@dataclass(frozen=True, kw_only=True, eq=False)
class ModeSpectrum:
    """The precision of one mode by its eigenvalues ≥ 0: a·I + U diag(q − a) Uᵀ."""

    basis: "NDArray[np.float64] | None" = None
    """U, "d k": orthonormal eigenvectors; None for a multiple of the identity."""

    inside: "NDArray[np.float64]"
    """q, "k": the eigenvalues that belong to the basis; 0 where nothing is penalized."""

    outside: float
    """a: the eigenvalue of everything orthogonal to the basis; means nothing where k = d."""

    @classmethod
    def identity(cls, value: float = 1.0) -> "ModeSpectrum":
        """The precision value · I."""
        return cls(inside=np.zeros(0), outside=value)

    @classmethod
    def from_spectrum(cls, spectrum: "Spectrum") -> "ModeSpectrum":
        """The same precision as a spectrum of tensors."""
        basis = spectrum.basis.detach().cpu().double().numpy()
        return cls(
            basis=None if basis.shape[-1] == 0 else basis,
            inside=spectrum.inside.detach().cpu().double().numpy(),
            outside=float(spectrum.outside),
        )

    @classmethod
    def from_covariance(cls, covariance: "NDArray[np.float64]") -> "ModeSpectrum":
        """The inverse of a positive definite matrix, "d d"."""
        values, vectors = np.linalg.eigh(covariance)
        return cls(basis=vectors, inside=1 / values, outside=1.0)

    @classmethod
    def from_precision(cls, precision: "NDArray[np.float64]") -> "ModeSpectrum":
        """A positive semidefinite matrix, "d d", as a precision."""
        values, vectors = np.linalg.eigh(precision)
        # What is negative by roundoff is zero.
        smallest = len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0)
        return cls(basis=vectors, inside=np.where(values > smallest, values, 0), outside=0.0)

    @property
    def is_complete(self) -> bool:
        """Whether the basis spans everything."""
        return self.basis is not None and self.basis.shape[0] == self.basis.shape[1]

    @property
    def is_multiple_of_identity(self) -> bool:
        """Whether all eigenvalues are the same."""
        if self.basis is None:
            return True
        reference = self.inside[0] if self.is_complete else self.outside
        return bool((self.inside == reference).all())

    @property
    def smallest(self) -> float:
        """The smallest eigenvalue."""
        return float(min(self._values()))

    @property
    def largest(self) -> float:
        """The largest eigenvalue."""
        return float(max(self._values()))

    def dense(self, size: int) -> "NDArray[np.float64]":
        """The precision as a matrix, "d d".

        Args:
            size: The size d of the mode.
        """
        return self.product(np.eye(size), axis=0)

    def product(
        self, values: "NDArray[np.float64]", axis: int, *, power: float = 1.0
    ) -> "NDArray[np.float64]":
        """The precision to a power, times `values` along an axis; for powers < 0, on its range only."""
        return self.apply(values, axis, lambda eigenvalues: _power(eigenvalues, power))

    def apply(
        self,
        values: "NDArray[np.float64]",
        axis: int,
        function: "Callable[[NDArray[np.float64]], NDArray[np.float64]]",
    ) -> "NDArray[np.float64]":
        """A function of the precision, times `values` along an axis."""
        outside = float(function(np.array([self.outside]))[0]) if not self.is_complete else 0.0
        if self.basis is None:
            return outside * values
        weighted = self.basis * (function(self.inside) - outside)
        moved = np.moveaxis(values, axis, -1)
        changed = (moved @ self.basis) @ weighted.T
        if outside != 0:
            changed = changed + outside * moved
        return np.moveaxis(changed, -1, axis)

    def _values(self) -> list[float]:
        return [*self.inside.tolist(), *([] if self.is_complete else [self.outside])]


def _power(eigenvalues: "NDArray[np.float64]", power: float) -> "NDArray[np.float64]":
    if power >= 0:
        return eigenvalues**power
    positive = eigenvalues > 0
    return np.where(positive, np.where(positive, eigenvalues, 1.0) ** power, 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticPenalty:
    r"""The penalty of weights W, "T C r", with a precision per mode.

    $$\tfrac{s}{2}\langle W, (P_T\otimes P_O\otimes P_I)W\rangle$$
    """

    strength: float
    """s ≥ 0, the λ/N of a prior."""

    task: ModeSpectrum
    """P_T."""

    output: ModeSpectrum
    """P_O."""

    input: ModeSpectrum
    """P_I, in the coordinates of the problem."""

    @classmethod
    def ridge(cls, strength: float) -> "QuadraticPenalty":
        """The penalty s/2 ‖W‖²."""
        one = ModeSpectrum.identity()
        return cls(strength=strength, task=one, output=one, input=one)

    @property
    def modes(self) -> tuple[ModeSpectrum, ModeSpectrum, ModeSpectrum]:
        """The precisions of the axes of W."""
        return self.task, self.output, self.input

    @property
    def is_singular(self) -> bool:
        """Whether some weights are not penalized."""
        return self.strength == 0 or any(mode.smallest == 0 for mode in self.modes)

    def product(self, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The gradient s·P W."""
        return self.strength * self.power_product(weights, 1.0)

    def value(self, weights: "NDArray[np.float64]") -> float:
        """s/2 ⟨W, P W⟩."""
        return float(np.vdot(weights, self.product(weights))) / 2

    def power_product(self, weights: "NDArray[np.float64]", power: float) -> "NDArray[np.float64]":
        """P^power W without the strength: −½ whitens; negative powers act on the range of P only."""
        for axis, mode in enumerate(self.modes):
            weights = mode.product(weights, axis, power=power)
        return weights
