"""Kronecker algebra without the product, against the product, over mixes of covariance types."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multirel.tensor_normal import (
    kronecker_color,
    kronecker_log_determinant,
    kronecker_matvec,
    kronecker_prox,
    kronecker_quadratic_form,
    kronecker_solve,
    kronecker_whiten,
)
from tests.environment import array, assert_close
from tests.properties.strategies import KINDS, tensor_normals
from tests.reference import dense

FACTOR = 100.0
"""Room for five modes, each with condition number up to 5."""

REGULAR = ("dense", "identity", "low-rank")


@given(tensor_normals(kinds=KINDS))
def test_matvec_is_the_dense_product(case):
    """(Σ₁ ⊗ … ⊗ Σ_K) vec(W), folded back."""

    def expected(matrices, weight):
        return (dense.kronecker(matrices) @ dense.vec(weight)).reshape(weight.shape)

    actual = kronecker_matvec(case.covariances, case.tensor(case.weight))
    assert_close(actual, case.over_batch(expected, case.weight), dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=KINDS))
def test_solve_is_the_dense_precision(case):
    """P vec(W), with pseudo-inverses where a covariance is singular."""

    def expected(matrices, weight):
        return (dense.precision(matrices) @ dense.vec(weight)).reshape(weight.shape)

    actual = kronecker_solve(case.covariances, case.tensor(case.weight))
    assert_close(actual, case.over_batch(expected, case.weight), dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR))
def test_solve_undoes_matvec(case):
    """P Σ W = W = Σ P W."""
    weight = case.tensor(case.weight)
    one = kronecker_solve(case.covariances, kronecker_matvec(case.covariances, weight))
    other = kronecker_matvec(case.covariances, kronecker_solve(case.covariances, weight))
    assert_close(one, case.weight, dtype=case.dtype, factor=FACTOR)
    assert_close(other, case.weight, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=KINDS))
def test_quadratic_form_is_the_dense_one_and_the_length_of_the_whitened(case):
    """⟨W, P W⟩ = ‖whiten(W)‖², one number per batch entry, never negative."""
    weight = case.tensor(case.weight)
    expected = case.over_batch(dense.quadratic_form, case.weight)
    actual = kronecker_quadratic_form(case.covariances, weight)
    assert_close(actual, expected, dtype=case.dtype, factor=FACTOR)
    assert (array(actual) >= 0).all()

    whitened = array(kronecker_whiten(case.covariances, weight))
    axes = tuple(range(len(case.batch), whitened.ndim))
    assert_close((whitened**2).sum(axis=axes), expected, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=KINDS))
def test_log_determinant_is_the_dense_one(case):
    """Σ_k (D/d_k) ln|Σ_k|, or its pseudo-determinant; batched where a covariance is."""
    expected = case.over_batch(dense.log_determinant)
    actual = array(kronecker_log_determinant(case.covariances))
    actual = np.broadcast_to(actual, expected.shape)
    assert_close(actual, expected, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=KINDS, batched=False))
def test_coloring_all_units_gives_a_square_root(case):
    """F Fᵀ = Σ₁ ⊗ … ⊗ Σ_K, and G Σ Gᵀ is a projection of the same rank for the whitening G."""
    units = case.tensor(np.eye(prod(case.shape)).reshape(-1, *case.shape))
    factor = array(kronecker_color(case.covariances, units)).reshape(len(units), -1).T
    covariance = dense.kronecker(case.matrices)
    assert_close(factor @ factor.T, covariance, dtype=case.dtype, factor=FACTOR)

    whitening = array(kronecker_whiten(case.covariances, units)).reshape(len(units), -1).T
    whitened = whitening @ covariance @ whitening.T
    assert_close(whitened @ whitened, whitened, dtype=case.dtype, factor=FACTOR)
    assert np.trace(whitened) == pytest.approx(dense.rank(covariance), abs=0.01)


@given(tensor_normals(kinds=KINDS), st.sampled_from([0.0, 1e-3, 0.7, 100.0]))
def test_prox_is_the_dense_solve(case, step):
    """(I + step·P)⁻¹ W, for any mix of types, without completing a low-rank basis."""
    actual = kronecker_prox(case.covariances, case.tensor(case.weight), step)
    expected = case.over_batch(lambda m, w: dense.prox(m, w, step), case.weight)
    assert_close(actual, expected, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR), st.sampled_from([0.01, 1.0, 30.0]))
def test_prox_satisfies_its_own_equation(case, step):
    """The point V = prox(W) has W − V = step·P V, and is shorter than W."""
    point = kronecker_prox(case.covariances, case.tensor(case.weight), step)
    pull = step * array(kronecker_solve(case.covariances, point))
    assert_close(array(point) + pull, case.weight, dtype=case.dtype, factor=FACTOR)
    assert np.linalg.norm(array(point)) <= np.linalg.norm(case.weight) * (1 + 1e-6)
