"""One more task, given what is known about its weights beforehand: a small convex problem."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, log_softmax, softmax

from multirel.estimators._linear._problem import Loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NewTask", "NewTaskSolution", "solve_new_task"]

MAX_ITERATIONS = 100
MAX_HALVINGS = 40
SUFFICIENT = 1e-4
"""The share of the decrease that a gradient promises which a step has to keep."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NewTask:
    r"""Minimize over v and b the loss of outputs that are linear in them, and a ridge penalty on v.

    $$\sum_n\omega_n\,\ell(y_n,\,o_n+G_nv+b)+\tfrac{\lambda}{2}\lVert v\rVert^2$$
    """

    design: "NDArray[np.float64]"
    """G, "n C k"."""

    offset: "NDArray[np.float64]"
    """What the outputs are where v and b are zero, "n C"."""

    targets: "NDArray[np.float64]"
    """ "n C", as in `LinearProblem`."""

    coefficients: "NDArray[np.float64]"
    """The weight ω of each row, "n"."""

    loss: Loss
    """As in `LinearProblem`."""

    strength: float
    """λ."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NewTaskSolution:
    """What is learned about one more task."""

    values: "NDArray[np.float64]"
    """v, "k"."""

    intercepts: "NDArray[np.float64]"
    """b, "C"."""

    objective: float
    """The objective there."""

    gap: float
    """What a Newton step promises to win, relative to the objective."""


def solve_new_task(task: NewTask, *, tolerance: float) -> NewTaskSolution:
    """The minimizer, by damped Newton steps.

    Args:
        task: The problem.
        tolerance: Largest promise of a step at which to stop, relative to the objective.
    """
    n_outputs, n_values = task.offset.shape[1], task.design.shape[2]
    point, promise = np.zeros(n_values + n_outputs), np.inf
    value = _objective(task, point)
    for _ in range(MAX_ITERATIONS):
        gradient, curvature = _derivatives(task, point)
        step = np.linalg.lstsq(curvature, -gradient, rcond=None)[0]
        promise = float(-gradient @ step) / 2
        if promise <= tolerance * value:
            break
        length, moved = 1.0, _objective(task, point + step)
        for _ in range(MAX_HALVINGS):
            if moved <= value - SUFFICIENT * length * promise:
                break
            length /= 2
            moved = _objective(task, point + length * step)
        if moved >= value:
            # Roundoff is all that is left.
            break
        point, value = point + length * step, moved
    return NewTaskSolution(
        values=point[:n_values],
        intercepts=point[n_values:],
        objective=value,
        gap=max(promise, 0.0) / value if value > 0 else 0.0,
    )


def _outputs(task: NewTask, point: "NDArray[np.float64]") -> "NDArray[np.float64]":
    n_values = task.design.shape[2]
    found: NDArray[np.float64] = task.offset + task.design @ point[:n_values] + point[n_values:]
    return found


def _objective(task: NewTask, point: "NDArray[np.float64]") -> float:
    values, outputs, y = point[: task.design.shape[2]], _outputs(task, point), task.targets
    if task.loss == "squared":
        losses = np.square(y - outputs)
    elif task.loss == "binary":
        losses = np.logaddexp(0, -y * outputs)
    else:
        losses = -y * log_softmax(outputs, axis=1)
    return float(task.coefficients @ losses.sum(axis=1) + task.strength / 2 * (values @ values))


def _derivatives(
    task: NewTask, point: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """The gradient and the Hessian."""
    n_rows, n_outputs, n_values = task.design.shape
    outputs = _outputs(task, point)
    ones = np.broadcast_to(np.eye(n_outputs), (n_rows, n_outputs, n_outputs))
    design = np.concatenate([task.design, ones], axis=2)
    slopes, curvatures = _by_outputs(task, outputs)
    slopes *= task.coefficients[:, None]
    curvatures *= task.coefficients[:, None, None]
    ridge = task.strength * (np.arange(n_values + n_outputs) < n_values)
    gradient = np.einsum("nc,nck->k", slopes, design) + ridge * point
    curved = np.einsum("ncd,ndk->nck", curvatures, design)
    hessian = np.tensordot(design, curved, axes=([0, 1], [0, 1])) + np.diag(ridge)
    return gradient, hessian


def _by_outputs(
    task: NewTask, outputs: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """The first and second derivatives of every row's loss by its outputs, "n C" and "n C C"."""
    each, y = np.eye(outputs.shape[1]), task.targets
    if task.loss == "squared":
        return 2 * (outputs - y), np.repeat(2 * each[None], len(y), axis=0)
    if task.loss == "binary":
        share = expit(-y * outputs)
        return -y * share, (share * (1 - share))[..., None] * each
    share = softmax(outputs, axis=1)
    return share - y, share[..., None] * each - share[:, :, None] * share[:, None, :]
