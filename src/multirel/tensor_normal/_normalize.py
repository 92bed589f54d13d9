"""One form for covariances that are identifiable up to scale only.

c Σ₁ and Σ₂ / c describe the same distribution. Whatever is printed, compared or stored goes through here.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._covariance import Covariance
from multirel.tensor_normal._dense_covariance import as_covariance

__all__ = ["correlation_matrix", "normalize_covariances"]


def normalize_covariances(
    covariances: Sequence[Tensor | Covariance],
) -> tuple[tuple[Covariance, ...], Float[Tensor, "*batch"]]:
    """The covariances with tr Σₖ = dₖ each, and the factor s with Σ₁ ⊗ … ⊗ Σ_K = s · ⊗ normalized.

    Args:
        covariances: One covariance per mode, as tensors or covariance objects.

    Example:
        >>> normalized, scale = normalize_covariances([4 * torch.eye(2), torch.eye(3) / 2])
        >>> normalized[0].dense(), scale
        (tensor([[1., 0.],
                [0., 1.]]), tensor(2.))
    """
    originals = [as_covariance(covariance) for covariance in covariances]
    variances = [covariance.trace() / covariance.size for covariance in originals]
    scale = variances[0]
    for variance in variances[1:]:
        scale = scale * variance
    return tuple(covariance.normalized() for covariance in originals), scale


def correlation_matrix(
    covariance: Float[Tensor, "*batch d d"] | Covariance,
) -> Float[Tensor, "*batch d d"]:
    """The correlations that belong to a covariance: unit diagonal, the same at any scale.

    Example:
        >>> correlation_matrix(torch.tensor([[4.0, 1.0], [1.0, 1.0]]))
        tensor([[1.0000, 0.5000],
                [0.5000, 1.0000]])
    """
    matrix = as_covariance(covariance).dense()
    deviation = matrix.diagonal(dim1=-2, dim2=-1).sqrt()
    correlation = matrix / (deviation.unsqueeze(-1) * deviation.unsqueeze(-2))
    diagonal = torch.eye(matrix.shape[-1], dtype=torch.bool, device=matrix.device)
    return correlation.masked_fill(diagonal, 1.0).clamp(-1.0, 1.0)
