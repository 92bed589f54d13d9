"""Low rank plus a multiple of the identity: construction, truncation and messages."""

import numpy as np
import pytest
import torch

from multirel.exceptions import NotPositiveDefiniteError
from multirel.tensor_normal import LowRankCovariance, TensorNormal, kronecker_prox
from tests.builders import positive_definite, rotation, spectrum
from tests.environment import DEVICE, DTYPE, array, assert_close, tensor
from tests.reference import dense

SIZE = 6


@pytest.mark.parametrize("rank", [0, 1, 3, 5])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_truncation_keeps_the_largest_eigenvalues_and_the_trace(rank, batch):
    """The complement is the mean of the eigenvalues left out."""
    matrix = positive_definite(np.random.default_rng(0), SIZE, condition=50.0, batch=batch)
    truncated = LowRankCovariance.from_matrix(tensor(matrix), rank)

    expected = np.linalg.eigvalsh(matrix)
    expected[..., : SIZE - rank] = expected[..., : SIZE - rank].mean(-1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(array(truncated.dense()))
    assert_close(eigenvalues, expected, factor=10)
    assert_close(truncated.trace(), np.trace(matrix, axis1=-2, axis2=-1), factor=10)
    assert truncated.basis.shape == (*batch, SIZE, rank)


@pytest.mark.parametrize("rank", [-1, SIZE, SIZE + 1])
def test_truncation_to_no_lower_rank_is_an_error(rank):
    """Full rank is a dense covariance."""
    message = f"`rank` must be below the size of `matrix`: expected 0 to 5, got {rank}"
    with pytest.raises(ValueError, match=message):
        LowRankCovariance.from_matrix(torch.eye(SIZE), rank)


@pytest.mark.parametrize(("eigenvalues", "complement"), [((1.0, 0.0), 1.0), ((1.0, 2.0), -0.5)])
def test_eigenvalues_must_be_positive(eigenvalues, complement):
    """On the span and off it."""
    with pytest.raises(
        NotPositiveDefiniteError, match="must be positive in a covariance of size 6"
    ):
        LowRankCovariance(torch.eye(SIZE)[:, :2], torch.tensor(eigenvalues), complement)


def test_shapes_must_match():
    """One eigenvalue per column, and no more columns than rows."""
    with pytest.raises(
        ValueError, match=r"`eigenvalues` must have one entry per column .*expected 2"
    ):
        LowRankCovariance(torch.eye(SIZE)[:, :2], torch.ones(3), 1.0)
    with pytest.raises(ValueError, match=r"at most as many columns as rows: got shape \(2, 6\)"):
        LowRankCovariance(torch.eye(SIZE)[:2], torch.ones(6), 1.0)


def test_prox_and_quadratic_form_never_complete_the_basis():
    """Modes of size 20 000 and rank 3: the completed basis would take 3.2 GB each."""
    rng = np.random.default_rng(0)
    size, rank = 20_000, 3
    basis = np.linalg.qr(rng.standard_normal((size, rank)))[0]
    covariance = LowRankCovariance(tensor(basis), tensor([4.0, 3.0, 2.0]), 0.5)
    inside, outside = basis @ [1.0, 2.0, 3.0], rng.standard_normal(size)
    outside -= basis @ (basis.T @ outside)

    point = kronecker_prox([covariance], tensor(inside + outside), 2.0)

    expected = basis @ (np.array([1.0, 2.0, 3.0]) / (1 + 2.0 / np.array([4.0, 3.0, 2.0])))
    assert_close(point, expected + outside / (1 + 2.0 / 0.5), factor=100)


def test_small_complement_in_single_precision_stays_accurate():
    """a/s = 1e-3 is the limit that single precision is held to: measured 2e-5 relative, asserted 1e-4."""
    rng = np.random.default_rng(0)
    basis, eigenvalues = rotation(rng, SIZE)[:, :2], spectrum(2, 4.0)
    complement = 1e-3 * eigenvalues[-1]
    matrix = (basis * eigenvalues) @ basis.T + complement * (np.eye(SIZE) - basis @ basis.T)
    single = {"dtype": torch.float32}
    covariance = LowRankCovariance(
        tensor(basis, **single), tensor(eigenvalues, **single), float(complement)
    )
    x = rng.standard_normal(SIZE)
    expected = dense.symmetric_pseudo_inverse(matrix) @ x
    error = array(covariance.solve(tensor(x, **single))) - expected
    assert np.linalg.norm(error) < 1e-4 * np.linalg.norm(expected)


def test_select_keeps_the_form():
    """A marginal of low rank plus identity is again that: at most r columns."""
    basis = tensor(rotation(np.random.default_rng(0), SIZE)[:, :2])
    covariance = LowRankCovariance(basis, tensor([3.0, 2.0]), 0.5)
    selected = covariance.select([5, 1, 3])
    assert isinstance(selected, LowRankCovariance)
    assert selected.basis.shape == (3, 2)
    assert selected.dtype == DTYPE
    assert selected.device.type == DEVICE.type


def test_columns_that_are_not_orthonormal_are_an_error_in_a_distribution():
    basis = tensor([[1.0], [1.0], [0.0]])
    covariance = LowRankCovariance(basis, tensor([2.0]), 1.0)
    with pytest.raises(ValueError, match=r"`basis` of `covariances\[0\]` must have orthonormal"):
        TensorNormal(tensor([0.0, 0.0, 0.0]), [covariance], validate_args=True)
