"""Minima of losses with spectral penalties by plain proximal gradients: nothing of the package is used."""

import numpy as np
from scipy.special import expit


def objective(problem, weights, penalty):
    """The mean loss with the best intercepts, found by Newton steps, and a penalty on "T r"."""
    outputs, intercepts = best_outputs(problem, weights)
    y = problem.targets[:, 0]
    if problem.loss == "squared":
        losses = (outputs - y) ** 2
    else:
        losses = np.logaddexp(0, -y * outputs)
    return problem.coefficients @ losses + penalty(weights), intercepts


def best_outputs(problem, weights):
    """W x + b of every row with the best b, and b."""
    x, task = dense(problem), problem.design.task
    products = np.einsum("nr,nr->n", x, weights[task])
    y, c = problem.targets[:, 0], problem.coefficients
    intercepts = np.zeros(problem.n_tasks)
    for t in range(problem.n_tasks):
        mine = task == t
        if problem.loss == "squared":
            intercepts[t] = np.average((y - products)[mine], weights=c[mine])
            continue
        for _ in range(100):
            likely = expit(products[mine] + intercepts[t])
            slope = c[mine] @ (likely - (y[mine] > 0))
            if abs(slope) < 1e-15:
                break
            intercepts[t] -= np.clip(slope / (c[mine] @ (likely * (1 - likely))), -1, 1)
    return products + intercepts[task], intercepts


def gradient(problem, weights):
    """The derivative of the loss with the best intercepts, "T r"."""
    outputs, _ = best_outputs(problem, weights)
    y, c, task = problem.targets[:, 0], problem.coefficients, problem.design.task
    if problem.loss == "squared":
        slopes = 2 * c * (outputs - y)
    else:
        slopes = -c * y * expit(-y * outputs)
    result = np.zeros_like(weights)
    np.add.at(result, task, slopes[:, None] * dense(problem))
    return result


def minimize(problem, prox, *, n_blocks=1, n_steps=20_000):
    """Blocks "B T r" by accelerated proximal gradients with restarts; `prox(blocks, step)`."""
    x = dense(problem)
    largest = max(
        np.linalg.norm(np.sqrt(2 * problem.coefficients[mine])[:, None] * x[mine], 2) ** 2
        for mine in (problem.design.task == t for t in range(problem.n_tasks))
    )
    step = 1 / (n_blocks * largest)
    old = near = np.zeros((n_blocks, problem.n_tasks, x.shape[1]))
    momentum = 1.0
    for _ in range(n_steps):
        new = prox(near - step * gradient(problem, near.sum(axis=0)), step)
        if np.vdot(near - new, new - old) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        near = new + (momentum - 1) / following * (new - old)
        if np.abs(new - old).max() < 1e-13:
            return new
        old, momentum = new, following
    return old


def prox_trace_norm(matrix, threshold):
    """Singular values less a threshold."""
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    return (u * np.maximum(s - threshold, 0)) @ v


def prox_squared_trace_norm(matrix, strength, ridge=0.0):
    """The minimizer of strength ‖·‖_*² + ridge/2 ‖·‖² + ½ ‖· − matrix‖², by bisection on the threshold."""
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    low, high = 0.0, s.max(initial=0.0)
    for _ in range(200):
        middle = (low + high) / 2
        total = np.maximum(s - middle, 0).sum() / (1 + ridge)
        low, high = (middle, high) if 2 * strength * total > middle else (low, middle)
    return (u * (np.maximum(s - low, 0) / (1 + ridge))) @ v


def prox_rows(matrix, threshold):
    """Rows shortened by a threshold."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix * np.maximum(1 - threshold / np.maximum(lengths, 1e-300), 0)


def trace_norm(matrix):
    """The sum of the singular values."""
    return np.linalg.norm(matrix, "nuc")


def dense(problem):
    """The rows as an array."""
    x = problem.design.x
    return x.toarray() if hasattr(x, "toarray") else x
