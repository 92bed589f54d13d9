"""A covariance that is low rank plus a multiple of the identity."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.exceptions import NotPositiveDefiniteError
from multirel.tensor_normal._checks import check_matrix
from multirel.tensor_normal._covariance import (
    Covariance,
    ShrinkageTarget,
    check_shrinkage,
)
from multirel.tensor_normal._modes import broadcast_shapes
from multirel.tensor_normal._precision import accurate_product
from multirel.tensor_normal._spectrum import Spectrum, spectral_product

__all__ = ["LowRankCovariance"]


@final
class LowRankCovariance(Covariance):
    """Σ = U diag(s) Uᵀ + a (I − U Uᵀ): every product costs O(D·r) and never completes the basis.

    Args:
        basis: Orthonormal columns U, shape (…, d, r); r may be 0.
        eigenvalues: Eigenvalues s > 0 on the span of `basis`, shape (…, r).
        complement: Eigenvalue a > 0 of everything orthogonal to it, a scalar or shape (…).

    Gradients of marginals and conditionals pass through eigenvectors of a small matrix, so they are NaN
    where two of its eigenvalues coincide; a `DenseCovariance` has them everywhere.

    Raises:
        ValueError: If the shapes do not match.
        NotPositiveDefiniteError: If an eigenvalue is not above 0.

    Example:
        >>> basis = torch.tensor([[1.0], [0.0], [0.0]])
        >>> LowRankCovariance(basis, torch.tensor([4.0]), 2.0).solve(torch.ones(3))
        tensor([0.2500, 0.5000, 0.5000])
    """

    def __init__(
        self,
        basis: Float[Tensor, "*batch d r"],
        eigenvalues: Float[Tensor, "*batch r"],
        complement: Float[Tensor, "*batch"] | float,
    ) -> None:
        complement = torch.as_tensor(complement, dtype=basis.dtype, device=basis.device)
        if basis.ndim < 2 or basis.shape[-1] > basis.shape[-2]:  # noqa: PLR2004
            raise ValueError(
                f"`basis` must have at most as many columns as rows: got shape "
                f"{tuple(basis.shape)}."
            )
        if eigenvalues.shape[-1:] != basis.shape[-1:]:
            raise ValueError(
                f"`eigenvalues` must have one entry per column of `basis`: expected "
                f"{basis.shape[-1]}, got {tuple(eigenvalues.shape[-1:])}."
            )
        batch = broadcast_shapes(basis.shape[:-2], eigenvalues.shape[:-1], complement.shape)
        self.basis = basis.expand(*batch, *basis.shape[-2:])
        self.eigenvalues = eigenvalues.expand(*batch, eigenvalues.shape[-1])
        self.complement = complement.expand(batch)
        if not torch.compiler.is_compiling():
            self._check_positive()

    @classmethod
    def from_matrix(cls, matrix: Float[Tensor, "*batch d d"], rank: int) -> "LowRankCovariance":
        """The `rank` largest eigenvalues of `matrix`, and a complement that keeps its trace."""
        check_matrix("matrix", matrix)
        size = matrix.shape[-1]
        if not 0 <= rank < size:
            raise ValueError(
                f"`rank` must be below the size of `matrix`: expected 0 to {size - 1}, got {rank}."
            )
        values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
        complement = values[..., : size - rank].mean(-1)
        return cls(vectors[..., size - rank :], values[..., size - rank :], complement)

    @classmethod
    def from_update(
        cls,
        columns: Float[Tensor, "*batch d m"],
        weights: Float[Tensor, "*batch m"],
        complement: Float[Tensor, "*batch"],
    ) -> "LowRankCovariance":
        """B diag(w) Bᵀ + a I for any columns B, brought to orthonormal columns.

        Gradients are NaN where two eigenvalues of the small matrix between the columns coincide.
        """
        basis, triangle = torch.linalg.qr(columns)
        core = (triangle * weights.unsqueeze(-2)) @ triangle.mT
        values, vectors = torch.linalg.eigh((core + core.mT) / 2)
        basis = accurate_product(basis, vectors)
        return cls(basis, values + complement.unsqueeze(-1), complement)

    def _check_positive(self) -> None:
        values = torch.cat(
            [self.eigenvalues.detach().flatten(), self.complement.detach().flatten()]
        )
        # One number is read from the device, not one per tensor: each waits for all work before it.
        smallest = float(values.min()) if values.numel() else float("inf")
        if not smallest > 0:
            raise NotPositiveDefiniteError(
                f"`eigenvalues` and `complement` must be positive in a covariance of size "
                f"{self.size}: got a smallest eigenvalue of {smallest:.3g}."
            )

    @property
    def size(self) -> int:
        return self.basis.shape[-2]

    @property
    def rank(self) -> int:
        return self.size

    @property
    def batch_shape(self) -> torch.Size:
        return self.basis.shape[:-2]

    @property
    def dtype(self) -> torch.dtype:
        return self.basis.dtype

    @property
    def device(self) -> torch.device:
        return self.basis.device

    def _spectral_product(
        self, x: Tensor, mode: int, batch_dims: int | None, inside: Tensor, outside: Tensor
    ) -> Tensor:
        """[U diag(f) Uᵀ + g (I − U Uᵀ)] x along `mode`, with f = `inside` and g = `outside`."""
        batch_dims = len(self.batch_shape) if batch_dims is None else batch_dims
        if x.shape[mode] != self.size:
            raise ValueError(
                f"`x` must have size {self.size} along mode {mode}: got {x.shape[mode]}."
            )
        return spectral_product(
            x, self.basis, mode=mode, batch_dims=batch_dims, inside=inside, outside=outside
        )

    def matvec(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return self._spectral_product(x, mode, batch_dims, self.eigenvalues, self.complement)

    def solve(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        inside, outside = self.eigenvalues.reciprocal(), self.complement.reciprocal()
        return self._spectral_product(x, mode, batch_dims, inside, outside)

    def color(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        inside, outside = self.eigenvalues.sqrt(), self.complement.sqrt()
        return self._spectral_product(x, mode, batch_dims, inside, outside)

    def whiten(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        inside, outside = self.eigenvalues.rsqrt(), self.complement.rsqrt()
        return self._spectral_product(x, mode, batch_dims, inside, outside)

    def check(self, name: str) -> None:
        basis = self.basis.detach()
        identity = torch.eye(basis.shape[-1], dtype=self.dtype, device=self.device)
        gap = float((basis.mT @ basis - identity).abs().max()) if identity.numel() else 0.0
        if not gap <= torch.finfo(self.dtype).eps ** 0.5:
            raise ValueError(
                f"`basis` of `{name}` must have orthonormal columns: expected Uᵀ U = I, got a "
                f"difference of {gap:.3g}. Use `torch.linalg.qr`."
            )

    def log_determinant(self) -> Float[Tensor, "*batch"]:
        n_outside = self.size - self.basis.shape[-1]
        return self.eigenvalues.log().sum(-1) + n_outside * self.complement.log()

    def diagonal(self) -> Float[Tensor, "*batch d"]:
        excess = self.eigenvalues - self.complement.unsqueeze(-1)
        return (self.basis.square() @ excess.unsqueeze(-1)).squeeze(-1) + self.complement.unsqueeze(
            -1
        )

    def trace(self) -> Float[Tensor, "*batch"]:
        n_outside = self.size - self.basis.shape[-1]
        return self.eigenvalues.sum(-1) + n_outside * self.complement

    def _written_out(self, inside: Tensor, outside: Tensor) -> Tensor:
        identity = torch.eye(self.size, dtype=self.dtype, device=self.device)
        weighted = self.basis * (inside - outside.unsqueeze(-1)).unsqueeze(-2)
        return weighted @ self.basis.mT + outside[..., None, None] * identity

    def factor(self) -> Float[Tensor, "*batch d d"]:
        return self._written_out(self.eigenvalues.sqrt(), self.complement.sqrt())

    def dense(self) -> Float[Tensor, "*batch d d"]:
        return self._written_out(self.eigenvalues, self.complement)

    def precision_spectrum(self) -> Spectrum:
        return Spectrum(
            basis=self.basis,
            inside=self.eigenvalues.reciprocal(),
            outside=self.complement.reciprocal(),
        )

    def shrink(self, amount: float, target: ShrinkageTarget = "identity") -> "LowRankCovariance":
        check_shrinkage(amount, target)
        variance = self.trace() / self.size
        complement = (1 - amount) * self.complement + amount * variance
        if target == "identity":
            shrunk = (1 - amount) * self.eigenvalues + amount * variance.unsqueeze(-1)
            return self._with_spectrum(shrunk, complement)
        ones = self.basis.new_ones(*self.batch_shape, self.size, 1)
        total = self.matvec(ones.squeeze(-1)).sum(-1)
        covariance = (total - self.trace()) / max(self.size * (self.size - 1), 1)
        excess = (1 - amount) * (self.eigenvalues - self.complement.unsqueeze(-1))
        return LowRankCovariance.from_update(
            torch.cat([self.basis, ones], dim=-1),
            torch.cat([excess, amount * covariance.unsqueeze(-1)], dim=-1),
            complement - amount * covariance,
        )

    def _with_spectrum(self, eigenvalues: Tensor, complement: Tensor) -> "LowRankCovariance":
        """The same basis with other eigenvalues of the same shape, known to be positive."""
        other = object.__new__(LowRankCovariance)
        other.basis, other.eigenvalues, other.complement = self.basis, eigenvalues, complement
        return other

    def scaled(self, factor: Float[Tensor, "*batch"] | float) -> "LowRankCovariance":
        factor = torch.as_tensor(factor, dtype=self.dtype, device=self.device)
        return LowRankCovariance(
            self.basis, self.eigenvalues * factor.unsqueeze(-1), self.complement * factor
        )

    def select(self, indices: Sequence[int]) -> "LowRankCovariance":
        rows = torch.as_tensor(indices, device=self.device)
        excess = self.eigenvalues - self.complement.unsqueeze(-1)
        return LowRankCovariance.from_update(
            self.basis.index_select(-2, rows), excess, self.complement
        )

    def condition(
        self, observed: Sequence[int], rest: Sequence[int]
    ) -> tuple[Float[Tensor, "*batch rest observed"], Covariance]:
        seen = self.basis.index_select(-2, torch.as_tensor(observed, device=self.device))
        kept = self.basis.index_select(-2, torch.as_tensor(rest, device=self.device))
        excess = self.eigenvalues - self.complement.unsqueeze(-1)
        cross = (kept * excess.unsqueeze(-2)) @ seen.mT
        gain = self.select(observed).solve(cross)
        # The precision of the rest, given the observed, is that part of the whole precision.
        inside, outside = self.eigenvalues.reciprocal(), self.complement.reciprocal()
        precision = LowRankCovariance.from_update(kept, inside - outside.unsqueeze(-1), outside)
        return gain, LowRankCovariance(
            precision.basis, precision.eigenvalues.reciprocal(), self.complement
        )

    def to(self, *args: Any, **kwargs: Any) -> "LowRankCovariance":
        return LowRankCovariance(
            self.basis.to(*args, **kwargs),
            self.eigenvalues.to(*args, **kwargs),
            self.complement.to(*args, **kwargs),
        )
