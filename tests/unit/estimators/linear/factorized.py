"""Problems of a few tasks with a low-rank truth, and ranks that leave something out of them."""

import numpy as np

from multirel.estimators._linear import Design, LinearProblem

RANKS = {"tucker": (2, 2, 3), "tt": (2, 3), "laf": (2,)}

N_TASKS, N_OUTPUTS, N_FEATURES = 4, 3, 5


def make_problem(loss: str, *, n_outputs: int | None = None, seed: int = 0) -> LinearProblem:
    """Uneven tasks with random weights of their rows; three outputs, or one for "binary"."""
    rng = np.random.default_rng(seed)
    n_outputs = n_outputs or (1 if loss == "binary" else N_OUTPUTS)
    counts = np.array([9, 14, 6, 11])
    task = np.repeat(np.arange(N_TASKS), counts)
    x = rng.standard_normal((len(task), N_FEATURES))
    weights = rng.standard_normal((N_TASKS, n_outputs, N_FEATURES))
    scores = np.einsum("noi,ni->no", weights[task], x) + rng.standard_normal((len(x), n_outputs))
    targets = scores
    if loss == "binary":
        targets = np.where(scores > 0, 1.0, -1.0)
    elif loss == "softmax":
        targets = (scores.argmax(axis=1)[:, None] == np.arange(n_outputs)) * 1.0
    share = rng.uniform(0.5, 2.0, len(task))
    return LinearProblem(
        design=Design(x, np.concatenate([[0], np.cumsum(counts)])),
        targets=targets,
        coefficients=share / share.sum(),
        loss=loss,
        n_samples=float(share.sum()),
        n_features=N_FEATURES,
    )


def objective(problem: LinearProblem, ridge: float, weights, intercepts) -> float:
    """The objective, row by row."""
    total = ridge / 2 * float((weights**2).sum())
    rows = zip(
        problem.design.x, problem.design.task, problem.targets, problem.coefficients, strict=True
    )
    for x, task, y, share in rows:
        f = weights[task] @ x + intercepts[task]
        if problem.loss == "squared":
            total += share * float(((y - f) ** 2).sum())
        elif problem.loss == "binary":
            total += share * float(np.log1p(np.exp(-y * f)).sum())
        else:
            total += share * float(np.log(np.exp(f).sum()) - y @ f)
    return total
