"""Factorized problems: stationary points, full ranks, starts, and tasks without rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from multirel.estimators._linear import Design
from multirel.estimators._linear._factorized import Factorizing, solve_factorized
from multirel.estimators._linear._factorized_form import FORMS, decompose
from multirel.estimators._linear._quadratic import solve_quadratic
from multirel.estimators._linear._quadratic_penalty import QuadraticPenalty
from tests.unit.estimators.linear.factorized import RANKS, make_problem, objective

RIDGE = 0.05
LOSSES = ("squared", "binary", "softmax")


def factorizing(form, ranks=None, *, relative_error=0.1):
    return Factorizing(form=form, ranks=ranks, relative_error=relative_error)


def solve(problem, form, ranks=None, *, start=None, ridge=RIDGE, relative_error=0.1):
    how = factorizing(form, ranks, relative_error=relative_error)
    return solve_factorized(problem, how, ridge=ridge, tolerance=1e-8, start=start)


def single_task(problem, *, ridge=RIDGE):
    return solve_quadratic(problem, QuadraticPenalty.ridge(ridge), tolerance=1e-8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_no_factors_near_the_solution_are_better(loss, form):
    """A general minimizer over factors and intercepts that starts there finds nothing better nearby."""
    problem = make_problem(loss)
    found = solve(
        problem, form, (1, 1, 1) if form == "tucker" and loss == "binary" else RANKS[form]
    )
    factors = decompose(found.weights, form, ranks=found.learned["ranks_"])
    ends = np.cumsum([factor.size for factor in factors])

    def value(z):
        *parts, b = np.split(z, ends)
        pairs = zip(parts, factors, strict=True)
        weights = FORMS[form].compose([part.reshape(factor.shape) for part, factor in pairs])
        return objective(problem, RIDGE, weights, b.reshape(found.intercepts.shape))

    start = np.concatenate([*(factor.ravel() for factor in factors), found.intercepts.ravel()])
    assert found.converged
    assert np.isnan(found.gap)
    np.testing.assert_allclose(found.objective, value(start), rtol=1e-6)
    assert minimize(value, start, options={"maxiter": 20}).fun > value(start) * (1 - 1e-7)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_full_ranks_are_single_task_training(loss, form):
    problem = make_problem(loss)
    found, expected = solve(problem, form, relative_error=0.0), single_task(problem)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.intercepts, expected.intercepts, rtol=1e-6, atol=1e-8)
    assert found.converged
    assert found.gap <= 1e-8


def test_laf_of_rank_1_makes_tasks_proportional():
    weights = solve(make_problem("squared"), "laf", (1,)).weights
    values = np.linalg.svd(weights.reshape(len(weights), -1), compute_uv=False)
    assert values[1] < 1e-10 * values[0]


def test_with_one_output_all_forms_are_the_same():
    problem = make_problem("squared", n_outputs=1)
    tucker, train, laf = (
        solve(problem, form, ranks)
        for form, ranks in [("tucker", (2, 1, 3)), ("tt", (2, 3)), ("laf", (2,))]
    )
    np.testing.assert_allclose(tucker.weights, laf.weights, rtol=1e-8)
    np.testing.assert_allclose(train.weights, laf.weights, rtol=1e-8)
    assert (tucker.learned["ranks_"], train.learned["ranks_"]) == ((2, 1, 2), (2, 2))


@pytest.mark.parametrize("form", FORMS)
def test_ranks_come_from_the_single_task_weights(form):
    problem = make_problem("squared")
    single = single_task(problem).weights
    factors = decompose(single, form, relative_error=0.5)
    found = solve(problem, form, relative_error=0.5)
    sizes = factors[0].shape if form == "tucker" else [part.shape[-1] for part in factors[:-1]]
    assert found.learned["ranks_"] == tuple(sizes)
    assert found.objective > single_task(problem).objective


def test_the_solution_improves_on_the_decomposition():
    problem = make_problem("squared")
    single = single_task(problem)
    factors = decompose(single.weights, "laf", ranks=(1,))
    start = objective(problem, RIDGE, FORMS["laf"].compose(factors), single.intercepts)
    assert solve(problem, "laf", (1,)).objective < start


def test_a_task_without_rows_has_the_average_of_the_others():
    problem = make_problem("squared")
    starts = np.insert(problem.design.starts, 2, problem.design.starts[1])
    wider = replace(problem, design=Design(problem.design.x, starts[[0, 1, 1, 3, 4, 5]]))
    found, expected = solve(wider, "tucker", (2, 2, 3)), solve(problem, "tucker", (2, 2, 3))
    kept = [0, 2, 3, 4]
    np.testing.assert_allclose(found.weights[kept], expected.weights, rtol=1e-10)
    np.testing.assert_allclose(found.weights[1], expected.weights.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.intercepts[1], expected.intercepts.mean(axis=0), rtol=1e-10)


def test_a_near_start_takes_fewer_steps_to_the_same_point():
    problem = make_problem("softmax")
    first = solve(problem, "tucker", RANKS["tucker"])
    again = solve(problem, "tucker", RANKS["tucker"], start=first)
    np.testing.assert_allclose(again.weights, first.weights, rtol=1e-6, atol=1e-9)
    assert again.n_iterations < first.n_iterations


def test_a_start_of_other_ranks_is_no_start_for_the_factors():
    problem = make_problem("squared")
    other = solve(problem, "laf", (1,))
    found, expected = solve(problem, "laf", (2,), start=other), solve(problem, "laf", (2,))
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-8)


def test_targets_without_anything_to_learn_have_weights_of_zero():
    problem = make_problem("squared", n_outputs=1)
    found = solve(replace(problem, targets=np.full_like(problem.targets, 3.0)), "laf", (1,))
    np.testing.assert_allclose(found.weights, 0, atol=1e-10)
    np.testing.assert_allclose(found.intercepts, 3)
    assert found.converged
    assert np.isfinite(found.learned["residual_"])


def test_a_task_with_one_class_keeps_finite_intercepts():
    problem = make_problem("binary")
    targets = problem.targets.copy()
    targets[problem.design.task == 0] = 1.0
    found = solve(replace(problem, targets=targets), "laf", (1,))
    assert found.converged
    assert np.isfinite(found.intercepts).all()
    assert found.intercepts[0, 0] > 5


@pytest.mark.parametrize("form", FORMS)
def test_the_order_of_tasks_outputs_and_rows_does_not_matter(form):
    problem, rng = make_problem("softmax"), np.random.default_rng(7)
    tasks, outputs = rng.permutation(4), rng.permutation(3)
    rows = np.concatenate([rng.permutation(problem.design.rows_of(np.array([t]))) for t in tasks])
    counts = problem.design.counts[tasks]
    moved = replace(
        problem,
        design=Design(problem.design.x[rows], np.concatenate([[0], np.cumsum(counts)])),
        targets=problem.targets[rows][:, outputs],
        coefficients=problem.coefficients[rows],
    )
    found, expected = solve(moved, form, RANKS[form]), solve(problem, form, RANKS[form])
    np.testing.assert_allclose(
        found.weights, expected.weights[tasks][:, outputs], rtol=1e-7, atol=1e-9
    )
