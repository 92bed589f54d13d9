from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from multirel.estimators._linear import Coordinates, Design
from multirel.estimators._linear import _learned_prior_solver as module
from multirel.estimators._linear._learned_prior_solver import solve_with_learned_prior
from multirel.exceptions import ConvergenceWarning, PriorCollapseWarning
from tests.reference import prior as reference
from tests.unit.estimators.linear.learned_priors import (
    SETTINGS,
    dense_loss,
    dense_ridge,
    problem_of,
)

STRENGTH = 2.0


def solve(problem, *, n_updates=1, start=None, strength=STRENGTH, **settings):
    return solve_with_learned_prior(
        problem,
        strength=strength,
        settings={**SETTINGS, "n_updates": n_updates, **settings},
        n_updates=n_updates,
        tolerance=1e-10,
        start=start,
    )


def equicorrelation(size, correlation):
    return (1 - correlation) * np.eye(size) + correlation


@pytest.mark.parametrize("n_updates", [0, 1, 3])
def test_fits_and_sweeps_alternate(n_updates):
    """Fit at the start, sweep task → output → input, fit again, against dense algebra."""
    problem = problem_of(3, 2, 4)
    covariances = [equicorrelation(3, 0.5), np.eye(2), np.eye(4)]
    steps = [
        lambda s, a=a: reference.trace_scaled(s, shrinkage=a, jitter=1e-6) for a in (0.1, 0.4, 0.7)
    ]
    for _ in range(n_updates):
        weights = dense_ridge(problem, [np.linalg.inv(c) for c in covariances], strength=STRENGTH)
        covariances = reference.sweep(weights, covariances, steps)
    expected = dense_ridge(problem, [np.linalg.inv(c) for c in covariances], strength=STRENGTH)

    solution = solve(problem, n_updates=n_updates, shrinkage=(0.1, 0.4, 0.7))

    assert_allclose(solution.weights, expected, atol=1e-7)
    relations = solution.learned["relations_"]
    assert_allclose(relations.task.dense(), covariances[0], atol=1e-6)
    assert_allclose(relations.output.dense(), covariances[1], atol=1e-6)
    assert_allclose(relations.input.dense(), covariances[2], atol=1e-6)
    assert solution.learned["n_updates_"] == n_updates
    assert solution.converged


@pytest.mark.parametrize(
    ("settings", "jitter"),
    [
        ({"n_updates": 0}, 0.0),
        ({"scale": "free", "jitter": 0.1}, 0.1),
        ({"scale": "determinant", "shrinkage": 0.5}, 0.0),
    ],
)
def test_the_objective_has_the_terms_of_the_covariances_where_it_exists(settings, jitter):
    problem = problem_of(3, 2, 4)

    solution = solve(problem, **settings)

    relations = solution.learned["relations_"]
    covariances = [relations.task.dense(), relations.output.dense(), relations.input.dense()]
    precisions = [np.linalg.inv(c) for c in covariances]
    if settings.get("scale") == "determinant":
        # The default jitter takes part in the weight of the identity.
        precisions = [
            reference.shrunk_precision(c, shrinkage=0.5, jitter=1e-6) for c in covariances
        ]
    prior = reference.half_distance(solution.weights, precisions)
    prior += reference.log_terms(covariances, jitter) / 2
    expected = dense_loss(problem, solution.weights, solution.intercepts)
    expected += STRENGTH / problem.n_samples * prior
    assert_allclose(solution.objective, expected, rtol=1e-9)


def test_the_objective_of_a_trace_is_loss_and_prior():
    problem = problem_of(3, 2, 4)

    solution = solve(problem)

    relations = solution.learned["relations_"]
    precisions = [
        np.linalg.inv(f.dense()) for f in (relations.task, relations.output, relations.input)
    ]
    expected = dense_loss(problem, solution.weights, solution.intercepts)
    expected += STRENGTH / problem.n_samples * reference.half_distance(solution.weights, precisions)
    assert_allclose(solution.objective, expected, rtol=1e-9)


def test_a_free_scale_never_raises_the_objective():
    problem = problem_of(4, 2, 5)

    objectives = [solve(problem, n_updates=n, scale="free", jitter=0.5).objective for n in range(6)]

    assert all(np.diff(objectives) <= 1e-12)


def test_unit_determinants_never_raise_the_objective():
    problem = problem_of(4, 2, 5)

    objectives = [
        solve(problem, n_updates=n, scale="determinant", shrinkage=0.3).objective for n in range(6)
    ]

    assert all(np.diff(objectives) <= 1e-10)


def test_collapse_of_the_literal_form_is_warned_of():
    with pytest.warns(PriorCollapseWarning, match="collapses"):
        solve(problem_of(3, 1, 4), n_updates=60, strength=50.0, scale="free", jitter=1e-5)


def test_updates_run_on_to_a_fixed_point():
    problem = problem_of(4, 1, 5, n_rows=40)

    solution = solve(problem, n_updates=None)

    again = solve(problem, n_updates=solution.learned["n_updates_"] + 5)
    assert solution.converged
    assert_allclose(solution.weights, again.weights, atol=1e-5)


def test_a_fixed_point_that_is_not_reached_is_warned_of(monkeypatch):
    monkeypatch.setattr(module, "MOST_UPDATES", 1)

    with pytest.warns(ConvergenceWarning, match="asks for a fixed point that 1 updates did not"):
        solution = solve(problem_of(3, 1, 4), n_updates=None)

    assert not solution.converged


def test_a_start_changes_how_long_it_takes_and_nothing_else():
    problem = problem_of(3, 2, 4)
    solution = solve(problem)

    assert_allclose(solve(problem, start=solution).weights, solution.weights, atol=1e-8)


SPANS = [
    {},
    {"shrinkage": 0.3},
    {"modes": ("task",)},
    {"modes": ("input",)},
    {"scale": "free", "jitter": 0.05},
    {"scale": "free", "jitter": 0.1, "modes": ("task",)},
    {"scale": "determinant", "shrinkage": 0.5},
    {"scale": "determinant", "shrinkage": 0.5, "modes": ("task", "output")},
    {"covariance_update": "trace"},
    {"mean": "task-average", "mean_strength": 0.1},
    {"inverse": "pseudo", "modes": ("task", "output")},
    {"shrinkage_target": "constant-correlation", "modes": ("task", "output")},
]


@pytest.mark.parametrize("settings", SPANS, ids=str)
@pytest.mark.parametrize("n_updates", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 1, 40, 4), (8, 3, 50, 2)])
def test_coordinates_of_the_span_change_nothing(settings, n_updates, shape):
    """Few rows of many features: the same predictions, objective and covariances, with d_I = F."""
    *sizes, n_rows = shape
    full = problem_of(*sizes, n_rows=n_rows)
    basis = np.linalg.svd(full.design.x, full_matrices=False)[2].T
    reduced = replace(full, design=Design(full.design.x @ basis, full.design.starts))

    expected = solve(full, n_updates=n_updates, **settings)
    solution = solve(reduced, n_updates=n_updates, **settings)

    outputs = full.design.products(expected.weights)
    difference = np.abs(reduced.design.products(solution.weights) - outputs).max()
    assert difference <= 1e-6 * np.abs(outputs).max()
    assert_allclose(solution.objective, expected.objective, rtol=1e-6)
    coordinates = Coordinates(center=np.zeros(sizes[2]), scale=np.ones(sizes[2]), basis=basis)
    one, other = expected.learned["relations_"], solution.learned["relations_"]
    other = other.in_features(coordinates)
    for mode in ("task", "output", "input"):
        assert_allclose(getattr(other, mode).dense(), getattr(one, mode).dense(), atol=1e-5)
