"""Weights of one part of a model, which users want in their units."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from multirel.estimators._linear._coordinates import Coordinates

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BlockWeights"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class BlockWeights:
    """A block of the weights in the coordinates of a problem."""

    weights: "NDArray[np.float64]"
    """ "T C r"."""

    def in_features(self, coordinates: Coordinates) -> "NDArray[np.float64]":
        """The block in the user's units, "T C F".

        Args:
            coordinates: The coordinates of the problem.
        """
        none = np.zeros(self.weights.shape[:2])
        return coordinates.to_features(self.weights, none)[0]
