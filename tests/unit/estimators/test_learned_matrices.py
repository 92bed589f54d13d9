from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from multirel.estimators._learned_matrices import LearnedMatrix, as_correlations
from multirel.estimators._linear._covariance_factors import CovarianceFactors


class Estimator:
    task_covariance_ = LearnedMatrix("task")
    task_correlation_ = LearnedMatrix("task", correlations=True)
    input_covariance_ = LearnedMatrix("input")


def fitted(has_rows):
    estimator = Estimator()
    task = CovarianceFactors(basis=np.eye(2), inside=np.array([4.0, 1.0]), outside=0.0)
    estimator.relations_ = SimpleNamespace(
        task=task, input=CovarianceFactors.identity(3), has_rows=np.array(has_rows)
    )
    return estimator


def test_matrices_are_written_out_from_factors():
    estimator = fitted([True, True])

    assert_allclose(estimator.task_covariance_, np.diag([4.0, 1.0]))
    assert_allclose(estimator.task_correlation_, np.eye(2))
    assert_allclose(estimator.input_covariance_, np.eye(3))


def test_tasks_without_rows_are_unknown():
    covariance = fitted([True, False, True]).task_covariance_

    assert np.isnan(covariance[1]).all()
    assert np.isnan(covariance[:, 1]).all()
    assert_allclose(covariance[np.ix_([0, 2], [0, 2])], np.diag([4.0, 1.0]))


def test_an_estimator_that_is_not_fitted_has_no_matrices():
    assert not hasattr(Estimator(), "task_covariance_")
    with pytest.raises(AttributeError, match="'Estimator' object has no attribute 'task_corr"):
        _ = Estimator().task_correlation_


def test_correlations_have_a_unit_diagonal_also_without_variance():
    found = as_correlations(np.array([[4.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]]))

    assert_allclose(found, [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
