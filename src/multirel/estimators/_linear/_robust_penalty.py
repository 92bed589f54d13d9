"""The trace norm of a shared part plus the lengths of each task's own part: the penalty of RMTL."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from multirel.estimators._linear._spectral_penalty import SpectralPenalty
from multirel.estimators._linear._spectral_values import (
    largest_singular_value,
    map_singular_values,
    singular_values,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RobustPenalty"]


@final
@dataclass(frozen=True, kw_only=True)
class RobustPenalty(SpectralPenalty):
    r"""strength · ‖L‖_* + outlier_strength · Σ_t ‖s_t‖₂ for the blocks L and S of weights L + S.

    Its conjugate is 0 where ‖·‖_op ≤ strength and all rows are no longer than outlier_strength.
    """

    strength: float
    """The factor ρ₁ of the trace norm."""

    outlier_strength: float
    """The factor ρ₂ of the lengths."""

    n_blocks: ClassVar[int] = 2

    def value(self, blocks: "NDArray[np.float64]") -> float:
        shared = float(singular_values(blocks[0]).sum())
        return self.strength * shared + self.outlier_strength * float(_lengths(blocks[1]).sum())

    def prox(
        self, blocks: "NDArray[np.float64]", *, weight: float
    ) -> "tuple[NDArray[np.float64], float]":
        threshold = self.strength / weight

        def shrunk(values: "NDArray[np.float64]") -> "NDArray[np.float64]":
            return np.maximum(values - threshold, 0.0)

        near = np.empty_like(blocks)
        near[0], values = map_singular_values(blocks[0], shrunk)
        lengths = _lengths(blocks[1])
        kept = np.maximum(lengths - self.outlier_strength / weight, 0.0)
        near[1] = blocks[1] * (kept / np.where(lengths > 0, lengths, 1.0))[:, None]
        return near, self.strength * float(values.sum()) + self.outlier_strength * float(kept.sum())

    def conjugate(self, slopes: "NDArray[np.float64]") -> float:
        return 0.0

    def factors(self, slopes: "NDArray[np.float64]") -> "NDArray[np.float64]":
        lengths = _lengths(slopes)
        factors = np.minimum(1.0, self.outlier_strength / np.where(lengths > 0, lengths, np.inf))
        factors = np.where(lengths > 0, factors, 1.0)
        largest = largest_singular_value(slopes * factors[:, None])
        return factors * min(1.0, self.strength / largest) if largest > 0 else factors


def _lengths(rows: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return np.sqrt(np.einsum("ti,ti->t", rows, rows))
