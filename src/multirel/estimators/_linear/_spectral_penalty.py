"""What penalties on the singular values of the weights have in common."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SpectralPenalty"]


class SpectralPenalty(ABC):
    """A convex penalty on blocks, "B T r", whose sum is the weights "T r": the interface of all.

    It does not change when the weights are rotated from the right.
    """

    n_blocks: ClassVar[int]
    """The number of blocks B."""

    @abstractmethod
    def value(self, blocks: "NDArray[np.float64]") -> float:
        """The penalty of blocks "B T r"."""

    @abstractmethod
    def prox(
        self, blocks: "NDArray[np.float64]", *, weight: float
    ) -> "tuple[NDArray[np.float64], float]":
        """The minimizer of the penalty plus weight · ½ ‖· − blocks‖², and its penalty."""

    @abstractmethod
    def conjugate(self, slopes: "NDArray[np.float64]") -> float:
        """sup over blocks of ⟨Σ blocks, slopes⟩ − penalty, where `factors` of the slopes are 1; "T r"."""

    @abstractmethod
    def factors(self, slopes: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """One factor per task, from 0 to 1, that brings slopes "T r" to where the conjugate is finite."""
