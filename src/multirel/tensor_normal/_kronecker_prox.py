r"""The proximal step of one prior for many step sizes, in place: what does not depend on the step is kept.

Large matrices in low rank take two reads, and two passes that read and write. With precisions
$Q_1\otimes Q_2\otimes Q_3$, of which the last two are low rank plus a multiple of the identity,

$$V=\big(W-U_2X-YU_3^\top\big)\times_1 G,$$

where $X$ and $Y$ are made of $U_2^\top W$ and $W U_3$, which are small, and $G$ is the step of the first mode
where both others are off their spans, as small as that mode.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import final

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._mix_first_mode import mix_first_mode_
from multirel.tensor_normal._modes import mode_product
from multirel.tensor_normal._precision import accurate_product
from multirel.tensor_normal._spectrum import Spectrum, is_short_step, spectral_prox

__all__ = ["KroneckerProx"]

FEW_WEIGHTS = 2**20
"""Stacks of at most so many weights keep the eigenvalue of every entry."""

SMALL_MODE = 64
"""Neighboring modes whose product has at most this size are rotated as one."""


@final
class KroneckerProx:
    """The step W ← (I + c Q₁ ⊗ … ⊗ Q_K)⁻¹ W, computed in the way that is fastest for these precisions.

    Args:
        spectra: Eigenvectors and eigenvalues of the precision Qₖ of each mode.

    Example:
        >>> from multirel.tensor_normal import DenseCovariance
        >>> weight = torch.ones(2, 3)
        >>> spectra = [DenseCovariance(torch.eye(d)).precision_spectrum() for d in weight.shape]
        >>> KroneckerProx(spectra).apply_(weight, 1.0)
        >>> weight[0]
        tensor([0.5000, 0.5000, 0.5000])
    """

    def __init__(self, spectra: Sequence[Spectrum]) -> None:
        self._spectra = tuple(spectra)
        self._way: _Way | None = None
        for way in (_Rotation, _OneLowRank, _TwoLowRanks):
            if self._way is None and way.fits(self._spectra):
                self._way = way(self._spectra)

    def apply_(
        self, weight: Float[Tensor, "*shape"], step: Float[Tensor, "*batch"] | float
    ) -> None:
        """Replace `weight`, whose trailing axes are the modes.

        Args:
            weight: The tensor.
            step: The step size c ≥ 0, one for all or one per batch entry.
        """
        is_plain = weight.ndim == len(self._spectra) and weight.is_contiguous()
        if self._way is not None and is_plain and is_short_step(self._spectra, step):
            self._way.apply_(weight, float(step))
        else:
            weight.copy_(spectral_prox(self._spectra, weight, step))


class _Way(ABC):
    """A way to take a short step, which is a correction of the weights."""

    @abstractmethod
    def __init__(self, spectra: Sequence[Spectrum]) -> None:
        """Keep what does not depend on the step."""

    @classmethod
    @abstractmethod
    def fits(cls, spectra: Sequence[Spectrum]) -> bool:
        """Whether precisions of this form can be treated in this way."""

    @abstractmethod
    def apply_(self, weight: Tensor, step: float) -> None:
        """Take the step."""


class _Shares:
    """k = c q / (1 + c q) for rates q, kept as long as the step size c stays the same.

    Small stacks are bound by the launches of their kernels, and constant learning rates spare some.
    """

    def __init__(self, rates: Tensor) -> None:
        self._rates = rates
        self._step: float | None = None
        self._shares = rates

    def at(self, step: float) -> Tensor:
        """The shares for a step size."""
        if step != self._step:
            product = step * self._rates
            self._step, self._shares = step, product / (1 + product)
        return self._shares


@final
class _Rotation(_Way):
    """All modes rotated to their eigenvectors and back: V = W − U (k ∘ Uᵀ W), k = c q / (1 + c q)."""

    def __init__(self, spectra: Sequence[Spectrum]) -> None:
        self._bases, values = _merged(spectra)
        self._sizes = tuple(len(value) for value in values)
        rates = values[0]
        for value in values[1:]:
            rates = rates.unsqueeze(-1) * value
        self._shares = _Shares(rates)

    @classmethod
    def fits(cls, spectra: Sequence[Spectrum]) -> bool:
        n_weights = prod(spectrum.size for spectrum in spectra)
        return n_weights <= FEW_WEIGHTS and all(_is_whole(spectrum) for spectrum in spectra)

    def apply_(self, weight: Tensor, step: float) -> None:
        rotated = weight.view(self._sizes)
        for axis, basis in enumerate(self._bases):
            if basis is not None:
                rotated = mode_product(rotated, basis.mT, axis, batch_dims=0)
        rotated = rotated * self._shares.at(step)
        for axis, basis in enumerate(self._bases):
            if basis is not None:
                rotated = mode_product(rotated, basis, axis, batch_dims=0)
        weight.view(self._sizes).sub_(rotated)


@final
class _OneLowRank(_Way):
    """The last mode in low rank, and all in front of it rotated as one."""

    def __init__(self, spectra: Sequence[Spectrum]) -> None:
        *front, last = spectra
        (self._front,), (values,) = _merged(front, limit=None)
        self._basis = last.basis
        # The rate off the span, and those on it.
        rates = torch.cat([last.outside.reshape(1), last.inside])
        self._shares = _Shares(values.unsqueeze(1) * rates)

    @classmethod
    def fits(cls, spectra: Sequence[Spectrum]) -> bool:
        *front, last = spectra
        n_front = prod(spectrum.size for spectrum in front)
        is_small = len(front) == 1 or (len(front) > 1 and n_front <= SMALL_MODE)
        return is_small and all(_is_whole(spectrum) for spectrum in front) and _is_partial(last)

    def apply_(self, weight: Tensor, step: float) -> None:
        shares = self._shares.at(step)
        k_off, k_on = shares[:, :1], shares[:, 1:]
        flat = weight.view(len(shares), -1)
        rotated = flat if self._front is None else self._front.mT @ flat
        span = (k_on - k_off) * (rotated @ self._basis)
        taken = torch.addmm(k_off * rotated, span, self._basis.mT)
        if self._front is None:
            flat.sub_(taken)
        else:
            flat.addmm_(self._front, taken, alpha=-1)


@final
class _TwoLowRanks(_Way):
    """The last two of three modes in low rank: no copy of the weights is made."""

    def __init__(self, spectra: Sequence[Spectrum]) -> None:
        first, second, third = spectra
        (self._first,), (values,) = _merged([first], limit=None)
        self._left, self._right = second.basis, third.basis
        off = values * second.outside * third.outside
        left = values[:, None] * second.inside * third.outside
        right = values[:, None] * second.outside * third.inside
        both = values[:, None, None] * second.inside[:, None] * third.inside
        self._off = off
        # The rates on each span, and what they exceed those off all spans by.
        self._on_left = left[:, :, None], (left - off[:, None])[:, :, None]
        self._on_right = right[:, None, :], (right - off[:, None])[:, None, :]
        self._on_both = both, both - off[:, None, None]

    @classmethod
    def fits(cls, spectra: Sequence[Spectrum]) -> bool:
        if len(spectra) != 3:  # noqa: PLR2004
            return False
        first, *others = spectra
        return _is_whole(first) and all(_is_partial(spectrum) for spectrum in others)

    def apply_(self, weight: Tensor, step: float) -> None:
        # G undoes what it does to the corrections, (1 + c q) (k − k_off) = c (q − q_off) / (1 + c q), so
        # that it may act on everything at once.
        in_left, in_right, in_both = (
            step * excess / (1 + step * rate)
            for rate, excess in (self._on_left, self._on_right, self._on_both)
        )
        from_left = self._left.mT @ weight
        x = self._along_first(in_left, from_left)
        y = self._along_first(in_right, weight @ self._right)
        both = self._along_first(in_both - in_left - in_right, from_left @ self._right)
        x = x + both @ self._right.mT
        left = torch.cat([self._left.expand(len(y), *self._left.shape), y], dim=2)
        right = torch.cat([x, self._right.mT.expand(len(x), *self._right.mT.shape)], dim=1)
        kept = 1 / (1 + step * self._off)
        weight.baddbmm_(left, right, alpha=-1)
        if self._first is None:
            weight.mul_(kept[0])
        else:
            mix_first_mode_(weight, accurate_product(self._first * kept, self._first.mT))

    def _along_first(self, factor: Tensor, x: Tensor) -> Tensor:
        """`factor` times `x` in the eigenbasis of the first mode."""
        if self._first is None:
            return factor * x
        rotated = torch.tensordot(self._first, x, dims=([0], [0]))
        product: Tensor = torch.tensordot(self._first, factor * rotated, dims=([1], [0]))
        return product


def _is_single(spectrum: Spectrum) -> bool:
    return spectrum.basis.ndim == 2 and spectrum.outside.ndim == 0  # noqa: PLR2004


def _is_whole(spectrum: Spectrum) -> bool:
    """Whether the basis has all eigenvectors, or needs none."""
    return _is_single(spectrum) and (spectrum.is_complete or spectrum.is_multiple_of_identity)


def _is_partial(spectrum: Spectrum) -> bool:
    return _is_single(spectrum) and not _is_whole(spectrum)


def _merged(
    spectra: Sequence[Spectrum], *, limit: int | None = SMALL_MODE
) -> tuple[list[Tensor | None], list[Tensor]]:
    """Bases and eigenvalues of neighboring modes as those of one, up to a size; None is the identity."""
    bases: list[Tensor | None] = []
    values: list[Tensor] = []
    for spectrum in spectra:
        basis, value = _whole(spectrum)
        if values and (limit is None or len(values[-1]) * len(value) <= limit):
            bases[-1] = _kronecker(bases[-1], basis, sizes=(len(values[-1]), len(value)))
            values[-1] = (values[-1].unsqueeze(1) * value).flatten()
        else:
            bases.append(basis)
            values.append(value)
    return bases, values


def _whole(spectrum: Spectrum) -> tuple[Tensor | None, Tensor]:
    if spectrum.is_multiple_of_identity:
        return None, spectrum.outside.expand(spectrum.size)
    return spectrum.basis, spectrum.inside


def _kronecker(
    left: Tensor | None, right: Tensor | None, *, sizes: tuple[int, int]
) -> Tensor | None:
    """The product of two small bases, of which None is the identity."""
    if left is None and right is None:
        return None
    like = left if left is not None else right
    factors = [
        torch.eye(size).to(like) if basis is None else basis.contiguous()
        for basis, size in zip((left, right), sizes, strict=True)
    ]
    return torch.kron(*factors)
