"""Problems with a quadratic penalty are solved to their minimum, and the gap bounds what is missing."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from multirel.estimators._linear import Design, LinearSolution
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty
from tests.unit.estimators.linear.quadratic_oracle import (
    dense_minimum,
    dense_precision,
    make_penalty,
    make_problem,
    objective,
    random_precision,
)

LOSSES = [("squared", 1), ("squared", 3), ("binary", 1), ("binary", 2), ("softmax", 3)]
COUNTS = {"few rows": [7, 9, 6], "many rows": [60, 45, 80], "one task": [50]}


def equicorrelation(size, correlation):
    return (1 - correlation) * np.eye(size) + correlation


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
@pytest.mark.parametrize("modes", ["", "t", "o", "i", "to", "toi"])
@pytest.mark.parametrize("counts", COUNTS)
def test_the_solution_is_the_dense_minimum(loss, n_outputs, modes, counts):
    problem = make_problem(loss, COUNTS[counts], n_outputs=n_outputs, noise=2.0)
    penalty = make_penalty(
        0.05,
        task=random_precision(problem.n_tasks, 1) if "t" in modes else None,
        output=random_precision(n_outputs, 2) if "o" in modes else None,
        inner=random_precision(4, 3) if "i" in modes else None,
    )
    solution = solve_quadratic(problem, penalty, tolerance=1e-6)
    weights, intercepts, value = dense_minimum(problem, penalty)

    assert solution.converged
    assert_allclose(solution.objective, value, rtol=1e-10)
    assert_allclose(solution.weights, weights, atol=1e-5)
    shift = 0 if loss != "softmax" else intercepts.mean(axis=1, keepdims=True)
    assert_allclose(solution.intercepts, intercepts - shift, atol=1e-5)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.99, 1 - 1e-6])
def test_strongly_coupled_tasks_take_few_steps(loss, n_outputs, correlation):
    problem = make_problem(loss, [20] * 15, n_outputs=n_outputs, noise=6.0, seed=1)
    labels = np.add.reduceat(problem.targets > 0, problem.design.starts[:-1], axis=0)
    assert loss == "squared" or ((labels > 0) & (labels < 20)).all()
    task = ModeSpectrum.from_covariance(equicorrelation(15, correlation))
    one = ModeSpectrum.identity()
    penalty = QuadraticPenalty(strength=0.02, task=task, output=one, input=one)
    solution = solve_quadratic(problem, penalty, tolerance=1e-6)
    _, _, value = dense_minimum(problem, penalty)

    assert solution.converged
    assert solution.n_iterations <= 12
    assert_allclose(solution.objective, value, rtol=1e-9)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
@pytest.mark.parametrize("tolerance", [1.0, 1e-2, 1e-4])
def test_the_gap_bounds_what_is_missing(loss, n_outputs, tolerance):
    problem = make_problem(loss, [9, 20, 14], n_outputs=n_outputs, noise=2.0)
    penalty = make_penalty(0.01, task=random_precision(3, 1))
    solution = solve_quadratic(problem, penalty, tolerance=tolerance)
    _, _, best = dense_minimum(problem, penalty)

    reached = objective(problem, penalty, solution.weights, solution.intercepts)
    assert_allclose(solution.objective, reached, rtol=1e-12)
    assert (reached - best) / reached <= solution.gap + 1e-13
    assert solution.gap <= tolerance


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_nothing_needs_to_be_penalized(loss, n_outputs, is_sparse):
    problem = make_problem(
        loss, [60, 70], n_outputs=n_outputs, noise=3.0, sparse=sparse if is_sparse else None
    )
    penalty = make_penalty(0.0)
    solution = solve_quadratic(problem, penalty, tolerance=1e-6)
    weights, _, value = dense_minimum(problem, penalty)

    assert solution.converged
    assert_allclose(solution.objective, value, rtol=1e-10)
    if loss == "softmax":
        weights = weights - weights.mean(axis=1, keepdims=True)
    assert_allclose(solution.weights, weights, atol=1e-5)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_the_shared_part_of_the_tasks_may_be_free(loss, n_outputs):
    problem = make_problem(loss, [30, 25, 40, 0], n_outputs=n_outputs, noise=3.0)
    center = np.eye(4) - 0.25
    penalty = make_penalty(0.3, task=center @ random_precision(4, 5) @ center)
    solution = solve_quadratic(problem, penalty, tolerance=1e-6)
    _, _, value = dense_minimum(problem, penalty)

    assert solution.converged
    assert_allclose(solution.objective, value, rtol=1e-9)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
@pytest.mark.parametrize("mode", ["output", "inner"])
def test_directions_of_outputs_and_inputs_may_be_free(loss, n_outputs, mode):
    problem = make_problem(loss, [30, 25, 40], n_outputs=n_outputs, noise=3.0)
    size = n_outputs if mode == "output" else 4
    if size == 1:
        return
    vector = np.random.default_rng(0).normal(size=(size, 1))
    free = np.eye(size) - vector @ vector.T / np.sum(vector**2)
    penalty = make_penalty(0.3, **{mode: free})
    solution = solve_quadratic(problem, penalty, tolerance=1e-6)
    _, _, value = dense_minimum(problem, penalty)

    assert solution.converged
    assert_allclose(solution.objective, value, rtol=1e-9)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_more_coordinates_than_rows(loss, n_outputs, correlation):
    problem = make_problem(loss, [16, 18], n_outputs=n_outputs, n_features=40, noise=9.0)
    penalty = make_penalty(0.05, task=np.linalg.inv(equicorrelation(2, correlation)))
    solution = solve_quadratic(problem, penalty, tolerance=1e-6)
    _, _, value = dense_minimum(problem, penalty)

    assert solution.converged
    assert_allclose(solution.objective, value, rtol=1e-10)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_sparse_rows_have_the_solution_of_dense_ones(loss, n_outputs):
    problem = make_problem(loss, [20, 0, 35, 15], n_outputs=n_outputs, sparse=sparse)
    dense = replace(problem, design=Design(problem.design.x.toarray(), problem.design.starts))
    penalty = make_penalty(0.05, task=random_precision(4, 1), inner=random_precision(4, 2))
    one, other = (solve_quadratic(p, penalty, tolerance=1e-6) for p in (problem, dense))

    assert_allclose(one.weights, other.weights, atol=1e-7)
    assert_allclose(one.intercepts, other.intercepts, atol=1e-7)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_single_precision_rows_stay_so_and_give_the_same(loss, n_outputs, monkeypatch):
    problem = make_problem(loss, [40, 30, 35], n_outputs=n_outputs)
    rows = problem.design.x.astype(np.float32)
    double = replace(problem, design=Design(rows.astype(np.float64), problem.design.starts))
    monkeypatch.setattr("multirel.estimators._linear._design.MOST_CONVERTED_ENTRIES", 50)
    single = replace(problem, design=Design(rows, problem.design.starts))
    assert single.design.x is rows
    penalty = make_penalty(0.05, task=random_precision(3, 1))
    one, other = (solve_quadratic(p, penalty, tolerance=1e-6) for p in (single, double))

    assert_allclose(one.weights, other.weights, atol=1e-7)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_a_start_changes_the_work_and_not_the_answer(loss, n_outputs):
    problem = make_problem(loss, [20, 35, 15], n_outputs=n_outputs, noise=2.0)
    penalty = make_penalty(0.05, task=random_precision(3, 1))
    cold = solve_quadratic(problem, penalty, tolerance=1e-6)
    near = solve_quadratic(problem, replace(penalty, strength=0.06), tolerance=1e-6)
    warm = solve_quadratic(problem, penalty, tolerance=1e-6, start=near)
    again = solve_quadratic(problem, penalty, tolerance=1e-6, start=cold)

    assert_allclose(warm.weights, cold.weights, atol=1e-6)
    assert_allclose(warm.intercepts, cold.intercepts, atol=1e-6)
    assert warm.n_iterations <= cold.n_iterations
    assert again.n_iterations == 0


def test_a_start_that_is_worse_than_none_is_left():
    problem = make_problem("binary", [20, 35])
    penalty = make_penalty(0.05)
    cold = solve_quadratic(problem, penalty, tolerance=1e-6)
    wild = replace(cold, weights=cold.weights + 1e8, intercepts=cold.intercepts - 1e8)
    again = solve_quadratic(problem, penalty, tolerance=1e-6, start=wild)

    assert_allclose(again.weights, cold.weights, atol=1e-6)


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_tasks_without_rows_are_what_the_penalty_says_given_the_others(loss, n_outputs):
    problem = make_problem(loss, [30, 0, 25, 40], n_outputs=n_outputs, noise=2.0)
    precision = random_precision(4, 1)
    solution = solve_quadratic(problem, make_penalty(0.05, task=precision), tolerance=1e-6)

    others = [0, 2, 3]
    expected = -np.tensordot(precision[1, others], solution.weights[others], 1) / precision[1, 1]
    assert_allclose(solution.weights[1], expected, atol=1e-6)
    assert_allclose(solution.intercepts[1], solution.intercepts[others].mean(axis=0), atol=1e-12)


def one_class_problem(kind):
    """Tasks of which one has one class only."""
    problem = make_problem(kind, [20, 15, 18], n_outputs=1 if kind == "binary" else 3, noise=2.0)
    targets = problem.targets.copy()
    targets[20:35] = 1.0 if kind == "binary" else [0.0, 1.0, 0.0]
    return replace(problem, targets=targets)


@pytest.mark.parametrize("kind", ["binary", "softmax"])
def test_a_task_with_one_class_has_a_finite_intercept_and_a_certified_gap(kind):
    problem = one_class_problem(kind)
    penalty = make_penalty(0.05, task=random_precision(3, 1))
    solution = solve_quadratic(problem, penalty, tolerance=1e-6)

    assert solution.converged
    assert np.isfinite(solution.intercepts).all()
    assert np.abs(solution.intercepts).max() < 100
    reached = objective(problem, penalty, solution.weights, solution.intercepts)
    assert reached <= solution.objective * (1 + 1e-12)
    # The task adds nothing at its best: without its rows the others have the same minimum.
    rest = np.r_[0:20, 35:53]
    without = replace(
        problem,
        design=Design(problem.design.x[rest], np.array([0, 20, 20, 38])),
        targets=problem.targets[rest],
        coefficients=problem.coefficients[rest],
    )
    _, _, best = dense_minimum(without, penalty)
    assert (reached - best) / reached <= solution.gap
    assert_allclose(reached, best, rtol=1e-6)


@pytest.mark.parametrize("kind", ["binary", "softmax"])
def test_all_tasks_may_have_one_class(kind):
    problem = one_class_problem(kind)
    targets = np.ones_like(problem.targets)
    if kind == "softmax":
        targets[:] = [0, 0, 1]
    targets[:20] = -1 if kind == "binary" else [1, 0, 0]
    solution = solve_quadratic(
        replace(problem, targets=targets), make_penalty(0.05), tolerance=1e-6
    )

    assert solution.converged
    assert_allclose(solution.weights, 0)
    assert np.isfinite(solution.intercepts).all()


def test_a_class_that_a_task_lacks_gets_a_probability_of_about_zero():
    problem = make_problem("softmax", [30, 40], n_outputs=3)
    targets = problem.targets.copy()
    lacks = targets[:30, 2] == 1
    targets[:30][lacks] = [1.0, 0.0, 0.0]
    problem = replace(problem, targets=targets)
    solution = solve_quadratic(problem, make_penalty(0.05), tolerance=1e-6)

    f = problem.design.products(solution.weights) + solution.intercepts[problem.design.task]
    p = np.exp(f - f.max(axis=1, keepdims=True))
    assert (p[:30, 2] / p[:30].sum(axis=1)).max() < 1e-6
    assert solution.converged


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_a_task_may_have_several_intercepts(loss, n_outputs):
    problem = make_problem(loss, [45], n_outputs=n_outputs, noise=2.0)
    problem = replace(problem, intercept_starts=np.array([0, 20, 45]))
    penalty = make_penalty(0.05)
    solution = solve_quadratic(problem, penalty, tolerance=1e-6)
    weights, _, value = dense_minimum(problem, penalty)

    assert_allclose(solution.objective, value, rtol=1e-10)
    assert_allclose(solution.weights, weights, atol=1e-6)
    assert solution.intercepts.shape == (2, n_outputs)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_features_of_any_scale(loss, n_outputs, scale):
    problem = make_problem(loss, [20, 35, 15], n_outputs=n_outputs, noise=2.0)
    scaled = replace(problem, design=Design(problem.design.x * scale, problem.design.starts))
    one = solve_quadratic(problem, make_penalty(0.05), tolerance=1e-6)
    other = solve_quadratic(scaled, make_penalty(0.05 * scale**2), tolerance=1e-6)

    assert_allclose(other.weights * scale, one.weights, atol=1e-6)


def test_separable_classes_without_a_penalty_do_not_pretend_to_be_solved():
    problem = make_problem("binary", [20, 20], noise=0.0)
    solution = solve_quadratic(problem, make_penalty(0.0), tolerance=1e-6)

    assert np.isfinite(solution.weights).all()
    assert np.isfinite(solution.intercepts).all()
    assert solution.objective < 0.01


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_penalties_of_any_strength(loss, n_outputs):
    problem = make_problem(loss, [20, 35, 15], n_outputs=n_outputs, noise=2.0)
    for strength in (1e-8, 1e-4, 1e4, 1e8):
        penalty = make_penalty(strength, task=random_precision(3, 1))
        solution = solve_quadratic(problem, penalty, tolerance=1e-6)
        _, _, value = dense_minimum(problem, penalty)
        assert solution.converged
        assert_allclose(solution.objective, value, rtol=1e-8)


def test_a_solution_needs_no_memory_of_rows_times_rows(monkeypatch):
    """Where no matrix may be made the penalty alone preconditions, and the answer is the same."""
    problem = make_problem("binary", [20, 35, 15], noise=2.0)
    penalty = make_penalty(0.05, task=random_precision(3, 1), inner=random_precision(4, 1))
    one = solve_quadratic(problem, penalty, tolerance=1e-6)
    monkeypatch.setattr("multirel.estimators._linear._second_derivative.MOST_ENTRIES", 0)
    other = solve_quadratic(problem, penalty, tolerance=1e-6)

    assert_allclose(other.weights, one.weights, atol=1e-6)
    assert isinstance(other, LinearSolution)


def test_the_penalty_of_the_solution_is_the_dense_one():
    penalty = make_penalty(0.3, task=random_precision(3, 1), output=random_precision(2, 2))
    weights = np.random.default_rng(0).normal(size=(3, 2, 4))
    dense = dense_precision(penalty, weights.shape)

    assert_allclose(penalty.product(weights).ravel(), dense @ weights.ravel())
    assert_allclose(penalty.value(weights), weights.ravel() @ dense @ weights.ravel() / 2)
