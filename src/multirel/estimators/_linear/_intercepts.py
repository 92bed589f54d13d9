"""The best intercepts for given products of weights and features."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multirel.estimators._linear._profiled_loss import ProfiledLoss

__all__ = ["best_binary", "best_softmax", "inverse_curvature_of_softmax", "log_sum", "masked"]

MOST_ITERATIONS = 100
MOST_HALVINGS = 40

LAST_STEP = 1e-7
"""A Newton step no longer than this leaves an error of about its square."""

RELATIVE_JITTER = 1e-15
"""What is added to eigenvalues, relative to their mean."""

ACCURACY = 1e-14
"""Largest derivative by an intercept, in units of what its rows count."""


def masked(
    outputs: "NDArray[np.float64]", is_finite: "NDArray[np.bool_]", group: "NDArray[np.int64]"
) -> "NDArray[np.float64]":
    """Outputs, −∞ for classes that the rows of an intercept do not have."""
    return outputs if is_finite.all() else np.where(is_finite[group], outputs, -np.inf)


def log_sum(outputs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """ln Σ exp of every row."""
    largest = outputs.max(axis=1, keepdims=True)
    return np.log(np.exp(outputs - largest).sum(axis=1)) + largest[:, 0]


def best_binary(
    loss: "ProfiledLoss", products: "NDArray[np.float64]", start: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Where Σ c (P(1) − share of 1) = 0 for every intercept, by Newton steps within a bracket."""
    solved = loss.groups.filled[:, None] & loss.is_finite
    totals = np.where(solved, loss.totals, 1.0)
    positive = loss.groups.sums(loss.c * (loss.y > 0)) / totals
    middle = logit(np.where(solved, positive, 0.5))
    low, high = middle - loss.groups.largest(products), middle - loss.groups.smallest(products)
    b = np.clip(start, low, high)
    for _ in range(MOST_ITERATIONS):
        likely = expit(products + b[loss.group])
        weighted = loss.c * likely
        slope = loss.groups.sums(weighted) / totals - positive
        curvature = loss.groups.sums(weighted * (1 - likely)) / totals
        low, high = np.where(slope < 0, b, low), np.where(slope > 0, b, high)
        new = b - slope / np.where(curvature > 0, curvature, 1.0)
        inside = (new >= low) & (new <= high) & (curvature > 0)
        new = np.where(inside, new, (low + high) / 2)
        moved = np.abs(new - b)[solved]
        b = new
        if (moved <= LAST_STEP).all():
            break
    return np.where(solved, b, 0.0)


def best_softmax(
    loss: "ProfiledLoss", products: "NDArray[np.float64]", start: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Where Σ c (P(k) − share of k) = 0 for every intercept, by damped Newton steps; Σ b = 0."""
    finite = loss.is_finite & loss.groups.filled[:, None]
    totals = np.where(loss.totals > 0, loss.totals, 1.0)
    b = _centered(start, finite)
    values = loss.group_values(products, b)
    for _ in range(MOST_ITERATIONS):
        outputs = masked(products + b[loss.group], loss.is_finite, loss.group)
        likely = softmax(outputs, axis=1)
        slope = loss.groups.sums(loss.c * (likely - loss.y))
        if (np.abs(slope / totals) <= ACCURACY).all():
            break
        inverses = inverse_curvature_of_softmax(loss, likely)
        step = _centered((inverses @ slope[:, :, None])[:, :, 0], finite)
        new, new_values = _descend(loss, products, b=b, step=step, values=values)
        if (new == b).all():
            break
        b, values = new, new_values
    return b


def inverse_curvature_of_softmax(
    loss: "ProfiledLoss", likely: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Inverses of the second derivatives by the intercepts, "G C C", where these are not 0.

    They are 0 along 1, since only differences of outputs count, and for classes without an intercept.
    """
    n_outputs = likely.shape[1]
    weighted = loss.c * likely
    result = np.zeros((len(loss.groups), n_outputs, n_outputs))
    for group, (start, end) in enumerate(pairwise(loss.groups.starts.tolist())):
        result[group] = -(weighted[start:end].T @ likely[start:end])
    diagonal = np.arange(n_outputs)
    result[:, diagonal, diagonal] += loss.groups.sums(weighted)
    size = np.trace(result, axis1=1, axis2=2)[:, None, None] / n_outputs
    size = np.where(size > 0, size, 1.0)
    # Another number in place of these zeros: a pseudo-inverse could not tell them from small eigenvalues.
    one = loss.is_finite * 1.0
    result += size * one[:, :, None] * one[:, None, :] / n_outputs
    result[:, diagonal, diagonal] += size[:, 0] * np.where(loss.is_finite, RELATIVE_JITTER, 1.0)
    try:
        return np.asarray(np.linalg.inv(result), dtype=np.float64)
    except np.linalg.LinAlgError:
        # All rows of an intercept may be certain of their class, as far as numbers can tell.
        return np.asarray(np.linalg.pinv(result, hermitian=True), dtype=np.float64)


def _descend(
    loss: "ProfiledLoss",
    products: "NDArray[np.float64]",
    *,
    b: "NDArray[np.float64]",
    step: "NDArray[np.float64]",
    values: "NDArray[np.float64]",
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """b less the step, halved for an intercept as long as its loss would rise."""
    length = np.ones((len(b), 1))
    roundoff = np.finfo(np.float64).eps * (np.abs(values) + loss.totals[:, 0])
    for _ in range(MOST_HALVINGS):
        new = b - length * step
        new_values = loss.group_values(products, new)
        worse = ~(new_values <= values + roundoff)
        if not worse.any():
            return new, new_values
        length[worse] /= 2
    length[worse] = 0
    return b - length * step, np.where(worse, values, new_values)


def _centered(values: "NDArray[np.float64]", finite: "NDArray[np.bool_]") -> "NDArray[np.float64]":
    """Values with mean 0 over the finite outputs, and 0 elsewhere."""
    kept = np.where(finite, values, 0.0)
    mean = kept.sum(axis=1, keepdims=True) / np.maximum(finite.sum(axis=1, keepdims=True), 1)
    return np.where(finite, kept - mean, 0.0)
