"""The scatter Sₖ of a mode, which its covariance is estimated from; axes in front are copies."""

from typing import Protocol, final, runtime_checkable

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal import accurate_product

__all__ = ["DenseScatter", "RowScatter", "Scatter"]

OVERSAMPLING = 16
"""Columns that the range finder draws beyond the rank it is asked for."""

SEED = 0
"""Of the range finder's own random numbers, so that updates are repeatable."""


@runtime_checkable
class Scatter(Protocol):
    """Sₖ, written out or not."""

    @property
    def size(self) -> int:
        """Size d of the mode."""

    def trace(self) -> Float[Tensor, "*copies"]:
        """tr Sₖ."""

    def dense(self) -> Float[Tensor, "*copies d d"]:
        """Sₖ as a matrix, symmetric to the last bit."""

    def largest(self, rank: int) -> tuple[Float[Tensor, "*copies d r"], Float[Tensor, "*copies r"]]:
        """Eigenvectors of the `rank` largest eigenvalues, and these; fewer if all others are zero."""


@final
class DenseScatter:
    """Sₖ as a matrix."""

    def __init__(self, matrix: Float[Tensor, "*copies d d"]) -> None:
        self._matrix = matrix

    @property
    def size(self) -> int:
        return self._matrix.shape[-1]

    def trace(self) -> Float[Tensor, "*copies"]:
        return self._matrix.diagonal(dim1=-2, dim2=-1).sum(-1)

    def dense(self) -> Float[Tensor, "*copies d d"]:
        return self._matrix

    def largest(self, rank: int) -> tuple[Float[Tensor, "*copies d r"], Float[Tensor, "*copies r"]]:
        values, vectors = torch.linalg.eigh(self._matrix)
        return vectors[..., -rank:].contiguous(), values[..., -rank:].clamp(min=0)


@final
class RowScatter:
    """Sₖ = A Aᵀ / m for rows A (d × m) that are white in all other modes; formed only when asked for."""

    def __init__(self, rows: Float[Tensor, "*copies d m"]) -> None:
        self._rows = rows
        self._trace: Tensor | None = None

    @property
    def size(self) -> int:
        return self._rows.shape[-2]

    @property
    def _n_columns(self) -> int:
        return self._rows.shape[-1]

    def trace(self) -> Float[Tensor, "*copies"]:
        if self._trace is None:
            self._trace = self._rows.square().sum((-2, -1)) / self._n_columns
        return self._trace

    def dense(self) -> Float[Tensor, "*copies d d"]:
        product = self._rows @ self._rows.mT
        return (product + product.mT) / (2 * self._n_columns)

    def largest(self, rank: int) -> tuple[Float[Tensor, "*copies d r"], Float[Tensor, "*copies r"]]:
        """By a randomized range finder: two passes over the rows, Sₖ is never formed.

        Where there are few columns they span the range themselves, and there are no more eigenvalues than
        columns.
        """
        rows = self._rows
        if rank + OVERSAMPLING >= self.size:
            return DenseScatter(self.dense()).largest(rank)
        basis = torch.linalg.qr(self._range(rank + OVERSAMPLING)).Q
        inner = basis.mT @ rows
        values, vectors = torch.linalg.eigh(inner @ inner.mT)
        eigenvectors = accurate_product(basis, vectors[..., -rank:])
        return eigenvectors, values[..., -rank:].clamp(min=0) / self._n_columns

    def _range(self, n_directions: int) -> Tensor:
        """Columns that span the range of the rows, nearly so if the rows have more than `n_directions`."""
        rows = self._rows
        if self._n_columns <= n_directions:
            return rows
        generator = torch.Generator(device=rows.device).manual_seed(SEED)
        noise = torch.randn(
            self._n_columns,
            n_directions,
            dtype=rows.dtype,
            device=rows.device,
            generator=generator,
        )
        return rows @ noise
