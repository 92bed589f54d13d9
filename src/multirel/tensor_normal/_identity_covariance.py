"""The covariance of a mode whose entries are independent with variance one."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._covariance import (
    Covariance,
    ShrinkageTarget,
    check_shrinkage,
)
from multirel.tensor_normal._low_rank_covariance import LowRankCovariance
from multirel.tensor_normal._spectrum import Spectrum

__all__ = ["IdentityCovariance"]


@final
class IdentityCovariance(Covariance):
    """Σ = I: every product leaves its argument alone.

    Args:
        size: Size of the mode.
        dtype: Type of the numbers; None means torch's default.
        device: Where the numbers are; None means torch's default.

    Example:
        >>> IdentityCovariance(3).log_determinant()
        tensor(0.)
    """

    def __init__(
        self,
        size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if size < 1:
            raise ValueError(f"`size` must be at least 1: got {size}.")
        self._size = size
        self._one = torch.ones((), dtype=dtype, device=device)

    @property
    def size(self) -> int:
        return self._size

    @property
    def rank(self) -> int:
        return self._size

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size()

    @property
    def dtype(self) -> torch.dtype:
        return self._one.dtype

    @property
    def device(self) -> torch.device:
        return self._one.device

    def matvec(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        del batch_dims
        if x.shape[mode] != self._size:
            raise ValueError(
                f"`x` must have size {self._size} along mode {mode}: got {x.shape[mode]}."
            )
        return x

    solve = color = whiten = matvec

    def log_determinant(self) -> Float[Tensor, ""]:
        return torch.zeros_like(self._one)

    def diagonal(self) -> Float[Tensor, " d"]:
        return self._one.expand(self._size)

    def factor(self) -> Float[Tensor, "d d"]:
        return self.dense()

    def dense(self) -> Float[Tensor, "d d"]:
        return torch.eye(self._size, dtype=self.dtype, device=self.device)

    def precision_spectrum(self) -> Spectrum:
        nothing = self._one.new_empty(0)
        basis = nothing.reshape(self._size, 0)
        return Spectrum(basis=basis, inside=nothing, outside=self._one)

    def shrink(self, amount: float, target: ShrinkageTarget = "identity") -> "IdentityCovariance":
        check_shrinkage(amount, target)
        return self

    def scaled(self, factor: Float[Tensor, "*batch"] | float) -> LowRankCovariance:
        scale = self._one * factor
        shape = scale.shape
        return LowRankCovariance(
            self._one.new_zeros(*shape, self._size, 0), self._one.new_zeros(*shape, 0), scale
        )

    def normalized(self) -> "IdentityCovariance":
        return self

    def select(self, indices: Sequence[int]) -> "IdentityCovariance":
        return IdentityCovariance(len(indices), dtype=self.dtype, device=self.device)

    def condition(
        self, observed: Sequence[int], rest: Sequence[int]
    ) -> tuple[Float[Tensor, "rest observed"], Covariance]:
        return self._one.new_zeros(len(rest), len(observed)), self.select(rest)

    def to(self, *args: Any, **kwargs: Any) -> "IdentityCovariance":
        moved = self._one.to(*args, **kwargs)
        return IdentityCovariance(self._size, dtype=moved.dtype, device=moved.device)
