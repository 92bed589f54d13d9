"""A covariance that may be singular, inverted on its range only."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.exceptions import NotPositiveDefiniteError
from multirel.tensor_normal._checks import check_finite, check_matrix
from multirel.tensor_normal._covariance import Covariance, ShrinkageTarget
from multirel.tensor_normal._matrix_shrinkage import shrink_matrix, symmetrize
from multirel.tensor_normal._modes import mode_product
from multirel.tensor_normal._spectrum import Spectrum

__all__ = ["PseudoInverseCovariance"]

ROUNDOFF_GROWTH = 100
"""How much larger the roundoff of a Schur complement may be than that of what it comes from."""


@final
class PseudoInverseCovariance(Covariance):
    """Σ with Σ⁺ in the place of Σ⁻¹: what lies off the range of Σ costs nothing.

    Args:
        matrix: Symmetric positive semidefinite matrix, or a batch of them with one rank.
        tolerance: Eigenvalues up to this share of the largest count as zero. None means the size
            times the machine epsilon.

    Raises:
        NotPositiveDefiniteError: If an eigenvalue is below zero by more than the tolerance, or none
            is above it.
        ValueError: If the matrices of a batch have different ranks.

    Example:
        >>> PseudoInverseCovariance(torch.tensor([[2.0, 0.0], [0.0, 0.0]])).solve(torch.ones(2))
        tensor([0.5000, 0.0000])
    """

    def __init__(
        self, matrix: Float[Tensor, "*batch d d"], *, tolerance: float | None = None
    ) -> None:
        check_matrix("matrix", matrix)
        check_finite("matrix", matrix)
        self.matrix = matrix
        self.tolerance = tolerance
        values, vectors = torch.linalg.eigh(symmetrize(matrix))
        roundoff = matrix.shape[-1] * torch.finfo(matrix.dtype).eps
        self._cutoff_share = roundoff if tolerance is None else tolerance
        cutoff = self._cutoff_share * values[..., -1:].abs()
        if bool((values[..., :1] < -cutoff).any()) or bool((values[..., -1] <= 0).any()):
            raise NotPositiveDefiniteError(
                f"`matrix` of size {matrix.shape[-1]} must be positive semidefinite and not zero: "
                f"got eigenvalues from {float(values.min()):.3g} to {float(values.max()):.3g}."
            )
        ranks = (values > cutoff).sum(-1)
        self._rank = int(ranks.max())
        if int(ranks.min()) != self._rank:
            raise ValueError(
                f"`matrix` must have one rank across its batch: got {int(ranks.min())} to "
                f"{self._rank}. Use one PseudoInverseCovariance per rank."
            )
        self._values: Tensor = values[..., -self._rank :]
        self._basis: Tensor = vectors[..., -self._rank :]

    @property
    def size(self) -> int:
        return self.matrix.shape[-1]

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def batch_shape(self) -> torch.Size:
        return self.matrix.shape[:-2]

    @property
    def dtype(self) -> torch.dtype:
        return self.matrix.dtype

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    def _range_product(
        self, x: Tensor, mode: int, batch_dims: int | None, weights: Tensor
    ) -> Tensor:
        """U diag(weights) Uᵀ x along `mode`."""
        batch_dims = len(self.batch_shape) if batch_dims is None else batch_dims
        span = mode_product(x, self._basis.mT, mode, batch_dims=batch_dims)
        weighted = self._basis * weights.unsqueeze(-2)
        return mode_product(span, weighted, mode, batch_dims=batch_dims)

    def matvec(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return self._range_product(x, mode, batch_dims, self._values)

    def solve(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return self._range_product(x, mode, batch_dims, self._values.reciprocal())

    def color(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return self._range_product(x, mode, batch_dims, self._values.sqrt())

    def whiten(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return self._range_product(x, mode, batch_dims, self._values.rsqrt())

    def project(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return self._range_product(x, mode, batch_dims, torch.ones_like(self._values))

    def log_determinant(self) -> Float[Tensor, "*batch"]:
        """Logarithm of the pseudo-determinant: the product of the eigenvalues above zero."""
        return self._values.log().sum(-1)

    def diagonal(self) -> Float[Tensor, "*batch d"]:
        return self.matrix.diagonal(dim1=-2, dim2=-1)

    def factor(self) -> Float[Tensor, "*batch d d"]:
        return (self._basis * self._values.sqrt().unsqueeze(-2)) @ self._basis.mT

    def dense(self) -> Float[Tensor, "*batch d d"]:
        return self.matrix

    def precision_spectrum(self) -> Spectrum:
        """Eigenvectors of Σ⁺; off the range its eigenvalue is 0."""
        precisions = self._values.reciprocal()
        return Spectrum(
            basis=self._basis, inside=precisions, outside=torch.zeros_like(precisions[..., 0])
        )

    def shrink(
        self, amount: float, target: ShrinkageTarget = "identity"
    ) -> "PseudoInverseCovariance":
        return PseudoInverseCovariance(
            shrink_matrix(self.matrix, amount, target), tolerance=self.tolerance
        )

    def scaled(self, factor: Float[Tensor, "*batch"] | float) -> "PseudoInverseCovariance":
        factor = torch.as_tensor(factor, dtype=self.dtype, device=self.device)
        return PseudoInverseCovariance(
            self.matrix * factor[..., None, None], tolerance=self.tolerance
        )

    def select(self, indices: Sequence[int]) -> "PseudoInverseCovariance":
        rows = torch.as_tensor(indices, device=self.device)
        return PseudoInverseCovariance(
            self.matrix.index_select(-2, rows).index_select(-1, rows), tolerance=self.tolerance
        )

    def condition(
        self, observed: Sequence[int], rest: Sequence[int]
    ) -> tuple[Float[Tensor, "*batch rest observed"], Covariance]:
        rows = torch.as_tensor(rest, device=self.device)
        columns = torch.as_tensor(observed, device=self.device)
        cross = self.matrix.index_select(-2, rows).index_select(-1, columns)
        gain = self.select(observed).solve(cross, batch_dims=len(self.batch_shape))
        schur = symmetrize(self.select(rest).matrix - gain @ cross.mT)
        # What is left may be small beside what it was computed from: roundoff is judged by the latter.
        left = torch.linalg.eigvalsh(schur)[..., -1].clamp(min=torch.finfo(self.dtype).tiny)
        share = ROUNDOFF_GROWTH * self._cutoff_share
        tolerance = share * float((self._values[..., -1] / left).max().detach())
        if tolerance >= 1:
            raise NotPositiveDefiniteError(
                f"`index` must leave slices with some variance: the observed slices "
                f"{[*observed]} determine all others."
            )
        return gain, PseudoInverseCovariance(schur, tolerance=tolerance)

    def to(self, *args: Any, **kwargs: Any) -> "PseudoInverseCovariance":
        return PseudoInverseCovariance(self.matrix.to(*args, **kwargs), tolerance=self.tolerance)
