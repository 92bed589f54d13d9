import numpy as np
from numpy.testing import assert_allclose

from multirel.estimators import MRNRegressor
from multirel.estimators._relations_resample import refitted_correlations, resampled
from tests.unit.estimators.linear.learned_priors import problem_of


def test_rows_are_drawn_within_their_task():
    problem = problem_of(3, 1, 2, n_rows=5)
    problem.design.x[:, 0] = problem.design.task

    drawn = resampled(problem, np.random.default_rng(0))

    assert drawn.design.starts.tolist() == problem.design.starts.tolist()
    assert_allclose(drawn.design.x[:, 0], problem.design.task)
    assert_allclose(drawn.coefficients.sum(), 1)
    assert len(np.unique(drawn.design.x[:, 1])) < 15


def test_every_refit_has_its_correlations():
    problem, model = problem_of(3, 1, 2), MRNRegressor()
    start = model._solve(problem)

    drawn = refitted_correlations(
        model, problem, start=start, n_boot=4, seed=np.random.SeedSequence(0)
    )

    assert drawn.shape == (4, 3, 3)
    assert_allclose(np.diagonal(drawn, axis1=1, axis2=2), 1)
    assert np.ptp(drawn[:, 0, 1]) > 0
