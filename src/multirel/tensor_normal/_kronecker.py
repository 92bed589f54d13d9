"""Algebra with Σ₁ ⊗ … ⊗ Σ_K that never forms the product.

The modes are the trailing axes of `weight`, one per covariance; axes in front are batch axes. Row-major,
(Σ₁ ⊗ … ⊗ Σ_K) vec(W) = vec(W ×₁ Σ₁ … ×_K Σ_K).
"""

from collections.abc import Sequence
from math import prod
from typing import Literal

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._covariance import Covariance, Spectrum
from multirel.tensor_normal._modes import mode_product, pad_batch

__all__ = [
    "along_modes",
    "kronecker_color",
    "kronecker_log_determinant",
    "kronecker_matvec",
    "kronecker_project",
    "kronecker_prox",
    "kronecker_quadratic_form",
    "kronecker_solve",
    "kronecker_whiten",
    "sum_of_squares",
]


def _with_batch_axes(covariances: Sequence[Covariance], weight: Tensor) -> Tensor:
    """`weight` with at least as many batch axes as the covariances, once its modes fit theirs."""
    sizes = tuple(covariance.size for covariance in covariances)
    if tuple(weight.shape[max(weight.ndim - len(sizes), 0) :]) != sizes:
        raise ValueError(
            f"`weight` must have one trailing axis per covariance, of its size: "
            f"expected (…, {', '.join(map(str, sizes))}), got {tuple(weight.shape)}."
        )
    batch_dims = max(len(covariance.batch_shape) for covariance in covariances)
    return pad_batch(weight, order=len(sizes), batch_dims=batch_dims)


def _mode_by_mode(
    operation: Literal["matvec", "solve", "color", "whiten", "project"],
    covariances: Sequence[Covariance],
    weight: Tensor,
) -> Tensor:
    weight = _with_batch_axes(covariances, weight)
    order = len(covariances)
    for mode, covariance in enumerate(covariances):
        product = getattr(covariance, operation)
        weight = product(weight, mode - order, batch_dims=weight.ndim - order)
    return weight


def kronecker_matvec(
    covariances: Sequence[Covariance], weight: Float[Tensor, "*shape"]
) -> Float[Tensor, "*product_shape"]:
    """(Σ₁ ⊗ … ⊗ Σ_K) vec(W), folded back.

    Example:
        >>> doubling = DenseCovariance(2 * torch.eye(2))
        >>> kronecker_matvec([doubling, IdentityCovariance(2)], torch.eye(2))
        tensor([[2., 0.],
                [0., 2.]])
    """
    return _mode_by_mode("matvec", covariances, weight)


def kronecker_solve(
    covariances: Sequence[Covariance], weight: Float[Tensor, "*shape"]
) -> Float[Tensor, "*product_shape"]:
    """P vec(W) with the precision P = Σ₁⁻¹ ⊗ … ⊗ Σ_K⁻¹, folded back."""
    return _mode_by_mode("solve", covariances, weight)


def kronecker_color(
    covariances: Sequence[Covariance], noise: Float[Tensor, "*shape"]
) -> Float[Tensor, "*product_shape"]:
    """(F₁ ⊗ … ⊗ F_K) vec(noise), folded back: white noise gets covariance Σ₁ ⊗ … ⊗ Σ_K."""
    return _mode_by_mode("color", covariances, noise)


def kronecker_whiten(
    covariances: Sequence[Covariance], weight: Float[Tensor, "*shape"]
) -> Float[Tensor, "*product_shape"]:
    """(G₁ ⊗ … ⊗ G_K) vec(W), folded back, with Gₖᵀ Gₖ = Σₖ⁻¹: a weight of that law becomes white."""
    return _mode_by_mode("whiten", covariances, weight)


def kronecker_project(
    covariances: Sequence[Covariance], weight: Float[Tensor, "*shape"]
) -> Float[Tensor, "*product_shape"]:
    """The part of `weight` in the range of Σ₁ ⊗ … ⊗ Σ_K."""
    return _mode_by_mode("project", covariances, weight)


def kronecker_log_determinant(covariances: Sequence[Covariance]) -> Float[Tensor, "*batch"]:
    """ln |Σ₁ ⊗ … ⊗ Σ_K| = Σₖ (D / dₖ) ln |Σₖ|; of the pseudo-determinant where one is singular."""
    rank = prod([covariance.rank for covariance in covariances])
    terms = [(rank // covariance.rank) * covariance.log_determinant() for covariance in covariances]
    return sum(terms[1:], start=terms[0])


def sum_of_squares(weight: Float[Tensor, "*shape"], order: int) -> Float[Tensor, "*batch"]:
    """⟨W, W⟩ over the `order` trailing axes."""
    return weight.flatten(start_dim=weight.ndim - order).square().sum(-1)


def kronecker_quadratic_form(
    covariances: Sequence[Covariance], weight: Float[Tensor, "*shape"]
) -> Float[Tensor, "*batch"]:
    """⟨W, P W⟩ with the precision P = Σ₁⁻¹ ⊗ … ⊗ Σ_K⁻¹."""
    return sum_of_squares(kronecker_whiten(covariances, weight), len(covariances))


def kronecker_prox(
    covariances: Sequence[Covariance],
    weight: Float[Tensor, "*shape"],
    step: Float[Tensor, "*batch"] | float,
) -> Float[Tensor, "*product_shape"]:
    """(I + c P)⁻¹ vec(W) folded back, with c = `step`: the proximal step of ½⟨W, P W⟩.

    Exact in the Kronecker eigenbasis. A mode that is low rank plus a multiple of the identity is split into
    its span and the rest, and its basis is never completed: with g(q) = 1 / (1 + c q), each subset B of
    such modes adds U_B (h_B ∘ (W ×_{k∈B} Uₖᵀ)), where h_B is the alternating sum of g over the subsets
    of B. The cost is O(D Σₖ rₖ).

    Args:
        covariances: One covariance per mode.
        weight: Tensor whose trailing axes are the modes.
        step: The step size c ≥ 0, one for all or one per batch entry.

    Example:
        >>> kronecker_prox([DenseCovariance(torch.eye(2))], torch.ones(2), step=1.0)
        tensor([0.5000, 0.5000])
    """
    weight = _with_batch_axes(covariances, weight)
    order = len(covariances)
    spectra = [covariance.precision_spectrum() for covariance in covariances]
    cost = torch.as_tensor(step, dtype=weight.dtype, device=weight.device)
    cost = along_modes(cost, mode=None, order=order)
    complete, partial = [], []
    for mode, spectrum in enumerate(spectra):
        if spectrum.is_complete:
            complete.append(mode)
            weight = _rotate(weight, spectrum.basis.mT, mode, order)
            cost = cost * along_modes(spectrum.inside, mode=mode, order=order)
        elif spectrum.basis.shape[-1] == 0:
            cost = cost * along_modes(spectrum.outside, mode=None, order=order)
        else:
            partial.append(mode)
    shrunk = _shrink_by_subsets(weight, spectra, partial, [(1, cost)])
    for mode in complete:
        shrunk = _rotate(shrunk, spectra[mode].basis, mode, order)
    return shrunk


def _shrink_by_subsets(
    weight: Tensor,
    spectra: Sequence[Spectrum],
    partial: Sequence[int],
    terms: Sequence[tuple[int, Tensor]],
) -> Tensor:
    """Σ_B U_B (h_B ∘ C_B) over the subsets B of `partial`, one mode after the other.

    `terms` holds the signs and the products c·∏ q of the alternating sum so far.
    """
    if not partial:
        weights = [sign / (1 + product) for sign, product in terms]
        return weight * sum(weights[1:], start=weights[0])
    order, mode, rest = len(spectra), partial[0], partial[1:]
    spectrum = spectra[mode]
    inside = along_modes(spectrum.inside, mode=mode, order=order)
    outside = along_modes(spectrum.outside, mode=None, order=order)
    off_span = [(sign, product * outside) for sign, product in terms]
    on_span = [(sign, product * inside) for sign, product in terms]
    on_span += [(-sign, product) for sign, product in off_span]
    span = _rotate(weight, spectrum.basis.mT, mode, order)
    span = _shrink_by_subsets(span, spectra, rest, on_span)
    complement = _shrink_by_subsets(weight, spectra, rest, off_span)
    return complement + _rotate(span, spectrum.basis, mode, order)


def _rotate(weight: Tensor, matrix: Tensor, mode: int, order: int) -> Tensor:
    """`weight` with its trailing mode number `mode` of `order` multiplied by `matrix`."""
    return mode_product(weight, matrix, mode - order, batch_dims=weight.ndim - order)


def along_modes(values: Tensor, *, mode: int | None, order: int) -> Tensor:
    """`values` shaped to broadcast over `order` modes: (…, d) along `mode`, or (…) over all."""
    if mode is None:
        return values.reshape(*values.shape, *(1,) * order)
    right = order - 1 - mode
    return values.reshape(*values.shape[:-1], *(1,) * mode, values.shape[-1], *(1,) * right)
