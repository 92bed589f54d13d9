"""The dense covariance: what tensors become, and what is computed when."""

import pytest
import torch

from multirel.tensor_normal import DenseCovariance, IdentityCovariance, as_covariance


def test_tensor_becomes_a_dense_covariance_and_objects_stay():
    """`as_covariance` never copies."""
    matrix = torch.eye(3)
    covariance = as_covariance(matrix)
    assert isinstance(covariance, DenseCovariance)
    assert covariance.dense() is matrix
    identity = IdentityCovariance(3)
    assert as_covariance(identity) is identity


def test_what_is_no_matrix_and_no_covariance_is_an_error():
    """Lists are not converted behind the user's back."""
    with pytest.raises(TypeError, match="`matrix` must be a tensor: got list"):
        as_covariance([[1.0]])


def test_factor_is_computed_once():
    """The Cholesky factor is kept between calls."""
    covariance = DenseCovariance(torch.eye(3))
    assert covariance.factor() is covariance.factor()


def test_pickle_holds_the_matrix_only():
    """Factors are computed again, so a stored covariance is as small as its matrix."""
    covariance = DenseCovariance(torch.eye(3))
    covariance.factor()
    assert list(covariance.__getstate__()) == ["matrix"]
