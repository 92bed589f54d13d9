import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from multirel.estimators._linear._covariance_factors import CovarianceFactors, restricted_spectrum
from multirel.tensor_normal import DenseCovariance, LowRankCovariance, PseudoInverseCovariance
from tests.builders import positive_definite, rotation, singular

SIZE, KEPT = 7, 4


def padded(rng, rank):
    """A matrix a·I + U diag(s − a) Uᵀ whose U is zero in the last rows, and its parts."""
    basis = np.zeros((SIZE, rank))
    basis[:KEPT] = rotation(rng, KEPT)[:, :rank]
    values = rng.uniform(1, 5, rank)
    return (basis * (values - 0.3)) @ basis.T + 0.3 * np.eye(SIZE), basis, values


@pytest.mark.parametrize("rank", [1, 2, KEPT])
def test_low_rank_covariances_keep_their_first_rows(rank):
    matrix, basis, values = padded(np.random.default_rng(0), rank)
    covariance = LowRankCovariance(torch.from_numpy(basis), torch.from_numpy(values), 0.3)

    factors = CovarianceFactors.from_covariance(covariance, KEPT)

    assert factors.size == KEPT
    assert_allclose(factors.dense(), matrix[:KEPT, :KEPT], atol=1e-14)
    assert_allclose(factors.basis.T @ factors.basis, np.eye(factors.basis.shape[1]), atol=1e-14)


def test_dense_covariances_keep_their_first_rows_and_what_the_rest_has():
    matrix, _, _ = padded(np.random.default_rng(1), 3)

    factors = CovarianceFactors.from_covariance(DenseCovariance(torch.from_numpy(matrix)), KEPT)

    assert_allclose(factors.dense(), matrix[:KEPT, :KEPT], atol=1e-13)
    assert_allclose(factors.outside, 0.3, atol=1e-13)


def test_whole_covariances_are_written_out_again():
    matrix = positive_definite(np.random.default_rng(2), SIZE)

    factors = CovarianceFactors.from_covariance(DenseCovariance(torch.from_numpy(matrix)), SIZE)

    assert_allclose(factors.dense(), matrix, atol=1e-13)


def test_singular_covariances_have_zeros_where_their_pseudo_inverse_has():
    matrix = singular(np.random.default_rng(3), SIZE, 2)
    covariance = PseudoInverseCovariance(torch.from_numpy(matrix))

    assert_allclose(CovarianceFactors.from_covariance(covariance, SIZE).dense(), matrix, atol=1e-12)


def test_rotated_covariances_are_those_of_rotated_vectors():
    rng = np.random.default_rng(4)
    matrix = positive_definite(rng, KEPT)
    basis = rotation(rng, SIZE)[:, :KEPT]
    factors = CovarianceFactors(
        basis=np.linalg.eigh(matrix)[1], inside=np.linalg.eigh(matrix)[0], outside=0.2
    )

    expected = basis @ matrix @ basis.T + 0.2 * (np.eye(SIZE) - basis @ basis.T)
    assert_allclose(factors.rotated(basis).dense(), expected, atol=1e-13)


def test_the_identity_has_no_directions_of_its_own():
    factors = CovarianceFactors.identity(3)

    assert factors.basis.shape == (3, 0)
    assert_allclose(factors.dense(), np.eye(3))


def test_directions_beyond_the_kept_rows_leave_no_trace():
    """More orthonormal columns than the kept rows can hold, with the value of the rest on those outside."""
    rng = np.random.default_rng(5)
    inner, outer = rotation(rng, KEPT)[:, :3], rotation(rng, SIZE - KEPT)[:, :2]
    basis = np.zeros((SIZE, 5))
    basis[:KEPT, :3], basis[KEPT:, 3:] = inner, outer
    inside = np.array([2.0, 3.0, 4.0, 0.5, 0.5])

    kept, values, outside = restricted_spectrum(basis, inside, 0.5, n_kept=KEPT)

    matrix = (kept * (values - outside)) @ kept.T + outside * np.eye(KEPT)
    expected = (inner * (inside[:3] - 0.5)) @ inner.T + 0.5 * np.eye(KEPT)
    assert_allclose(matrix, expected, atol=1e-14)
    assert_allclose(kept.T @ kept, np.eye(kept.shape[1]), atol=1e-14)
