"""Singular covariances: what counts as zero, and messages."""

import numpy as np
import pytest
import torch

from multirel.exceptions import NotFiniteError, NotPositiveDefiniteError
from multirel.tensor_normal import PseudoInverseCovariance
from tests.builders import rotation, singular
from tests.environment import array, assert_close, tensor

SIZE = 5


@pytest.mark.parametrize("rank", range(1, SIZE + 1))
@pytest.mark.parametrize("seed", range(20))
def test_rank_of_a_singular_matrix_survives_roundoff(rank, seed):
    """A product B Bᵀ computed in floating point has rank r, and not r plus noise."""
    matrix = singular(np.random.default_rng(seed), SIZE, rank)
    assert PseudoInverseCovariance(tensor(matrix)).rank == rank


def test_tolerance_says_which_eigenvalues_are_zero():
    """A share of the largest eigenvalue."""
    basis = rotation(np.random.default_rng(0), 3)
    matrix = tensor((basis * [1.0, 1e-2, 1e-4]) @ basis.T)
    assert [
        PseudoInverseCovariance(matrix, tolerance=tolerance).rank
        for tolerance in (1e-5, 1e-3, 1e-1)
    ] == [3, 2, 1]


def test_what_lies_off_the_range_costs_nothing():
    """Σ⁺ x = 0 there, as the paper's generalized inverse has it."""
    covariance = PseudoInverseCovariance(tensor(np.diag([2.0, 1.0, 0.0])))
    assert_close(covariance.solve(tensor([0.0, 0.0, 7.0])), np.zeros(3))
    assert_close(covariance.solve(tensor([2.0, 0.0, 7.0])), [1.0, 0.0, 0.0])
    assert array(covariance.log_determinant()) == pytest.approx(np.log(2.0))


@pytest.mark.parametrize(("diagonal", "smallest"), [((1.0, -0.5), "-0.5"), ((0.0, 0.0), "0")])
def test_matrix_that_is_indefinite_or_zero_is_an_error(diagonal, smallest):
    """With the range of its eigenvalues."""
    message = f"size 2 must be positive semidefinite and not zero: got eigenvalues from {smallest}"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        PseudoInverseCovariance(torch.diag(torch.tensor(diagonal)))


def test_batch_of_different_ranks_is_an_error():
    """The log-density would have different dimensions."""
    matrices = torch.stack([torch.eye(2), torch.diag(torch.tensor([1.0, 0.0]))])
    with pytest.raises(ValueError, match="one rank across its batch: got 1 to 2"):
        PseudoInverseCovariance(matrices)


def test_matrix_that_is_not_finite_is_an_error():
    """With the number of bad entries."""
    with pytest.raises(NotFiniteError, match="NaN or infinity in 1 of 4 entries"):
        PseudoInverseCovariance(torch.tensor([[1.0, 0.0], [0.0, float("nan")]]))
