r"""Draws of all tasks' weights given their rows, from which intervals of the relations are read.

$$w_t=m+v_t,\qquad m\sim N(0,\tau^2I),\qquad V\sim N(0,G\otimes I),\qquad
G\mid a\sim\text{IW}(\nu+T-1,\,2\nu\,\text{diag}(1/a))$$

The weights of a task are a part that all tasks have in common and one of its own. G, τ² and a are unknown,
with wide priors; ν = 2 makes the correlations in G uniform beforehand and leaves the scales free (Huang and
Wand, 2013). All but the rows is drawn again and again given the rest: the weights as in `WeightedRows`, the
variance of the noise of each task, and, for classes, the Pólya-Gamma variables that turn logistic losses into
squares (Polson, Scott and Windle, 2013).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from multirel.estimators._relations_rows import WeightedRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from multirel.estimators._linear import LinearProblem

__all__ = ["draw_task_products"]

DEGREES = 2.0
"""ν: correlations are uniform beforehand."""

WIDE = 10.0
"""A² of the prior of variances, in units of what the responses suggest: far above them."""

NOISE_DEGREES = 4.0
"""How many rows' worth the tasks' noise variances are pulled to one another."""

SMALLEST_NOISE = 1e-8
"""Smallest variance of noise, relative to that of the responses: below, linear systems lose their digits."""

LOGIT_VARIANCE = 4.0
"""The scale of log-odds, in the place of the variance of responses."""

N_TERMS = 20
"""Terms of a Pólya-Gamma variable that are drawn; the rest has its mean."""


@dataclass
class _State:
    """Everything that is drawn."""

    weights: "NDArray[np.float64]"
    """ "T C r"."""

    intercepts: "NDArray[np.float64]"
    """ "T C"."""

    covariance: "NDArray[np.float64]"
    """G, of what the tasks do not have in common."""

    common_variance: float
    """τ²."""

    noise: "NDArray[np.float64]"
    """Variance of the noise of every task and output, "T C"."""

    common_noise: float
    """The variance that those of the tasks are pulled to."""


def draw_task_products(
    problem: "LinearProblem",
    row_weight: "NDArray[np.float64]",
    *,
    n_draws: int,
    n_burn: int,
    seed: np.random.SeedSequence,
) -> "Iterator[NDArray[np.float64]]":
    """Draws of the products ⟨W_s, W_t⟩ of all pairs of tasks, "T T", one after the other.

    Args:
        problem: The problem; all tasks have rows.
        row_weight: What every row counts.
        n_draws: The number of draws.
        n_burn: Draws that are made before the first.
        seed: Seed of the chain.
    """
    rng = np.random.default_rng(seed)
    chain = _Chain(problem, row_weight, rng)
    for number in range(n_burn + n_draws):
        products = chain.step()
        if number >= n_burn:
            yield products


@final
class _Chain:
    """A chain of draws, each given the one before.

    Args:
        problem: The problem.
        row_weight: What every row counts.
        rng: Source of all draws.
    """

    def __init__(
        self,
        problem: "LinearProblem",
        row_weight: "NDArray[np.float64]",
        rng: np.random.Generator,
    ) -> None:
        self.problem = problem
        self.row_weight = row_weight
        self.rng = rng
        self.norms = _squared_norms(problem.design.x)
        self.scale = _scale(problem)
        self.state = _start(problem, self.scale)

    def step(self) -> "NDArray[np.float64]":
        """The products of the tasks' weights in the next draw."""
        precision = _inverse(self.state.covariance + self.state.common_variance)
        if self.problem.loss == "squared":
            self._draw_squared(precision)
        else:
            self._draw_logistic(precision)
        weights = self.state.weights
        if self.problem.loss == "softmax":
            # Rows cannot tell what all classes have in common.
            weights = weights - weights.mean(axis=1, keepdims=True)
        common, own = self._hidden(self.problem.n_outputs - (self.problem.loss == "softmax"))
        products = _products(weights) + _products(common + own)
        self._draw_covariances()
        return products

    def _draw_squared(self, precision: "NDArray[np.float64]") -> None:
        state, design, task = self.state, self.problem.design, self.problem.design.task
        targets = self.problem.targets
        weight = self.row_weight[:, None] / state.noise[task]
        rows = WeightedRows(design, targets, weight, squared_norms=self.norms)
        state.weights = rows.draw_weights(precision, start=state.weights, rng=self.rng)
        outputs = design.products(state.weights)
        state.intercepts = rows.draw_intercepts(outputs, self.rng)
        residual = targets - outputs - state.intercepts[task]
        squares = design.sums(self.row_weight[:, None] * np.square(residual))
        counts = design.sums(self.row_weight[:, None])
        half = (NOISE_DEGREES * state.common_noise + squares) / 2
        noise = half / self.rng.gamma((NOISE_DEGREES + counts) / 2, size=half.shape)
        state.noise = np.maximum(noise, SMALLEST_NOISE * self.scale)
        # An exponential distribution beforehand, of mean `scale`, keeps it from sinking to 0 where tasks
        # with fewer rows than features can be fitted exactly.
        rate = NOISE_DEGREES / 2 * np.sum(1 / state.noise) + 1 / self.scale
        state.common_noise = float(self.rng.gamma(NOISE_DEGREES / 2 * half.size + 1) / rate)

    def _draw_logistic(self, precision: "NDArray[np.float64]") -> None:
        """Weights of every output given those of the others, which are an offset of its log-odds."""
        state, design, task = self.state, self.problem.design, self.problem.design.task
        outputs = design.products(state.weights) + state.intercepts[task]
        for c in range(self.problem.n_outputs):
            offset = np.zeros(len(task))
            if self.problem.loss == "softmax":
                offset = logsumexp(np.delete(outputs, c, axis=1), axis=1)
            curvature = _polya_gamma(self.row_weight, outputs[:, c] - offset, self.rng)
            pull = self.row_weight * ((self.problem.targets[:, c] > 0) - 0.5)
            response = pull / curvature + offset
            one = WeightedRows(
                design, response[:, None], curvature[:, None], squared_norms=self.norms
            )
            drawn = one.draw_weights(precision, start=state.weights[:, [c]], rng=self.rng)
            products = design.products(drawn)
            state.weights[:, [c]] = drawn
            state.intercepts[:, [c]] = one.draw_intercepts(products, self.rng)
            outputs[:, c] = products[:, 0] + state.intercepts[task, c]

    def _hidden(self, n_outputs: int) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Weights off the span of the rows, which have only their prior: the common part and the own."""
        covariance = self.state.covariance
        n_hidden = n_outputs * (self.problem.n_features - self.problem.design.n_coordinates)
        common = np.sqrt(self.state.common_variance) * self.rng.standard_normal((1, n_hidden))
        noise = self.rng.standard_normal((len(covariance), n_hidden))
        return common, np.linalg.cholesky(covariance) @ noise if n_hidden else noise

    def _draw_covariances(self) -> None:
        """G and τ² given the weights, after the variances a and b that they have given these."""
        state, problem, n_tasks = self.state, self.problem, self.problem.n_tasks
        scale = WIDE * self.scale / problem.n_features
        inverse = _inverse(state.covariance)
        weights = state.weights.reshape(n_tasks, -1)
        common = _draw_common(weights, inverse, state.common_variance, self.rng)
        hidden_common, hidden_own = self._hidden(problem.n_outputs)
        products = _products(weights - common) + _products(hidden_own)
        # 1/a and 1/b are gamma where a and b are inverse gamma.
        rate = DEGREES * np.diagonal(inverse) + 1 / scale
        inverse_a = self.rng.gamma((DEGREES + n_tasks) / 2, 1 / rate)
        inverse_b = self.rng.gamma(1.0, 1 / (1 / state.common_variance + 1 / scale))
        n_each = problem.n_outputs * problem.n_features
        state.covariance = _inverse_wishart(
            products + np.diag(2 * DEGREES * inverse_a), DEGREES + n_tasks - 1 + n_each, self.rng
        )
        square = float(np.square(common).sum() + np.square(hidden_common).sum())
        half = square / 2 + inverse_b
        state.common_variance = float(half / self.rng.gamma((n_each + 1) / 2))


def _draw_common(
    weights: "NDArray[np.float64]",
    inverse: "NDArray[np.float64]",
    variance: float,
    rng: np.random.Generator,
) -> "NDArray[np.float64]":
    """m given the weights "T d": they are T correlated measurements of it."""
    share = inverse.sum(axis=0)
    precision = float(share.sum()) + 1 / variance
    mean: NDArray[np.float64] = (share @ weights) / precision
    return mean + rng.standard_normal(mean.shape) / np.sqrt(precision)


def _scale(problem: "LinearProblem") -> float:
    """The variance of responses within tasks."""
    if problem.loss != "squared":
        return LOGIT_VARIANCE
    design, y = problem.design, problem.targets
    mean = design.sums(y) / np.diff(design.starts)[:, None]
    variance = float(np.square(y - mean[design.task]).mean())
    # Constant responses have no scale of their own.
    return variance if variance > 0 else 1.0


def _start(problem: "LinearProblem", scale: float) -> _State:
    shape = problem.weight_shape
    return _State(
        weights=np.zeros(shape),
        intercepts=np.zeros(shape[:2]),
        covariance=np.eye(shape[0]) * scale / (4 * problem.n_features),
        common_variance=scale / (4 * problem.n_features),
        noise=np.full(shape[:2], scale / 2),
        common_noise=scale / 2,
    )


def _squared_norms(x: Any) -> "NDArray[np.float64]":
    squares = x.multiply(x) if sparse.issparse(x) else np.square(x)
    return np.asarray(squares.sum(axis=1), dtype=np.float64)


def _products(weights: "NDArray[np.float64]") -> "NDArray[np.float64]":
    rows = weights.reshape(len(weights), -1)
    return rows @ rows.T


def _polya_gamma(
    shape: "NDArray[np.float64]", tilt: "NDArray[np.float64]", rng: np.random.Generator
) -> "NDArray[np.float64]":
    """Pólya-Gamma variables PG(b, c): a sum of gammas, whose tail is replaced by its mean."""
    k = np.arange(1, N_TERMS + 1) - 0.5
    denominator = k**2 + np.square(tilt / (2 * np.pi))[:, None]
    gammas = rng.standard_gamma(np.broadcast_to(shape[:, None], denominator.shape))
    drawn = (gammas / denominator).sum(axis=1) / (2 * np.pi**2)
    half = np.abs(tilt) / 2
    ratio = np.where(half > 0, np.tanh(half) / np.where(half > 0, half, 1), 1.0)
    tail = shape * (ratio / 4 - (1 / denominator).sum(axis=1) / (2 * np.pi**2))
    return drawn + tail.clip(min=0)


def _inverse_wishart(
    matrix: "NDArray[np.float64]", degrees: float, rng: np.random.Generator
) -> "NDArray[np.float64]":
    """A draw from IW(degrees, matrix): L (B Bᵀ)⁻¹ Lᵀ with Bartlett's triangular B and matrix = L Lᵀ."""
    size = len(matrix)
    bartlett = np.tril(rng.standard_normal((size, size)), -1)
    bartlett[np.diag_indices(size)] = np.sqrt(rng.chisquare(degrees - np.arange(size)))
    factor = np.linalg.solve(bartlett, np.linalg.cholesky(matrix).T)
    drawn: NDArray[np.float64] = factor.T @ factor
    return (drawn + drawn.T) / 2


def _inverse(matrix: "NDArray[np.float64]") -> "NDArray[np.float64]":
    inverse = np.linalg.inv(matrix)
    return (inverse + inverse.T) / 2
