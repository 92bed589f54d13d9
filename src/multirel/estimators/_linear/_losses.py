"""Losses of rows and their derivatives with respect to the outputs."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, log_softmax, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._problem import LinearProblem

__all__ = ["loss_gradient", "row_losses"]


def row_losses(problem: "LinearProblem", outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """The loss of every row, "n", summed over independent outputs.

    Args:
        problem: The problem.
        outputs: W x + b of every row, "n C".
    """
    y = problem.targets
    if problem.loss == "squared":
        return np.square(y - outputs).sum(axis=1)
    if problem.loss == "binary":
        return np.logaddexp(0, -y * outputs).sum(axis=1)
    return -(y * log_softmax(outputs, axis=1)).sum(axis=1)


def loss_gradient(
    problem: "LinearProblem", outputs: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """The derivative of every row's loss by its outputs, "n C"."""
    y = problem.targets
    if problem.loss == "squared":
        return 2 * (outputs - y)
    if problem.loss == "binary":
        return -y * expit(-y * outputs)
    return softmax(outputs, axis=1) - y
