"""The interface that every covariance of one mode answers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._spectrum import Spectrum

__all__ = ["Covariance", "ShrinkageTarget", "check_shrinkage"]

ShrinkageTarget = Literal["identity", "constant-correlation"]


class Covariance(ABC):
    """Covariance Σ of one mode, or a batch of them, in whatever form is cheapest.

    The products act on axis `mode` of a tensor. Its first `batch_dims` axes are batch axes, against
    which the covariance's own batch axes broadcast; by default there are as many as it has.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Size d of the mode."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Rank of Σ: the size, unless Σ is singular."""

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """Shape of the batch, empty for a single covariance."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the numbers are."""

    @abstractmethod
    def matvec(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        """Σ x along `mode`."""

    @abstractmethod
    def solve(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        """Σ⁻¹ x along `mode`."""

    @abstractmethod
    def color(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        """F x along `mode`, where F Fᵀ = Σ: white noise gets covariance Σ."""

    @abstractmethod
    def whiten(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        """G x along `mode`, where Gᵀ G = Σ⁻¹: what has covariance Σ becomes white noise."""

    def project(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        """The part of `x` in the range of Σ: all of it, unless Σ is singular."""
        del mode, batch_dims
        return x

    def check(self, name: str) -> None:
        """Raise, naming the covariance, unless its numbers make a covariance."""
        del name

    @abstractmethod
    def log_determinant(self) -> Float[Tensor, "*batch"]:
        """Logarithm of the determinant of Σ."""

    @abstractmethod
    def diagonal(self) -> Float[Tensor, "*batch d"]:
        """The variances."""

    def trace(self) -> Float[Tensor, "*batch"]:
        """Sum of the variances."""
        return self.diagonal().sum(-1)

    @abstractmethod
    def factor(self) -> Float[Tensor, "*batch d d"]:
        """A matrix F with F Fᵀ = Σ, written out."""

    @abstractmethod
    def dense(self) -> Float[Tensor, "*batch d d"]:
        """Σ written out as a matrix."""

    @abstractmethod
    def precision_spectrum(self) -> Spectrum:
        """Eigenvectors and eigenvalues of Σ⁻¹ in their cheapest form."""

    @abstractmethod
    def shrink(self, amount: float, target: ShrinkageTarget = "identity") -> "Covariance":
        """(1 − α) Σ + α (tr Σ / d) T with α = `amount`: the trace stays.

        T is the identity, or (1 − ρ) I + ρ 11ᵀ with ρ = (1ᵀΣ1 − tr Σ) / ((d − 1) tr Σ): the nearest
        matrix to Σ, in the Frobenius norm, whose variances are equal and whose correlations are too.

        Args:
            amount: Weight α of the target, from 0 to 1.
            target: "identity" or "constant-correlation".

        Raises:
            ValueError: If `amount` is not from 0 to 1, or `target` is another word.
        """

    @abstractmethod
    def scaled(self, factor: Float[Tensor, "*batch"] | float) -> "Covariance":
        """Σ times a positive number."""

    def normalized(self) -> "Covariance":
        """Σ scaled to tr Σ = d."""
        return self.scaled(self.size / self.trace())

    @abstractmethod
    def select(self, indices: Sequence[int]) -> "Covariance":
        """Covariance of those entries of the mode alone."""

    @abstractmethod
    def condition(
        self, observed: Sequence[int], rest: Sequence[int]
    ) -> tuple[Float[Tensor, "*batch rest observed"], "Covariance"]:
        """The gain Σ_RO Σ_OO⁻¹ of the entries R = `rest`, and their covariance, given O = `observed`.

        `rest` holds every entry that `observed` does not.
        """

    @abstractmethod
    def to(self, *args: Any, **kwargs: Any) -> "Covariance":
        """The same on another device or with another dtype, as `Tensor.to`."""

    def __repr__(self) -> str:
        batch = f", batch_shape={tuple(self.batch_shape)}" if self.batch_shape else ""
        return f"{type(self).__name__}(size={self.size}{batch}, dtype={self.dtype})"


def check_shrinkage(amount: float, target: str) -> None:
    """Raise unless `amount` is a weight and `target` the name of a shrinkage target."""
    if not 0 <= amount <= 1:
        raise ValueError(f"`shrinkage` must be a weight: expected 0 to 1, got {amount}.")
    if target not in ("identity", "constant-correlation"):
        raise ValueError(
            f"`shrinkage_target` must be 'identity' or 'constant-correlation': got {target!r}."
        )
