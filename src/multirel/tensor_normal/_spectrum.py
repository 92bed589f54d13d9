"""Functions of Kronecker products by the eigenvectors of their factors."""

from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._modes import mode_product

__all__ = ["Spectrum", "along_modes", "is_short_step", "spectral_product", "spectral_prox"]


@final
class Spectrum:
    """Eigenvalues of a precision Q of one mode: on the span of a basis U, and off it.

    Args:
        basis: Orthonormal eigenvectors; none (r = 0) for a multiple of the identity.
        inside: Eigenvalues q ≥ 0 that belong to the basis.
        outside: The eigenvalue of everything orthogonal to the basis; means nothing where r = d.
    """

    def __init__(
        self,
        *,
        basis: Float[Tensor, "*batch d r"],
        inside: Float[Tensor, "*batch r"],
        outside: Float[Tensor, "*#batch"],
    ) -> None:
        self.basis = basis
        self.inside = inside
        self.outside = outside
        self._matrices: dict[float, Tensor] = {}
        self._largest: float | None = None

    @property
    def size(self) -> int:
        """Size d of the mode."""
        return self.basis.shape[-2]

    @property
    def is_complete(self) -> bool:
        """Whether the basis spans everything."""
        return self.basis.shape[-1] == self.basis.shape[-2]

    @property
    def is_multiple_of_identity(self) -> bool:
        """Whether the basis is empty."""
        return self.basis.shape[-1] == 0

    @property
    def largest(self) -> float:
        """The largest eigenvalue, of the whole batch if there is one."""
        if self._largest is None:
            values = [self.inside.max()] if self.inside.numel() else []
            values += [] if self.is_complete else [self.outside.max()]
            self._largest = max(float(value.detach()) for value in values)
        return self._largest

    def power_product(
        self, x: Tensor, power: float, mode: int = -1, *, batch_dims: int | None = None
    ) -> Tensor:
        """Q^power x along `mode`; its first `batch_dims` axes are batch axes."""
        batch_dims = self.basis.ndim - 2 if batch_dims is None else batch_dims
        if self.is_complete:
            if power not in self._matrices:
                weighted = self.basis * self.inside.pow(power).unsqueeze(-2)
                self._matrices[power] = weighted @ self.basis.mT
            return mode_product(x, self._matrices[power], mode, batch_dims=batch_dims)
        inside, outside = self.inside.pow(power), self.outside.pow(power)
        return spectral_product(
            x, self.basis, mode=mode, batch_dims=batch_dims, inside=inside, outside=outside
        )


def spectral_product(
    x: Float[Tensor, "*shape"],
    basis: Float[Tensor, "*batch d r"],
    *,
    mode: int,
    batch_dims: int,
    inside: Float[Tensor, "*batch r"],
    outside: Float[Tensor, "*#batch"],
) -> Float[Tensor, "*product_shape"]:
    """[U diag(f) Uᵀ + g (I − U Uᵀ)] x along `mode`, with f = `inside` and g = `outside`."""
    scaled = outside.reshape(*outside.shape, *(1,) * (x.ndim - batch_dims)) * x
    if basis.shape[-1] == 0:
        return scaled
    span = mode_product(x, basis.mT, mode, batch_dims=batch_dims)
    weighted = basis * (inside - outside.unsqueeze(-1)).unsqueeze(-2)
    return scaled + mode_product(span, weighted, mode, batch_dims=batch_dims)


def spectral_prox(
    spectra: Sequence[Spectrum],
    weight: Float[Tensor, "*shape"],
    step: Float[Tensor, "*batch"] | float,
) -> Float[Tensor, "*product_shape"]:
    """(I + c Q₁ ⊗ … ⊗ Q_K)⁻¹ vec(W) folded back, with c = `step`: a proximal step.

    Exact in the Kronecker eigenbasis. A mode whose basis is not complete is split into its span and the
    rest: with g(q) = 1 / (1 + c q), each subset B of such modes adds U_B (h_B ∘ (W ×_{k∈B} Uₖᵀ)), where
    h_B is the alternating sum of g over the subsets of B. The cost is O(D Σₖ rₖ). A short step, c q ≤ 1
    everywhere, is computed as what it takes off the weights, so that roundoff is relative to that.

    Args:
        spectra: Eigenvectors and eigenvalues of the precision Qₖ of each mode.
        weight: Tensor whose trailing axes are the modes.
        step: The step size c ≥ 0, one for all or one per batch entry.
    """
    order = len(spectra)
    cost = torch.as_tensor(step, dtype=weight.dtype, device=weight.device)
    cost = along_modes(cost, mode=None, order=order)
    for spectrum in spectra:
        if spectrum.is_multiple_of_identity:
            cost = cost * along_modes(spectrum.outside, mode=None, order=order)
    partial = _partial_modes(spectra)
    if is_short_step(spectra, step):
        return weight - _shrink_by_subsets(weight, spectra, partial, [(1, cost)], share=_taken)
    return _shrink_by_subsets(weight, spectra, partial, [(1, cost)], share=_kept)


def is_short_step(spectra: Sequence[Spectrum], step: Tensor | float) -> bool:
    """Whether c q ≤ 1 everywhere: then the step is a correction of the weights, not a new product."""
    if torch.compiler.is_compiling() or (isinstance(step, Tensor) and step.ndim > 0):
        return False
    largest = float(step.detach()) if isinstance(step, Tensor) else step
    for spectrum in spectra:
        largest *= spectrum.largest
    return largest <= 1


def _kept(product: Tensor) -> Tensor:
    """g = 1 / (1 + c q), the share of an eigenvector that a step leaves."""
    return 1 / (1 + product)


def _taken(product: Tensor) -> Tensor:
    """1 − g = c q / (1 + c q), the share that it takes off."""
    return product / (1 + product)


def _partial_modes(spectra: Sequence[Spectrum]) -> list[int]:
    return [
        mode
        for mode, spectrum in enumerate(spectra)
        if not (spectrum.is_complete or spectrum.is_multiple_of_identity)
    ]


def _shrink_by_subsets(
    weight: Tensor,
    spectra: Sequence[Spectrum],
    partial: Sequence[int],
    terms: Sequence[tuple[int, Tensor]],
    *,
    share: Callable[[Tensor], Tensor],
) -> Tensor:
    """Σ_B U_B (h_B ∘ C_B) over the subsets B of `partial`, one mode after the other.

    `terms` holds the signs and the products c·∏ q of the alternating sum of `share` so far.
    """
    if not partial:
        return _shrink_complete(weight, spectra, terms, share=share)
    order, mode, rest = len(spectra), partial[0], partial[1:]
    spectrum = spectra[mode]
    inside = along_modes(spectrum.inside, mode=mode, order=order)
    outside = along_modes(spectrum.outside, mode=None, order=order)
    off_span = [(sign, product * outside) for sign, product in terms]
    on_span = [(sign, product * inside) for sign, product in terms]
    on_span += [(-sign, product) for sign, product in off_span]
    span = _rotate(weight, spectrum.basis.mT, mode, order)
    span = _shrink_by_subsets(span, spectra, rest, on_span, share=share)
    complement = _shrink_by_subsets(weight, spectra, rest, off_span, share=share)
    return complement + _rotate(span, spectrum.basis, mode, order)


def _shrink_complete(
    weight: Tensor,
    spectra: Sequence[Spectrum],
    terms: Sequence[tuple[int, Tensor]],
    *,
    share: Callable[[Tensor], Tensor],
) -> Tensor:
    """`weight` times Σ ± share(c ∏ q) in the eigenbasis of the modes that have a complete one."""
    order = len(spectra)
    complete = [
        mode
        for mode, spectrum in enumerate(spectra)
        if spectrum.is_complete and not spectrum.is_multiple_of_identity
    ]
    for mode in complete:
        inside = along_modes(spectra[mode].inside, mode=mode, order=order)
        terms = [(sign, product * inside) for sign, product in terms]
    factors = [sign * share(product) for sign, product in terms]
    factor = sum(factors[1:], start=factors[0])
    if len(complete) == 1:
        mode = complete[0]
        values = factor.movedim(mode - order, -1)
        if values.shape[-order:-1].numel() == 1:
            # Only this mode is concerned: one product in place of two rotations.
            basis = spectra[mode].basis
            values = values.reshape(*values.shape[:-order], values.shape[-1])
            return _rotate(weight, (basis * values.unsqueeze(-2)) @ basis.mT, mode, order)
    for mode in complete:
        weight = _rotate(weight, spectra[mode].basis.mT, mode, order)
    weight = weight * factor
    for mode in complete:
        weight = _rotate(weight, spectra[mode].basis, mode, order)
    return weight


def _rotate(weight: Tensor, matrix: Tensor, mode: int, order: int) -> Tensor:
    """`weight` with its trailing mode number `mode` of `order` multiplied by `matrix`."""
    return mode_product(weight, matrix, mode - order, batch_dims=weight.ndim - order)


def along_modes(values: Tensor, *, mode: int | None, order: int) -> Tensor:
    """`values` shaped to broadcast over `order` modes: (…, d) along `mode`, or (…) over all."""
    if mode is None:
        return values.reshape(*values.shape, *(1,) * order)
    right = order - 1 - mode
    return values.reshape(*values.shape[:-1], *(1,) * mode, values.shape[-1], *(1,) * right)
