"""Intervals for the correlations between tasks."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from multirel.estimators._fit_input import read_fit_input
from multirel.estimators._fit_linear import build_problem
from multirel.estimators._learned_matrices import as_correlations
from multirel.estimators._linear import LinearProblem, LinearSolution
from multirel.estimators._linear._unlabeled_tasks import labeled_problem
from multirel.estimators._network_plan import uses_network
from multirel.estimators._relations_resample import refitted_correlations
from multirel.estimators._relations_sampler import draw_task_products
from multirel.estimators._task_rows import TaskRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RelationIntervals", "relation_intervals_of", "remember_rows", "without_rows"]

ROWS = "_rows_of_fit"
"""Where an estimator remembers the rows of `fit`."""

Method = Literal["simulated", "resampled"]
Target = Literal["weights", "covariance"]

METHODS = ("simulated", "resampled")
TARGETS = ("weights", "covariance")
N_CHAINS = 4
"""Chains of draws, whatever the number of jobs: results do not depend on it."""

N_BURN = 100
"""Draws that each chain makes before those that count."""

FEWEST = 20
"""Draws below which quantiles mean little."""

LARGEST_CORRELATION = 1 - 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class RelationIntervals:
    """Intervals for the correlations between tasks, each "T T"; NaN for tasks without labels."""

    estimate: "NDArray[np.float64]"
    """The median of what the data allow for; `task_correlation_` is shrunk for the sake of prediction."""

    low: "NDArray[np.float64]"
    """The lower ends."""

    high: "NDArray[np.float64]"
    """The upper ends."""

    level: float
    """How often each interval is meant to hold the truth."""

    tasks: "NDArray[Any]"
    """The names of the tasks."""


def relation_intervals_of(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    tasks: Any = None,
    sample_weight: Any = None,
    level: float = 0.9,
    n_boot: int = 400,
    method: Method = "simulated",
    target: Target = "weights",
    n_jobs: int | None = None,
    random_state: Any = None,
) -> RelationIntervals:
    """Intervals for the correlations between the tasks of a linear model.

    Args:
        estimator: A fitted linear estimator with a task covariance.
        X: The features of `fit`; None means the rows that it was given.
        y: The labels of `fit`.
        tasks: The tasks of `fit`.
        sample_weight: The weights of `fit`.
        level: How often each interval is meant to hold the truth.
        n_boot: Number of draws, or of refits.
        method: "simulated" draws the weights that the rows of each task allow for, and what these say
            about the tasks' covariance. "resampled" is the plain bootstrap, which draws rows again within
            every task and fits again: its intervals are of `task_correlation_`, with all the shrinkage
            that serves prediction, and often miss the truth.
        target: "weights": correlations of the tasks' true weights; "covariance": those of the
            distribution that these weights came from, of which they are C·F draws.
        n_jobs: Processes; the result does not depend on it.
        random_state: Seed of the draws.

    Raises:
        ValueError: If a setting does not fit, or the model is a network.
    """
    rows = _rows_of_fit(estimator, X, y, tasks=tasks, sample_weight=sample_weight)
    _check(level=level, n_boot=n_boot, method=method, target=target)
    problem, has_rows = labeled_problem(build_problem(estimator, rows)[0])
    seeds = _seeds(random_state)
    if method == "simulated":
        weight = _row_weight(problem, rows)
        drawn = _simulated(problem, weight, n_boot=n_boot, seeds=seeds, n_jobs=n_jobs)
    else:
        drawn = _refitted(estimator, problem, n_boot=n_boot, seeds=seeds, n_jobs=n_jobs)
    if target == "covariance":
        drawn = _widened(drawn, _n_effective(problem), rng=np.random.default_rng(seeds[-1]))
    tail = (1 - level) / 2
    low, median, high = np.quantile(drawn, [tail, 0.5, 1 - tail], axis=0)
    full = [_with_unknown(matrix, has_rows) for matrix in (median, low, high)]
    return RelationIntervals(
        estimate=full[0], low=full[1], high=full[2], level=level, tasks=estimator.tasks_
    )


def _rows_of_fit(estimator: Any, X: Any, y: Any, *, tasks: Any, sample_weight: Any) -> TaskRows:
    """The rows that `fit` saw: those that the estimator remembers, unless they are given again."""
    check_is_fitted(estimator)
    if uses_network(estimator):
        raise ValueError(
            "`relation_intervals` must be asked of linear models: got hidden layers or a backbone. Fit with "
            "hidden_sizes=() on features."
        )
    rows: TaskRows | None = getattr(estimator, ROWS, None)
    if X is not None:
        rows = read_fit_input(clone(estimator), X, y, tasks=tasks, sample_weight=sample_weight)
        if rows.tasks.tolist() != estimator.tasks_.tolist():
            raise ValueError(
                f"`tasks` must be those of `fit`: expected {', '.join(map(str, estimator.tasks_))}, got "
                f"{', '.join(map(str, rows.tasks))}."
            )
    if rows is None:
        raise ValueError(
            "`X` and `y` must be given where the rows of `fit` are gone, since the estimator was loaded: got "
            "None. Pass those of `fit`."
        )
    return rows


def remember_rows(estimator: Any, rows: TaskRows) -> None:
    """Let a linear estimator remember the rows of `fit`, not copies of them, for `relation_intervals`."""
    setattr(estimator, ROWS, None if uses_network(estimator) else rows)


def without_rows(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an estimator without the rows that it remembers: they belong into no file."""
    return {name: value for name, value in state.items() if name != ROWS}


def _check(*, level: float, n_boot: int, method: str, target: str) -> None:
    if not 0 < level < 1:
        raise ValueError(f"`level` must be between 0 and 1: got {level}.")
    if n_boot < FEWEST:
        raise ValueError(f"`n_boot` must be at least {FEWEST}: got {n_boot}.")
    for name, value, known in (("method", method, METHODS), ("target", target, TARGETS)):
        if value not in known:
            raise ValueError(
                f"`{name}` must be one of {', '.join(map(repr, known))}: got {value!r}."
            )


def _seeds(random_state: Any) -> list[np.random.SeedSequence]:
    """A seed for every chain, and one more."""
    first = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.SeedSequence(first).spawn(N_CHAINS + 1)


def _row_weight(problem: LinearProblem, rows: TaskRows) -> "NDArray[np.float64]":
    """What every row counts; where tasks count the same, each has as much weight as it has rows."""
    weight = problem.coefficients * problem.n_samples
    if rows.objective_scale == 1:
        return weight
    counts = np.diff(problem.design.starts)
    totals = np.bincount(problem.design.task, weights=weight)
    return weight * (counts / totals)[problem.design.task]


def _simulated(
    problem: LinearProblem,
    row_weight: "NDArray[np.float64]",
    *,
    n_boot: int,
    seeds: list[np.random.SeedSequence],
    n_jobs: int | None,
) -> "NDArray[np.float64]":
    """Correlations of the weights that the rows allow for, "n T T"."""
    n_each = -(-n_boot // N_CHAINS)
    chains = Parallel(n_jobs=n_jobs)(
        delayed(_correlations_of_chain)(problem, row_weight, n_draws=n_each, seed=seed)
        for seed in seeds[:N_CHAINS]
    )
    drawn: NDArray[np.float64] = np.concatenate(chains)[:n_boot]
    return drawn


def _correlations_of_chain(
    problem: LinearProblem,
    row_weight: "NDArray[np.float64]",
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> "NDArray[np.float64]":
    products = draw_task_products(problem, row_weight, n_draws=n_draws, n_burn=N_BURN, seed=seed)
    return np.stack([as_correlations(matrix) for matrix in products])


def _refitted(
    estimator: Any,
    problem: LinearProblem,
    *,
    n_boot: int,
    seeds: list[np.random.SeedSequence],
    n_jobs: int | None,
) -> "NDArray[np.float64]":
    """Correlations that the estimator learns from rows drawn again within every task, "n T T"."""
    start: LinearSolution = estimator._solve(problem)
    parts = Parallel(n_jobs=n_jobs)(
        delayed(refitted_correlations)(estimator, problem, start=start, n_boot=count, seed=seed)
        for count, seed in zip(_shares(n_boot), seeds[:N_CHAINS], strict=True)
    )
    return np.concatenate(parts)


def _shares(total: int) -> Iterable[int]:
    return [(total + number) // N_CHAINS for number in range(N_CHAINS)]


def _n_effective(problem: LinearProblem) -> int:
    """How many draws from the tasks' covariance the weights are."""
    n_outputs = problem.n_outputs - (problem.loss == "softmax")
    return n_outputs * problem.n_features


def _widened(
    drawn: "NDArray[np.float64]", n_effective: int, *, rng: np.random.Generator
) -> "NDArray[np.float64]":
    """Correlations of the distribution that weights with these correlations came from.

    Fisher's z of n draws without a mean is normal with variance 1/(n − 2) around that of the distribution.
    """
    deviation = max(n_effective - 2, 1) ** -0.5
    z = np.arctanh(drawn.clip(-LARGEST_CORRELATION, LARGEST_CORRELATION))
    noise = np.triu(rng.standard_normal(drawn.shape), 1)
    widened: NDArray[np.float64] = np.tanh(z + deviation * (noise + noise.swapaxes(1, 2)))
    diagonal = np.arange(drawn.shape[1])
    widened[:, diagonal, diagonal] = 1.0
    return widened


def _with_unknown(
    matrix: "NDArray[np.float64]", has_rows: "NDArray[np.bool_]"
) -> "NDArray[np.float64]":
    full = np.full((len(has_rows), len(has_rows)), np.nan)
    full[np.ix_(has_rows, has_rows)] = matrix
    return full
