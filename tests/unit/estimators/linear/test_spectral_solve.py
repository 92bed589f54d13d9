from dataclasses import replace

import numpy as np
import pytest

from multirel.estimators._linear import Design, LinearProblem
from multirel.estimators._linear._robust_penalty import RobustPenalty
from multirel.estimators._linear._spectral_solve import solve_spectral
from multirel.estimators._linear._trace_norm_penalty import TraceNormPenalty
from tests.unit.estimators.linear import spectral_oracle as oracle
from tests.unit.estimators.linear.quadratic_oracle import make_problem

COUNTS = [9, 14, 6, 11, 8]


def solve(problem, penalty, tolerance=1e-12, start=None):
    return solve_spectral(problem, penalty, tolerance=tolerance, start=start)


@pytest.mark.parametrize("loss", ["squared", "binary"])
@pytest.mark.parametrize(("strength", "ridge"), [(0.1, 0.0), (0.01, 0.0), (0.01, 0.1)])
def test_a_squared_trace_norm_has_the_minimum_of_long_proximal_gradients(loss, strength, ridge):
    problem = make_problem(loss, COUNTS)
    found = solve(problem, TraceNormPenalty(strength=strength, ridge=ridge)).solution

    def prox(blocks, step):
        return oracle.prox_squared_trace_norm(blocks[0], strength * step, ridge * step)[None]

    expected = oracle.minimize(problem, prox, n_steps=3000)[0]
    value, intercepts = oracle.objective(
        problem,
        expected,
        lambda w: strength * oracle.trace_norm(w) ** 2 + ridge / 2 * (w**2).sum(),
    )
    assert found.converged
    assert found.objective == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.weights[:, 0], expected, atol=1e-5)
    np.testing.assert_allclose(found.intercepts[:, 0], intercepts, atol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "binary"])
@pytest.mark.parametrize(("shared", "own"), [(0.1, 0.07), (0.02, 0.02), (0.3, 0.02)])
def test_a_robust_penalty_has_the_minimum_of_long_proximal_gradients(loss, shared, own):
    problem = make_problem(loss, COUNTS)
    found = solve(problem, RobustPenalty(strength=shared, outlier_strength=own))

    def prox(blocks, step):
        return np.stack(
            [
                oracle.prox_trace_norm(blocks[0], shared * step),
                oracle.prox_rows(blocks[1], own * step),
            ]
        )

    expected = oracle.minimize(problem, prox, n_blocks=2, n_steps=3000)
    value, _ = oracle.objective(problem, expected.sum(axis=0), lambda w: 0.0)
    value += shared * oracle.trace_norm(expected[0])
    value += own * np.linalg.norm(expected[1], axis=1).sum()
    assert found.solution.converged
    assert found.solution.objective == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.solution.weights[:, 0], expected.sum(axis=0), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "binary"])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-4])
@pytest.mark.parametrize(
    "penalty",
    [
        TraceNormPenalty(strength=0.02),
        TraceNormPenalty(strength=0.02, ridge=0.01),
        RobustPenalty(strength=0.05, outlier_strength=0.04),
    ],
)
def test_the_gap_bounds_the_distance_from_the_smallest_objective(loss, tolerance, penalty):
    problem = make_problem(loss, COUNTS, seed=3)
    rough = solve(problem, penalty, tolerance=tolerance).solution
    exact = solve(problem, penalty, tolerance=1e-12).solution
    assert rough.gap <= tolerance
    assert rough.objective - exact.objective <= rough.gap * rough.objective * (1 + 1e-9)


@pytest.mark.parametrize(
    ("loss", "strength", "outlier_strength"), [("squared", 0.3, 0.2), ("binary", 0.1, 0.03)]
)
def test_own_parts_are_zero_exactly_where_slopes_are_short(loss, strength, outlier_strength):
    problem = make_problem(loss, [12] * 8, seed=1)
    penalty = RobustPenalty(strength=strength, outlier_strength=outlier_strength)
    found = solve(problem, penalty)
    lengths = np.linalg.norm(oracle.gradient(problem, found.solution.weights[:, 0]), axis=1)
    own = np.linalg.norm(found.blocks[1][:, 0], axis=1)
    assert (own == 0).any()
    assert (own > 0).any()
    np.testing.assert_array_equal(own > 0, lengths >= outlier_strength * (1 - 1e-6))
    np.testing.assert_allclose(lengths[own > 0], outlier_strength, rtol=1e-5)


def test_the_trace_norm_is_the_squared_one_at_another_strength():
    problem = make_problem("squared", COUNTS)
    robust = solve(problem, RobustPenalty(strength=0.2, outlier_strength=1e3))
    assert not robust.blocks[1].any()
    weights = robust.solution.weights[:, 0]
    squared = solve(problem, TraceNormPenalty(strength=0.2 / (2 * oracle.trace_norm(weights))))
    np.testing.assert_allclose(squared.solution.weights[:, 0], weights, atol=1e-6)


def test_weights_are_a_fixed_point_of_ridge_with_their_own_covariance():
    problem = make_problem("squared", COUNTS)
    ridge, strength = 0.1, 0.05
    found = solve(problem, TraceNormPenalty(strength=strength / 2, ridge=ridge)).solution
    w = found.weights[:, 0]
    values, basis = np.linalg.eigh(w @ w.T)
    roots = np.sqrt(np.maximum(values, 0))
    omega = (basis * roots) @ basis.T / roots.sum()
    inverse = np.linalg.pinv(omega, rcond=1e-6)
    residual = oracle.gradient(problem, w) + ridge * w + strength * inverse @ w
    # Where Ω is singular, W is zero and the slopes are only bounded.
    np.testing.assert_allclose(omega @ inverse @ residual, 0, atol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "binary"])
@pytest.mark.parametrize("n_features", [3, 40])
def test_sparse_rows_have_the_solution_of_dense_ones(loss, n_features):
    from scipy import sparse

    rows = make_problem(loss, COUNTS, n_features=n_features, sparse=sparse)
    dense = replace(rows, design=Design(rows.design.x.toarray(), rows.design.starts))
    penalty = TraceNormPenalty(strength=0.05)
    found, expected = solve(rows, penalty).solution, solve(dense, penalty).solution
    assert found.converged
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-7)


@pytest.mark.parametrize(
    "penalty", [TraceNormPenalty(strength=0.05), RobustPenalty(strength=0.1, outlier_strength=0.1)]
)
def test_tasks_without_rows_or_slopes_have_no_weights(penalty):
    problem = make_problem("squared", [9, 0, 1, 12])
    found = solve(problem, penalty).solution
    assert found.converged
    assert not found.weights[1:3].any()
    assert found.intercepts[2, 0] == pytest.approx(problem.targets[9, 0])
    assert found.intercepts[1, 0] == pytest.approx(found.intercepts[[0, 2, 3], 0].mean())


def test_a_task_with_one_class_has_a_finite_intercept_and_no_weights():
    problem = make_problem("binary", [9, 7, 12])
    problem.targets[9:16] = -1.0
    found = solve(problem, TraceNormPenalty(strength=0.01), tolerance=1e-6).solution
    assert found.converged
    assert found.gap <= 1e-6
    assert not found.weights[1].any()
    assert -100 < found.intercepts[1, 0] < -5


def test_tasks_with_one_class_only_are_solved():
    problem = make_problem("binary", [5, 6])
    problem.targets[:5], problem.targets[5:] = 1.0, -1.0
    found = solve(problem, TraceNormPenalty(strength=0.01), tolerance=1e-6).solution
    assert found.converged
    assert np.isfinite(found.intercepts).all()
    assert found.intercepts[0, 0] > 5
    assert found.intercepts[1, 0] < -5


def test_outputs_are_independent_and_their_gaps_are_summed():
    problem = make_problem("squared", COUNTS, n_outputs=2)
    penalty = TraceNormPenalty(strength=0.05)
    both = solve(problem, penalty).solution
    parts = [
        solve(replace(problem, targets=problem.targets[:, [c]]), penalty).solution for c in (0, 1)
    ]
    assert both.objective == pytest.approx(sum(part.objective for part in parts))
    for c, part in enumerate(parts):
        np.testing.assert_allclose(both.weights[:, c], part.weights[:, 0], atol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "binary"])
@pytest.mark.parametrize("penalty", [TraceNormPenalty, RobustPenalty])
def test_a_start_that_is_near_takes_fewer_iterations(loss, penalty):
    problem = make_problem(loss, [15] * 12, n_features=8)

    def at(strength):
        if penalty is TraceNormPenalty:
            return TraceNormPenalty(strength=strength / 10)
        return RobustPenalty(strength=strength, outlier_strength=strength)

    first = solve(problem, at(0.055), tolerance=1e-6)
    cold = solve(problem, at(0.05), tolerance=1e-6).solution
    warm = solve(problem, at(0.05), tolerance=1e-6, start=first.blocks).solution
    again = solve(problem, at(0.055), tolerance=1e-6, start=first.blocks).solution
    assert warm.converged
    assert warm.objective == pytest.approx(cold.objective, rel=2e-6)
    assert warm.n_iterations < cold.n_iterations
    assert again.n_iterations == 0


def test_the_objective_is_on_the_scale_of_the_method():
    problem = make_problem("squared", COUNTS)
    penalty = TraceNormPenalty(strength=0.05)
    once = solve(problem, penalty).solution.objective
    assert solve(
        replace(problem, objective_scale=5.0), penalty
    ).solution.objective == pytest.approx(5 * once)


def test_constant_targets_need_no_weights():
    problem = make_problem("squared", COUNTS)
    problem.targets[:] = 3.0
    found = solve(problem, TraceNormPenalty(strength=0.1)).solution
    assert found.converged
    np.testing.assert_allclose(found.weights, 0, atol=1e-12)
    np.testing.assert_allclose(found.intercepts, 3.0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("loss", ["squared", "binary"])
def test_problems_of_many_shapes_are_solved(loss, seed):
    rng = np.random.default_rng(seed)
    counts = rng.choice([1, 2, 5, 20], size=int(rng.choice([2, 5, 20])))
    counts[0] = 6
    problem = make_problem(loss, counts, n_features=int(rng.choice([1, 3, 25])), seed=seed)
    for strength in (1.0, 1e-2, 1e-4):
        for penalty in (
            TraceNormPenalty(strength=strength),
            TraceNormPenalty(strength=strength, ridge=strength),
            RobustPenalty(strength=strength, outlier_strength=strength / 2),
        ):
            found = solve(problem, penalty, tolerance=1e-6).solution
            assert found.converged, penalty
            assert isinstance(problem, LinearProblem)
            assert found.gap <= 1e-6
