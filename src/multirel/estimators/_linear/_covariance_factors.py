"""Covariances as factors in numpy, which estimators keep and write out on request."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._span import SpanBasis
    from multirel.tensor_normal import Covariance

__all__ = ["CovarianceFactors", "restricted_spectrum"]


@dataclass(frozen=True, kw_only=True, eq=False)
class CovarianceFactors:
    """A covariance a·I + U diag(s − a) Uᵀ, with U of a few orthonormal columns."""

    basis: "NDArray[np.float64]"
    """U, "d k"; k = 0 for a multiple of the identity."""

    inside: "NDArray[np.float64]"
    """s, "k"."""

    outside: float
    """a, the variance of everything orthogonal to U."""

    @classmethod
    def identity(cls, size: int) -> "CovarianceFactors":
        """The identity of a mode."""
        return cls(basis=np.zeros((size, 0)), inside=np.zeros(0), outside=1.0)

    @classmethod
    def from_covariance(cls, covariance: "Covariance", n_kept: int) -> "CovarianceFactors":
        """The first rows and columns of a covariance that is a multiple of the identity in the others.

        Args:
            covariance: The covariance, of size d or more.
            n_kept: How many rows and columns are kept.
        """
        spectrum = covariance.precision_spectrum()
        # The pseudo-inverse of a singular covariance has zeros, and so has the covariance.
        inside, outside = _reciprocal(spectrum.inside), _reciprocal(spectrum.outside)
        basis, values, rest = restricted_spectrum(
            spectrum.basis.numpy(), inside.numpy(), float(outside), n_kept=n_kept
        )
        return cls(basis=basis, inside=values, outside=rest)

    @property
    def size(self) -> int:
        """The size d of the mode."""
        return len(self.basis)

    def rotated(self, basis: "NDArray[np.float64] | SpanBasis") -> "CovarianceFactors":
        """The covariance of Q w, "F", where this is that of w; the same multiple of I off the span of Q.

        Args:
            basis: Q, "F d", with orthonormal columns.
        """
        return replace(self, basis=basis @ self.basis)

    def dense(self) -> "NDArray[np.float64]":
        """The covariance written out, "d d"."""
        matrix = (self.basis * (self.inside - self.outside)) @ self.basis.T
        matrix = (matrix + matrix.T) / 2
        matrix[np.diag_indices(self.size)] += self.outside
        return matrix


def _reciprocal(values: "torch.Tensor") -> "torch.Tensor":
    return torch.where(values > 0, values, torch.inf).reciprocal()


def restricted_spectrum(
    basis: "NDArray[np.float64]", inside: "NDArray[np.float64]", outside: float, *, n_kept: int
) -> "tuple[NDArray[np.float64], NDArray[np.float64], float]":
    """Eigenvectors, eigenvalues, and the eigenvalue of the rest, of the first rows and columns of a matrix.

    The matrix is a·I + U diag(q − a) Uᵀ, and has no part of its own in the rows that are dropped.

    Args:
        basis: U, "d k".
        inside: q, "k".
        outside: a.
        n_kept: How many rows and columns are kept.
    """
    size, rank = basis.shape
    if n_kept == size or rank == 0:
        return basis[:n_kept], inside, outside
    if rank == size:
        # Where the basis is complete, the rest is what the dropped rows have on the diagonal.
        outside = float((basis[-1] ** 2) @ inside)
    kept = basis[:n_kept]
    if rank >= n_kept:
        left, triangle = np.eye(n_kept), kept
    else:
        left, triangle = np.linalg.qr(kept)
    core = (triangle * (inside - outside)) @ triangle.T
    values, vectors = np.linalg.eigh((core + core.T) / 2)
    return left @ vectors, values + outside, outside
