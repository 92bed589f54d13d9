"""Normalization by example."""

import pytest
import torch

from multirel.tensor_normal import correlation_matrix, normalize_covariances
from tests.environment import array, assert_close, tensor


def test_tensors_and_objects_are_normalized_alike():
    """tr Σ_k = d_k, and the scale is the product of the mean variances."""
    first, second = tensor([[4.0, 1.0], [1.0, 2.0]]), tensor([[0.5]])
    normalized, scale = normalize_covariances([first, second])
    assert_close(normalized[0].dense(), array(first) / 3)
    assert_close(normalized[1].dense(), [[1.0]])
    assert array(scale) == pytest.approx(1.5)


def test_correlations_are_exactly_one_on_the_diagonal_and_never_beyond():
    """Also where roundoff would say 1.0000001."""
    deviations = torch.rand(50, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    matrix = 3.0 * deviations[:, None] * deviations[None, :]
    correlation = correlation_matrix(matrix)
    assert (correlation.diagonal() == 1).all()
    assert (correlation <= 1).all()
    assert_close(correlation, torch.ones(50, 50), dtype=torch.float32)
