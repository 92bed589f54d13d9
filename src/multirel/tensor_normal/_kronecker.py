"""Algebra with Σ₁ ⊗ … ⊗ Σ_K that never forms the product.

The modes are the trailing axes of `weight`, one per covariance; axes in front are batch axes. Row-major,
(Σ₁ ⊗ … ⊗ Σ_K) vec(W) = vec(W ×₁ Σ₁ … ×_K Σ_K).
"""

from collections.abc import Sequence
from math import prod
from typing import Literal

from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._covariance import Covariance
from multirel.tensor_normal._modes import pad_batch
from multirel.tensor_normal._spectrum import spectral_prox

__all__ = [
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

    Exact, and never completes the basis of a covariance that is low rank plus a multiple of the identity
    (see `spectral_prox`).

    Args:
        covariances: One covariance per mode.
        weight: Tensor whose trailing axes are the modes.
        step: The step size c ≥ 0, one for all or one per batch entry.

    Example:
        >>> kronecker_prox([DenseCovariance(torch.eye(2))], torch.ones(2), step=1.0)
        tensor([0.5000, 0.5000])
    """
    weight = _with_batch_axes(covariances, weight)
    return spectral_prox([c.precision_spectrum() for c in covariances], weight, step)
