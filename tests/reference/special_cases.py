"""MTRL and MTFL with squared loss, as their papers state them, solved without any covariance.

Rows of W are tasks here, "T F". Minimizing over the precision's matrix Ω with tr Ω = 1 turns
⟨W, Ω⁻¹ W⟩ into the square of the trace norm of W, whichever side of W it is on.
"""

from collections.abc import Sequence

import numpy as np
from scipy import optimize

from tests.reference.dense import Array

Rows = Sequence[tuple[Array, Array]]
"""Inputs (n_t, F) and targets (n_t,) of every task."""


def squared_losses(weight: Array, rows: Rows) -> list[float]:
    """The sum of (y − wᵀx)² of every task."""
    return [float(((y - x @ w) ** 2).sum()) for w, (x, y) in zip(weight, rows, strict=True)]


def mtrl_objective(weight: Array, omega: Array, rows: Rows, *, strength: float) -> float:
    """Σ_t (1/n_t) Σ (y − wᵀx)² + (λ₂/2) tr(W Ω⁻¹ Wᵀ), with tasks as columns of that W; λ₁ = 0."""
    losses = squared_losses(weight, rows)
    loss = sum(one / len(y) for one, (_, y) in zip(losses, rows, strict=True))
    return loss + strength / 2 * float(np.trace(weight.T @ np.linalg.inv(omega) @ weight))


def mtfl_objective(weight: Array, omega: Array, rows: Rows, *, strength: float) -> float:
    """Σ loss + γ Σ_t w_tᵀ D⁻¹ w_t, with D = `omega` of size F."""
    inverse = np.linalg.inv(omega)
    return sum(squared_losses(weight, rows)) + strength * sum(
        float(w @ inverse @ w) for w in weight
    )


def trace_norm_solution(rows: Rows, row_weights: Sequence[float], *, strength: float) -> Array:
    """The W that minimizes Σ_t ω_t Σ (y − wᵀx)² + strength ‖W‖_*², where it has full rank.

    The gradient 2 Σ ω_t Xᵀ(X w − y) + 2 strength ‖W‖_* U Vᵀ is brought to zero by Powell's method.
    """
    shape = (len(rows), rows[0][0].shape[1])

    def gradient(flat: Array) -> Array:
        weight = flat.reshape(shape)
        left, values, right = np.linalg.svd(weight, full_matrices=False)
        loss = [
            2 * omega * x.T @ (x @ w - y)
            for w, omega, (x, y) in zip(weight, row_weights, rows, strict=True)
        ]
        return (np.stack(loss) + 2 * strength * values.sum() * left @ right).ravel()

    start = np.stack([np.linalg.lstsq(x, y, rcond=None)[0] for x, y in rows])
    found = optimize.root(gradient, start.ravel(), method="hybr", tol=1e-14)
    weight = found.x.reshape(shape)
    if np.abs(gradient(found.x)).max() > 1e-9 or np.linalg.svd(weight)[1][-1] < 1e-3:
        raise ArithmeticError("The problem has no solution of full rank nearby.")
    return weight


def ridge_solution(
    rows: Rows, row_weights: Sequence[float], precision: Array, *, strength: float
) -> Array:
    """The W that minimizes Σ_t ω_t Σ (y − wᵀx)² + strength vec(W)ᵀ P vec(W), as one linear system."""
    n_tasks, n_inputs = len(rows), rows[0][0].shape[1]
    matrix = strength * precision
    right = np.zeros(n_tasks * n_inputs)
    for task, (omega, (x, y)) in enumerate(zip(row_weights, rows, strict=True)):
        part = slice(task * n_inputs, (task + 1) * n_inputs)
        matrix[part, part] += omega * x.T @ x
        right[part] = omega * x.T @ y
    return np.linalg.solve(matrix, right).reshape(n_tasks, n_inputs)
