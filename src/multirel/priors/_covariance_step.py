"""How the covariance of a mode is estimated from its scatter, and how it then acts on the weights."""

from abc import ABC, abstractmethod
from typing import Literal, final

import torch
from torch import Tensor

from multirel._annotations import Bool, Float
from multirel.exceptions import NotPositiveDefiniteError
from multirel.priors._roundoff import without_roundoff
from multirel.priors._scatter import DenseScatter, Scatter
from multirel.tensor_normal import (
    Covariance,
    DenseCovariance,
    LowRankCovariance,
    PseudoInverseCovariance,
    Spectrum,
)

__all__ = [
    "CovarianceStep",
    "DeterminantStep",
    "FreeStep",
    "PseudoInverseStep",
    "ReleasedCodeStep",
    "ShrinkageTarget",
    "TraceStep",
    "estimate_where",
]

ShrinkageTarget = Literal["identity", "constant-correlation"]

SMALLEST_COMPLEMENT = 1e-3
"""Smallest a of a low-rank covariance in single precision, over its mean eigenvalue."""

RANK_TOLERANCE = 1e-10
"""Eigenvalues below this share of the largest count as zero where a full rank is needed."""


class CovarianceStep(ABC):
    """The covariance step of one mode."""

    @abstractmethod
    def start(self, covariance: Covariance) -> Covariance:
        """A covariance to begin with, brought to this step's scale and form."""

    @abstractmethod
    def estimate(self, scatter: Scatter) -> Covariance:
        """The covariance that belongs to a scatter, Eq. (11)."""

    def spectrum(self, covariance: Covariance) -> Spectrum:
        """The precision by which the covariance acts on the weights."""
        return covariance.precision_spectrum()

    def log_term(self, covariance: Covariance) -> Float[Tensor, "*copies"]:
        """ln |Σ|, and ε tr Σ⁻¹ where the scale is free: the objective has D / d_k times this."""
        return covariance.log_determinant()


def estimate_where(
    step: CovarianceStep, scatter: Scatter, *, chosen: Bool[Tensor, "*copies"], kept: Covariance
) -> Covariance:
    """The estimates of the copies that are chosen, beside the covariances that the others have."""
    if bool(chosen.all()):
        return step.estimate(scatter)
    if not bool(chosen.any()):
        return kept
    matrix = kept.dense()
    matrix = matrix.expand(*chosen.shape, *matrix.shape[-2:]).clone()
    matrix[chosen] = step.estimate(DenseScatter(scatter.dense()[chosen])).dense()
    return DenseCovariance(matrix)


def _identity_like(matrix: Tensor) -> Tensor:
    return torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _square_root(matrix: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    # The root of roundoff would be far above it.
    roots = without_roundoff(values, largest=values[..., -1:], size=matrix.shape[-1]).sqrt()
    root: Tensor = (vectors * roots.unsqueeze(-2)) @ vectors.mT
    return root


def _trace(matrix: Tensor) -> Tensor:
    """The trace, with two axes behind it that broadcast against the matrix."""
    return matrix.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]


def _conditioned(covariance: LowRankCovariance) -> LowRankCovariance:
    """The covariance with an a that is not too small for single precision.

    Its inverse acts as a⁻¹ [W − U diag(1 − a / s) Uᵀ W], a difference of large numbers if a is small. The
    limit is not one of a / s: thousands of tasks that are alike have an s near their number.
    """
    if covariance.dtype == torch.float64 or not covariance.eigenvalues.shape[-1]:
        return covariance
    lowest = SMALLEST_COMPLEMENT * covariance.trace() / covariance.size
    complement = torch.maximum(covariance.complement, lowest)
    return LowRankCovariance(covariance.basis, covariance.eigenvalues, complement)


def _mean_of_rest(scatter: Scatter, largest: Tensor) -> Tensor:
    """Mean of the eigenvalues that are not among the largest."""
    n_rest = scatter.size - largest.shape[-1]
    return (scatter.trace() - largest.sum(-1)).clamp(min=0) / n_rest


@final
class TraceStep(CovarianceStep):
    """Σ = (1 − α) S d / tr S + α T, so that tr Σ = d: the default.

    Args:
        shrinkage: Weight α of the target.
        target: Name of the target T.
        jitter: Added to the eigenvalues, relative to their mean, which is 1.
        rank: Number of eigenvalues kept apart; None means all.
        root: Take S^½ in the place of S, as MTRL and MTFL do.
    """

    def __init__(
        self,
        *,
        shrinkage: float,
        target: ShrinkageTarget = "identity",
        jitter: float = 0.0,
        rank: int | None = None,
        root: bool = False,
    ) -> None:
        self.shrinkage = shrinkage
        self.target = target
        self.jitter = jitter
        self.rank = rank
        self.root = root

    def start(self, covariance: Covariance) -> Covariance:
        if self.rank is None:
            covariance = DenseCovariance(covariance.dense())
        return covariance.normalized()

    def estimate(self, scatter: Scatter) -> Covariance:
        if self.rank is None:
            matrix = _square_root(scatter.dense()) if self.root else scatter.dense()
            matrix = matrix * (scatter.size / _trace(matrix))
            shrunk: Covariance = DenseCovariance(matrix).shrink(self.shrinkage, self.target)
            if self.jitter > 0:
                shrunk = DenseCovariance(shrunk.dense() + self.jitter * _identity_like(matrix))
            return shrunk.normalized()
        basis, values = scatter.largest(self.rank)
        scale = scatter.size / scatter.trace()
        rest = _mean_of_rest(scatter, values)
        # The target is positive definite, and so is jitter: one of them lifts a rest of zero.
        low_rank = LowRankCovariance(
            basis, scale.unsqueeze(-1) * values + self._floor(), scale * rest + self._floor()
        )
        return _conditioned(low_rank.shrink(self.shrinkage, self.target)).normalized()

    def _floor(self) -> float:
        return max(self.jitter, RANK_TOLERANCE)


@final
class FreeStep(CovarianceStep):
    """Σ = S + ε I, the exact minimizer of the objective: the paper's form, which may collapse.

    Args:
        jitter: The ε > 0 of the paper.
        rank: Number of eigenvalues kept apart; None means all.
    """

    def __init__(self, *, jitter: float, rank: int | None = None) -> None:
        self.jitter = jitter
        self.rank = rank

    def start(self, covariance: Covariance) -> Covariance:
        return DenseCovariance(covariance.dense()) if self.rank is None else covariance

    def estimate(self, scatter: Scatter) -> Covariance:
        if self.rank is None:
            matrix = scatter.dense()
            return DenseCovariance(matrix + self.jitter * _identity_like(matrix))
        basis, values = scatter.largest(self.rank)
        rest = _mean_of_rest(scatter, values)
        return _conditioned(LowRankCovariance(basis, values + self.jitter, rest + self.jitter))

    def log_term(self, covariance: Covariance) -> Float[Tensor, "*copies"]:
        return covariance.log_determinant() + self.jitter * _trace_of_inverse(covariance)


def _trace_of_inverse(covariance: Covariance) -> Tensor:
    spectrum = covariance.precision_spectrum()
    n_outside = covariance.size - spectrum.basis.shape[-1]
    total: Tensor = spectrum.inside.sum(-1) + n_outside * spectrum.outside
    return total


@final
class DeterminantStep(CovarianceStep):
    """|Σ| = 1, and the penalty uses R = (1 − α) Σ⁻¹ + α (tr Σ⁻¹ / d) I: a joint objective that descends.

    Args:
        shrinkage: Weight α of the multiple of the identity.
        jitter: Added to that weight, after which both weights are brought to a sum of one.
    """

    def __init__(self, *, shrinkage: float, jitter: float = 0.0) -> None:
        self.shrinkage = shrinkage
        self.jitter = jitter
        # Weights that sum to one leave the identity alone.
        self._weight = (shrinkage + jitter) / (1 + jitter)

    def start(self, covariance: Covariance) -> Covariance:
        return _unit_determinant(covariance.dense())

    def estimate(self, scatter: Scatter) -> Covariance:
        matrix = scatter.dense()
        if self.shrinkage == 0:
            values = torch.linalg.eigvalsh(matrix)
            if not bool((values[..., 0] > RANK_TOLERANCE * values[..., -1]).all()):
                raise NotPositiveDefiniteError(
                    f"`shrinkage` must be above 0 with scale='determinant' here: the scatter of a "
                    f"mode of size {scatter.size} is singular (eigenvalues from "
                    f"{float(values.min()):.2g} to {float(values.max()):.2g})."
                )
        variance = _trace(matrix) / scatter.size
        return _unit_determinant(
            (1 - self._weight) * matrix + self._weight * variance * _identity_like(matrix)
        )

    def spectrum(self, covariance: Covariance) -> Spectrum:
        plain = covariance.precision_spectrum()
        mean = plain.inside.mean(-1, keepdim=True)
        inside = (1 - self._weight) * plain.inside + self._weight * mean
        return Spectrum(basis=plain.basis, inside=inside, outside=plain.outside)


def _unit_determinant(matrix: Tensor) -> DenseCovariance:
    log_determinant = DenseCovariance(matrix).log_determinant()
    scale = torch.exp(-log_determinant / matrix.shape[-1])
    return DenseCovariance(matrix * scale[..., None, None])


@final
class PseudoInverseStep(CovarianceStep):
    """Σ = S, whose pseudo-inverse costs nothing off the span of the weights.

    Args:
        normalize: Whether Σ is scaled to tr Σ = d.
    """

    def __init__(self, *, normalize: bool) -> None:
        self.normalize = normalize

    def start(self, covariance: Covariance) -> Covariance:
        singular = PseudoInverseCovariance(covariance.dense())
        return singular.normalized() if self.normalize else singular

    def estimate(self, scatter: Scatter) -> Covariance:
        matrix = scatter.dense()
        tolerance = max(RANK_TOLERANCE, scatter.size * torch.finfo(matrix.dtype).eps)
        covariance = PseudoInverseCovariance(matrix, tolerance=tolerance)
        return covariance.normalized() if self.normalize else covariance


@final
class ReleasedCodeStep(CovarianceStep):
    """The rule of the code that the paper's authors released, for the task mode.

    With A = W_(T) W_(T)ᵀ + 1e-5 I, the precision has the eigenvectors of A, and the eigenvalue 1/s where that
    of A is s > 0.1, and s elsewhere; it is scaled down to trace 3000 if its trace is larger.

    Args:
        n_columns: D / T, by which Sₖ is divided and A is not.
    """

    JITTER = 1e-5
    THRESHOLD = 0.1
    LARGEST_TRACE = 3000.0

    def __init__(self, *, n_columns: int) -> None:
        self.n_columns = n_columns

    def start(self, covariance: Covariance) -> Covariance:
        return DenseCovariance(covariance.dense())

    def estimate(self, scatter: Scatter) -> Covariance:
        matrix = scatter.dense() * self.n_columns
        values, vectors = torch.linalg.eigh(matrix + self.JITTER * _identity_like(matrix))
        precision = torch.where(values > self.THRESHOLD, values.reciprocal(), values)
        total = precision.sum(-1, keepdim=True)
        precision = precision * (self.LARGEST_TRACE / total).clamp(max=1.0)
        return DenseCovariance((vectors / precision.unsqueeze(-2)) @ vectors.mT)

    def log_term(self, covariance: Covariance) -> Float[Tensor, "*copies"]:
        """None: the released code has no log-determinant."""
        return covariance.diagonal().new_zeros(covariance.batch_shape)
