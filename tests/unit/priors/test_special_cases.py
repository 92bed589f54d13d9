"""K = 2, no shrinkage, the square root of the scatter: MTRL with the task mode, MTFL with either."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.builders import rotation
from tests.environment import DEVICE, array
from tests.reference import special_cases as reference
from tests.stacks import MODES, covariances_of, prior_on, set_weight

STRENGTH = 1.5
SETTINGS = {
    "covariance_update": "trace",
    "shrinkage": 0.0,
    "jitter": 0.0,
    "start": 0.0,
    "n_updates": None,
    "strength": STRENGTH,
    "dtype": torch.float64,
}

pytestmark = pytest.mark.skipif(DEVICE.type != "cpu", reason="agreement to 1e-10 is checked once")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Rows of linear tasks with noise, as many as give a solution of full rank."""

    n_tasks: int
    n_inputs: int

    @property
    def rows(self):
        rng = np.random.default_rng(0)
        size = max(self.n_tasks, self.n_inputs)
        truth = 2 * rotation(rng, size)[: self.n_tasks, : self.n_inputs]
        counts = [self.n_inputs + 5 + 4 * task for task in range(self.n_tasks)]
        inputs = [rng.standard_normal((count, self.n_inputs)) for count in counts]
        noise = [0.3 * rng.standard_normal(count) for count in counts]
        return [(x, x @ w + e) for x, w, e in zip(inputs, truth, noise, strict=True)]

    @property
    def n_samples(self):
        return sum(len(y) for _, y in self.rows)

    def row_weights(self, is_equal: bool):
        """N/(T n_t) per row, or 1."""
        counts = [len(y) for _, y in self.rows]
        return [self.n_samples / (self.n_tasks * n) if is_equal else 1.0 for n in counts]

    def prior(self, mode: str, *, has_output: bool = True):
        shape = (self.n_tasks, 1, self.n_inputs) if has_output else (self.n_tasks, self.n_inputs)
        order = len(shape)
        assert mode in MODES[order]
        weight = np.ones(shape)
        return prior_on(weight, modes=(mode,), n_samples=self.n_samples, **SETTINGS)


WIDE = Problem(n_tasks=3, n_inputs=5)
SQUARE = Problem(n_tasks=4, n_inputs=4)


def objective(prior, weight, problem, *, is_equal, half):
    """(1/N) Σ ω_t loss + prior(), with the loss (y − f)² or half of it: the objective of this library."""
    losses = reference.squared_losses(weight, problem.rows)
    weights = problem.row_weights(is_equal)
    loss = sum(omega * one for omega, one in zip(weights, losses, strict=True))
    return loss * (0.5 if half else 1.0) / problem.n_samples + array(prior()).item()


def learned(problem, mode, *, has_output=True):
    """A prior that was updated from one weight and acts on another, that weight, and its covariance."""
    rng = np.random.default_rng(1)
    shape = (problem.n_tasks, problem.n_inputs)
    prior, network = problem.prior(mode, has_output=has_output)
    parameter = tuple(network["a"].weight.shape)
    set_weight(network, rng.standard_normal(shape).reshape(parameter))
    prior.update()
    weight = rng.standard_normal(shape)
    set_weight(network, weight.reshape(parameter))
    index = 0 if mode == "task" else -1
    return prior, weight, covariances_of(prior)[index]


@pytest.mark.parametrize("has_output", [True, False])
@pytest.mark.parametrize(("half", "c"), [(False, 1), (True, 2)])
def test_objective_of_the_task_mode_is_that_of_mtrl(half, c, has_output):
    """λ₂ = cλ/N and row weights N/(T n_t), at the same W and Ω = Σ_T / T."""
    prior, weight, covariance = learned(WIDE, "task", has_output=has_output)
    omega = covariance / WIDE.n_tasks
    assert np.trace(omega) == pytest.approx(1, abs=1e-12)
    expected = reference.mtrl_objective(
        weight, omega, WIDE.rows, strength=c * STRENGTH / WIDE.n_samples
    )
    ours = objective(prior, weight, WIDE, is_equal=True, half=half)
    assert c * WIDE.n_tasks * ours == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("half", "c"), [(False, 1), (True, 2)])
def test_objective_of_the_input_mode_is_that_of_mtfl(half, c):
    """γ = cλ/(2F) for the summed loss, at the same W and D = Σ_I / F."""
    prior, weight, covariance = learned(SQUARE, "input")
    omega = covariance / SQUARE.n_inputs
    assert np.trace(omega) == pytest.approx(1, abs=1e-12)
    strength = c * STRENGTH / (2 * SQUARE.n_inputs)
    expected = reference.mtfl_objective(weight, omega, SQUARE.rows, strength=strength)
    ours = objective(prior, weight, SQUARE, is_equal=False, half=half)
    assert c * SQUARE.n_samples * ours == pytest.approx(expected, rel=1e-10)


def fixed_point(problem, mode, *, is_equal, half):
    """Ridge with the covariance held and updates of the covariance, in turn until nothing moves."""
    prior, network = problem.prior(mode)
    shape = network["a"].weight.shape
    factor = 0.5 if half else 1.0
    row_weights = [factor * omega for omega in problem.row_weights(is_equal)]
    before = np.inf
    for _ in range(2000):
        task, _, inputs = covariances_of(prior)
        precision = np.kron(np.linalg.inv(task), np.linalg.inv(inputs))
        weight = reference.ridge_solution(
            problem.rows, row_weights, precision, strength=STRENGTH / 2
        )
        set_weight(network, weight.reshape(shape))
        prior.update()
        if np.abs(weight - before).max() < 1e-13:
            break
        before = weight
    return weight, covariances_of(prior)[0 if mode == "task" else -1]


@pytest.mark.parametrize(("half", "c"), [(False, 1), (True, 2)])
def test_fixed_point_of_the_task_mode_is_the_solution_of_mtrl(half, c):
    """Weights, Ω = (W Wᵀ)^½ / tr, and the minimum, to 1e-8."""
    weight, covariance = fixed_point(WIDE, "task", is_equal=True, half=half)
    strength = c * STRENGTH / WIDE.n_samples
    counts = [1 / len(y) for _, y in WIDE.rows]
    expected = reference.trace_norm_solution(WIDE.rows, counts, strength=strength / 2)
    np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-8)
    root = _root(expected @ expected.T)
    np.testing.assert_allclose(covariance / WIDE.n_tasks, root / np.trace(root), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("problem", "mode", "size"), [(SQUARE, "input", 4), (WIDE, "task", 3), (SQUARE, "task", 4)]
)
@pytest.mark.parametrize(("half", "c"), [(False, 1), (True, 2)])
def test_fixed_point_of_either_mode_is_the_solution_of_mtfl(problem, mode, size, half, c):
    """γ = cλ/(2F) with the input mode and cλ/(2T) with the task mode, for the summed loss."""
    weight, covariance = fixed_point(problem, mode, is_equal=False, half=half)
    strength = c * STRENGTH / (2 * size)
    ones = [1.0] * problem.n_tasks
    expected = reference.trace_norm_solution(problem.rows, ones, strength=strength)
    np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-8)
    root = _root(expected @ expected.T if mode == "task" else expected.T @ expected)
    np.testing.assert_allclose(covariance / size, root / np.trace(root), rtol=0, atol=1e-8)


def _root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values)) @ vectors.T


def test_log_determinant_gives_the_scatter_and_not_its_root():
    """Where the paper calls MTRL a special case: its own update is Ω ∝ S."""
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((3, 5))
    rest = {name: value for name, value in SETTINGS.items() if name != "covariance_update"}
    prior, _ = prior_on(weight.reshape(3, 1, 5), modes=("task",), **rest)
    prior.update()
    scatter = weight @ weight.T
    expected = 3 * scatter / np.trace(scatter)
    np.testing.assert_allclose(covariances_of(prior)[0], expected, rtol=0, atol=1e-10)
