"""Messages about covariances that are not covariances."""

import pytest
import torch

from multirel.exceptions import NotPositiveDefiniteError
from multirel.tensor_normal import DenseCovariance


def test_integer_matrix_is_an_error():
    """The message says what to call."""
    with pytest.raises(TypeError, match=r"floating type: got torch.int64. Use `.double\(\)`"):
        DenseCovariance(torch.eye(2, dtype=torch.int64))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 0)])
def test_matrix_that_is_not_square_is_an_error(shape):
    """The message has the shape."""
    with pytest.raises(ValueError, match=r"square matrix or a batch of them: got shape \("):
        DenseCovariance(torch.zeros(shape))


def test_matrix_that_is_not_positive_definite_is_an_error_with_its_smallest_eigenvalue():
    """Size, smallest eigenvalue and the ways out, when the factor is first needed."""
    covariance = DenseCovariance(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    message = r"size 2 must be positive definite: .*smallest eigenvalue of -1\. Shrink it"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        covariance.solve(torch.ones(2))
    with pytest.raises(NotPositiveDefiniteError, match=message):
        covariance.precision_spectrum()


def test_one_bad_matrix_of_a_batch_is_an_error():
    """The smallest eigenvalue is that of the bad one."""
    matrices = torch.stack([torch.eye(2), -3.0 * torch.eye(2)])
    with pytest.raises(NotPositiveDefiniteError, match="smallest eigenvalue of -3"):
        DenseCovariance(matrices).log_determinant()
