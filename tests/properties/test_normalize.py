"""Normalization: what is printed and compared does not depend on where the scale is."""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from multirel.tensor_normal import correlation_matrix, normalize_covariances
from tests.environment import array, assert_close
from tests.properties.strategies import KINDS, tensor_normals
from tests.reference import dense

FACTOR = 10.0


@given(tensor_normals(kinds=KINDS))
def test_normalized_covariances_have_trace_d_and_the_same_product(case):
    """Σ₁ ⊗ … ⊗ Σ_K = scale · ⊗ normalized, tr = d_k for every mode."""
    normalized, scale = normalize_covariances(case.covariances)
    scale = np.broadcast_to(array(scale), case.batch)
    for index in np.ndindex(*case.batch):
        matrices = [m[index] if m.ndim > 2 else m for m in case.matrices]
        parts = [array(covariance.dense()) for covariance in normalized]
        parts = [part[index] if part.ndim > 2 else part for part in parts]
        for part in parts:
            assert_close(np.trace(part), len(part), dtype=case.dtype)
        product = scale[index] * dense.kronecker(parts)
        assert_close(product, dense.kronecker(matrices), dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=KINDS))
def test_normalizing_twice_changes_nothing(case):
    """The second scale is 1."""
    once, _ = normalize_covariances(case.covariances)
    twice, scale = normalize_covariances(once)
    assert_close(scale, np.ones(np.shape(array(scale))), dtype=case.dtype, factor=FACTOR)
    for one, two in zip(once, twice, strict=True):
        assert_close(two.dense(), one.dense(), dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=KINDS), st.data())
def test_normalized_covariances_do_not_depend_on_where_the_scale_was(case, data):
    """Scaling each factor changes the scale by the product of the scalings, and nothing else."""
    scales = [data.draw(st.floats(0.1, 10.0)) for _ in case.covariances]
    before, scale = normalize_covariances(case.covariances)
    scaled = [c.scaled(s) for c, s in zip(case.covariances, scales, strict=True)]
    after, new_scale = normalize_covariances(scaled)
    expected = array(scale) * prod(scales)
    assert_close(array(new_scale) / expected, np.ones_like(expected), dtype=case.dtype, factor=10)
    for one, two in zip(before, after, strict=True):
        assert_close(two.dense(), one.dense(), dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=("dense", "identity", "low-rank")))
def test_correlation_has_a_unit_diagonal_and_ignores_scale(case):
    """Σ_ij / √(Σ_ii Σ_jj), between −1 and 1."""
    for covariance, matrix in zip(case.covariances, case.matrices, strict=True):
        correlation = array(correlation_matrix(covariance))
        deviations = np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
        expected = matrix / (deviations[..., :, None] * deviations[..., None, :])
        assert_close(correlation, expected, dtype=case.dtype, factor=FACTOR)
        assert (np.diagonal(correlation, axis1=-2, axis2=-1) == 1).all()
        assert (np.abs(correlation) <= 1).all()
        scaled = array(correlation_matrix(covariance.scaled(3.0)))
        assert_close(scaled, expected, dtype=case.dtype, factor=FACTOR)
