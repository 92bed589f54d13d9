"""Small problems with quadratic penalties, and their minima by dense algebra of its own."""

import numpy as np
from scipy.special import expit, log_softmax, softmax

from multirel.estimators._linear import Design, LinearProblem
from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty


def make_problem(loss, counts, *, n_features=4, n_outputs=1, seed=0, noise=1.0, sparse=None):
    """Random rows of tasks with the given counts."""
    rng = np.random.default_rng(seed)
    n = sum(counts)
    x = rng.normal(size=(n, n_features)) + 0.3
    if sparse is not None:
        x = sparse.csr_array(x * (rng.random(x.shape) < 0.4))
    starts = np.concatenate([[0], np.cumsum(counts)])
    task = np.repeat(np.arange(len(counts)), counts)
    truth = rng.normal(size=(n_outputs, n_features)) + 0.5 * rng.normal(
        size=(len(counts), n_outputs, n_features)
    )
    dense = x if sparse is None else x.toarray()
    outputs = np.einsum("ncr,nr->nc", truth[task], dense) + noise * rng.normal(size=(n, n_outputs))
    if loss == "squared":
        targets = outputs + 1.0
    elif loss == "binary":
        targets = np.where(outputs > 0, 1.0, -1.0)
    else:
        targets = np.eye(n_outputs)[outputs.argmax(axis=1)]
    weight = rng.uniform(0.5, 1.5, size=n)
    return LinearProblem(
        design=Design(x, starts),
        targets=targets,
        coefficients=weight / weight.sum(),
        loss=loss,
        n_samples=float(n),
        n_features=n_features,
    )


def random_precision(size, seed, *, smallest=0.3):
    """A positive definite matrix."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    return root @ root.T / size + smallest * np.eye(size)


def make_penalty(strength, *, task=None, output=None, inner=None):
    """A penalty from dense precisions; None is the identity."""
    modes = [
        ModeSpectrum.identity() if matrix is None else ModeSpectrum.from_precision(matrix)
        for matrix in (task, output, inner)
    ]
    return QuadraticPenalty(strength=strength, task=modes[0], output=modes[1], input=modes[2])


def dense_precision(penalty, shape):
    """s · P_T ⊗ P_O ⊗ P_I."""
    result = np.full((1, 1), penalty.strength)
    for mode, size in zip((penalty.task, penalty.output, penalty.input), shape, strict=True):
        basis = np.zeros((size, 0)) if mode.basis is None else mode.basis
        dense = mode.outside * (np.eye(size) - basis @ basis.T) + (basis * mode.inside) @ basis.T
        result = np.kron(result, dense)
    return result


def dense_minimum(problem, penalty, *, n_steps=60):
    """Weights, intercepts and objective at the minimum, by Newton steps with all matrices dense.

    Every output must have a finite best intercept.
    """
    shape = problem.weight_shape
    _, n_outputs, _ = shape
    x = problem.design.x
    x = x.toarray() if problem.design.is_sparse else np.asarray(x, dtype=float)
    size = int(np.prod(shape))
    groups = problem.group_starts
    n_groups = len(groups) - 1
    group = np.repeat(np.arange(n_groups), np.diff(groups))
    # One row per row and output: its products with all weights and intercepts.
    rows = np.zeros((len(x), n_outputs, size + n_groups * n_outputs))
    for n, t in enumerate(problem.design.task):
        for c in range(n_outputs):
            first = (t * n_outputs + c) * shape[2]
            rows[n, c, first : first + shape[2]] = x[n]
            rows[n, c, size + group[n] * n_outputs + c] = 1
    full = np.zeros((rows.shape[2],) * 2)
    full[:size, :size] = dense_precision(penalty, shape)
    v, c, y = np.zeros(rows.shape[2]), problem.coefficients, problem.targets

    def value(v):
        f = rows @ v
        losses = {
            "squared": lambda: ((y - f) ** 2).sum(axis=1),
            "binary": lambda: np.logaddexp(0, -y * f).sum(axis=1),
            "softmax": lambda: -(y * log_softmax(f, axis=1)).sum(axis=1),
        }[problem.loss]()
        return c @ losses + v @ full @ v / 2

    for _ in range(n_steps):
        f = rows @ v
        if problem.loss == "squared":
            slope, bend = 2 * (f - y), 2 * np.ones_like(f)
            curvature = np.einsum("nc,cd->ncd", bend, np.eye(n_outputs))
        elif problem.loss == "binary":
            slope, bend = -y * expit(-y * f), expit(f) * expit(-f)
            curvature = np.einsum("nc,cd->ncd", bend, np.eye(n_outputs))
        else:
            p = softmax(f, axis=1)
            slope = p - y
            curvature = np.einsum("nc,cd->ncd", p, np.eye(n_outputs)) - p[:, :, None] * p[:, None]
        gradient = np.einsum("n,nc,ncv->v", c, slope, rows) + full @ v
        hessian = np.einsum("n,ncd,ncv,ndw->vw", c, curvature, rows, rows, optimize=True) + full
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
        length = 1.0
        while value(v - length * step) > value(v) + 1e-14 and length > 1e-10:
            length /= 2
        v = v - length * step
        if np.abs(step).max() < 1e-13:
            break
    return v[:size].reshape(shape), v[size:].reshape(n_groups, n_outputs), value(v)


def objective(problem, penalty, weights, intercepts):
    """The objective, from the formula."""
    x = problem.design.x
    x = x.toarray() if problem.design.is_sparse else np.asarray(x, dtype=float)
    f = np.einsum("ncr,nr->nc", weights[problem.design.task], x)
    groups = problem.group_starts
    f += intercepts[np.repeat(np.arange(len(groups) - 1), np.diff(groups))]
    y = problem.targets
    if problem.loss == "squared":
        losses = ((y - f) ** 2).sum(axis=1)
    elif problem.loss == "binary":
        losses = np.logaddexp(0, -y * f).sum(axis=1)
    else:
        losses = -(y * log_softmax(f, axis=1)).sum(axis=1)
    v = weights.ravel()
    return problem.coefficients @ losses + v @ dense_precision(penalty, weights.shape) @ v / 2
