import numpy as np

from multirel.estimators._linear._profiled_loss import ProfiledLoss
from multirel.estimators._linear._spectral_newton import minimize_output, tasks_with_slopes
from multirel.estimators._linear._trace_norm_penalty import TraceNormPenalty
from tests.unit.estimators.linear.quadratic_oracle import make_problem


def test_tasks_with_two_rows_have_slopes_and_with_two_classes_where_there_are_classes():
    assert tasks_with_slopes(ProfiledLoss(make_problem("squared", [3, 0, 1, 2]))).tolist() == [0, 3]
    problem = make_problem("binary", [4, 4, 0])
    problem.targets[:4] = 1.0
    problem.targets[4:, 0] = [1.0, -1.0, 1.0, 1.0]
    assert tasks_with_slopes(ProfiledLoss(problem)).tolist() == [1]


def test_the_gap_is_not_negative_and_small_enough():
    loss = ProfiledLoss(make_problem("binary", [9, 12, 10]))
    found = minimize_output(loss, TraceNormPenalty(strength=0.01), tolerance=1e-10)
    assert found.is_found
    assert 0 <= found.gap <= 1e-10 * found.scale


def test_separable_classes_have_finite_weights():
    problem = make_problem("binary", [9, 12, 10], n_features=30)
    loss = ProfiledLoss(problem)
    found = minimize_output(loss, TraceNormPenalty(strength=1e-5), tolerance=1e-6)
    assert found.is_found
    assert np.isfinite(found.blocks).all()
