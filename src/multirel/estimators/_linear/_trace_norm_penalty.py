"""The squared trace norm, with a ridge beside it: the penalty of MTFL and MTRL."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from multirel.estimators._linear._spectral_penalty import SpectralPenalty
from multirel.estimators._linear._spectral_values import (
    largest_singular_value,
    map_singular_values,
    shrink_by_squared_sum,
    singular_values,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TraceNormPenalty"]


@final
@dataclass(frozen=True, kw_only=True)
class TraceNormPenalty(SpectralPenalty):
    r"""(ridge/2) ‖W‖² + strength · ‖W‖_*², what is left after minimizing over the covariance.

    $$\lVert W\rVert_*^2=\min_{D\succeq0,\ \mathrm{tr}\,D\le1}\sum_t w_t^\top D^+w_t
    =\min_{\Omega\succeq0,\ \mathrm{tr}\,\Omega=1}\mathrm{tr}(W\Omega^{-1}W^\top)$$
    """

    strength: float
    """The factor of the squared trace norm."""

    ridge: float = 0.0
    """The factor of half the squared Frobenius norm."""

    n_blocks: ClassVar[int] = 1

    def value(self, blocks: "NDArray[np.float64]") -> float:
        return self._of_values(singular_values(blocks[0]))

    def prox(
        self, blocks: "NDArray[np.float64]", *, weight: float
    ) -> "tuple[NDArray[np.float64], float]":
        total = weight + self.ridge

        def shrunk(values: "NDArray[np.float64]") -> "NDArray[np.float64]":
            return shrink_by_squared_sum(values * (weight / total), strength=self.strength / total)

        near, values = map_singular_values(blocks[0], shrunk)
        return near[None], self._of_values(values)

    def conjugate(self, slopes: "NDArray[np.float64]") -> float:
        if self.ridge == 0:
            largest = largest_singular_value(slopes)
            return largest**2 / (4 * self.strength) if largest > 0 else 0.0
        values = singular_values(slopes)
        best = shrink_by_squared_sum(values / self.ridge, strength=self.strength / self.ridge)
        return float(values @ best) - self._of_values(best)

    def factors(self, slopes: "NDArray[np.float64]") -> "NDArray[np.float64]":
        return np.ones(len(slopes))

    def _of_values(self, values: "NDArray[np.float64]") -> float:
        return float(self.ridge / 2 * (values @ values) + self.strength * values.sum() ** 2)
