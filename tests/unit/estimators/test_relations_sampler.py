from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from multirel.estimators._learned_matrices import as_correlations
from multirel.estimators._linear import Design
from multirel.estimators._relations_sampler import (
    _draw_common,
    _inverse_wishart,
    _polya_gamma,
    draw_task_products,
)
from tests.builders import positive_definite
from tests.unit.estimators.linear.learned_priors import problem_of


@pytest.mark.parametrize(("shape", "tilt"), [(1.0, 0.0), (1.0, 1.5), (1.0, -6.0), (2.5, 1.0)])
def test_polya_gamma_variables_have_their_mean_and_variance(shape, tilt):
    """E = b tanh(c/2) / (2c), and V = b (sinh c − c) / (4 c³ cosh²(c/2)), or b/24 where c = 0."""
    n = 200_000
    drawn = _polya_gamma(np.full(n, shape), np.full(n, tilt), np.random.default_rng(0))

    c = abs(tilt)
    mean = shape / 4 if c == 0 else shape * np.tanh(c / 2) / (2 * c)
    variance = shape / 24 if c == 0 else shape * (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2)
    assert_allclose(drawn.mean(), mean, rtol=0.01)
    assert_allclose(drawn.var(), variance, rtol=0.03)
    assert drawn.min() > 0


def test_inverse_wishart_matrices_have_their_mean():
    """E = Ψ / (ν − d − 1)."""
    matrix, rng = positive_definite(np.random.default_rng(0), 3), np.random.default_rng(1)

    drawn = [_inverse_wishart(matrix, 12.0, rng) for _ in range(20_000)]

    assert_allclose(np.mean(drawn, axis=0), matrix / 8, atol=0.01)


def test_the_common_part_is_what_correlated_measurements_say():
    rng = np.random.default_rng(0)
    covariance = positive_definite(rng, 4)
    weights = rng.standard_normal((4, 1))
    inverse = np.linalg.inv(covariance)

    drawn = [_draw_common(weights, inverse, 2.0, rng)[0] for _ in range(20_000)]

    precision = inverse.sum() + 0.5
    assert_allclose(np.mean(drawn), (inverse.sum(axis=0) @ weights)[0] / precision, atol=0.02)
    assert_allclose(np.var(drawn), 1 / precision, rtol=0.03)


def draws(problem, n_draws):
    seed = np.random.SeedSequence(0)
    weight = np.ones(problem.design.n_rows)
    return np.stack([*draw_task_products(problem, weight, n_draws=n_draws, n_burn=100, seed=seed)])


def test_weights_off_the_span_of_the_rows_have_only_their_prior():
    """The same distribution whether features or coordinates of the span are given."""
    full = problem_of(3, 1, 40, n_rows=13)
    basis = np.linalg.svd(full.design.x, full_matrices=False)[2].T
    reduced = replace(full, design=Design(full.design.x @ basis, full.design.starts))

    summaries = []
    for problem in (full, reduced):
        products = draws(problem, 2000)
        correlations = [as_correlations(matrix)[np.triu_indices(3, 1)] for matrix in products]
        size = np.log(np.trace(products, axis1=1, axis2=2))
        summaries.append([*np.median(correlations, axis=0), np.median(size)])

    assert_allclose(summaries[1], summaries[0], atol=0.12)


def test_tasks_that_can_be_fitted_exactly_keep_some_noise():
    problem = problem_of(3, 1, 30, n_rows=6)

    products = draws(problem, 5000)

    size = np.trace(products, axis1=1, axis2=2)
    assert np.isfinite(size).all()
    assert np.quantile(size, 0.05) > 0.05 * np.median(size)


def test_responses_that_never_change_have_draws():
    problem = problem_of(3, 1, 4)
    problem = replace(problem, targets=np.ones_like(problem.targets))

    assert np.isfinite(draws(problem, 50)).all()


@pytest.mark.parametrize("loss", ["binary", "softmax"])
def test_classes_have_draws(loss):
    problem = problem_of(3, 1 if loss == "binary" else 3, 4)
    best = problem.targets.argmax(axis=1)
    targets = (
        np.sign(problem.targets) if loss == "binary" else (best[:, None] == np.arange(3)) * 1.0
    )

    products = draws(replace(problem, targets=targets, loss=loss), 50)

    assert np.isfinite(products).all()
    assert (np.linalg.eigvalsh(products)[:, 0] > 0).all()
