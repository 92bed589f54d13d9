"""Outputs of several tasks turned so that a penalty and a curvature do not couple them."""

from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._quadratic_penalty import ModeSpectrum

__all__ = ["OutputChannels"]

RELATIVE_FLOOR = 1e-10
"""Eigenvalues of a singular precision, in units of its largest, are raised to this: only a preconditioner
is built from them."""


@final
class OutputChannels:
    """Channels of which each has a curvature μ and a precision q of its own.

    Where the precision of the outputs is a multiple of I, channels are outputs; else Z with Zᵀ P_O Z = I
    and Zᵀ A Z = diag(μ), for A = I, or I − 11ᵀ/C with "softmax".

    Args:
        output: The precision of the outputs.
        n_outputs: C.
        is_softmax: Whether the outputs are compared with each other.
    """

    def __init__(self, output: "ModeSpectrum", n_outputs: int, *, is_softmax: bool) -> None:
        self.precision = output.largest if output.is_multiple_of_identity else 1.0
        self.curvatures = np.ones(1)
        self._matrix = None
        self._is_centered = is_softmax
        if not output.is_multiple_of_identity:
            floor = RELATIVE_FLOOR * output.largest
            root = output.apply(np.eye(n_outputs), 0, lambda q: np.maximum(q, floor) ** -0.5)
            coupling = np.eye(n_outputs) - (1 / n_outputs if is_softmax else 0)
            self.curvatures, vectors = np.linalg.eigh(root @ coupling @ root)
            self.curvatures = np.maximum(self.curvatures, 0)
            self._matrix = root @ vectors
            self._is_centered = False

    @property
    def are_outputs(self) -> bool:
        """Whether every channel is an output."""
        return self._matrix is None

    def forward(self, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Zᵀ times the axis 1 of gradients, "T C r"."""
        if self._matrix is None:
            return weights
        return np.einsum("oc,tor->tcr", self._matrix, weights, optimize=True)

    def backward(self, weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Z times the axis 1 of what has been solved; where outputs are compared, with mean 0."""
        if self._is_centered:
            return weights - weights.mean(axis=1, keepdims=True)
        if self._matrix is None:
            return weights
        return np.einsum("oc,tcr->tor", self._matrix, weights, optimize=True)
