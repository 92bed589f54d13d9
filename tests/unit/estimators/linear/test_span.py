"""Rows in a basis of their span are the same rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from multirel.estimators._linear._span import SpanBasis, is_reducible, reduce_to_span

RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(12, 50))
ROWS = {
    "independent": PLAIN,
    "centered": PLAIN - PLAIN.mean(axis=0),
    "repeated": np.concatenate([PLAIN, PLAIN[:5]]),
    "nearly dependent": np.concatenate([PLAIN, PLAIN[:3] + 1e-6 * RNG.normal(size=(3, 50))]),
    "sparse": sparse.csr_array(PLAIN * (PLAIN > 0.8)),
    "zeros": np.zeros((3, 50)),
}


def written_out(basis, n_features=50):
    return np.eye(n_features) @ basis


@pytest.mark.parametrize("name", ROWS)
def test_the_basis_is_orthonormal_and_gives_the_rows_back(name):
    x = ROWS[name]
    z, basis = reduce_to_span(x)
    dense = x.toarray() if sparse.issparse(x) else x
    q = written_out(basis)

    assert_allclose(q.T @ q, np.eye(z.shape[1]), atol=1e-8)
    assert_allclose(z @ q.T, dense, atol=1e-7)
    assert z.shape[1] == basis.shape[1] <= len(dense)


@pytest.mark.parametrize("name", ["independent", "sparse"])
def test_a_basis_that_is_not_written_out_multiplies_as_an_array(name):
    _, basis = reduce_to_span(ROWS[name])
    assert isinstance(basis, SpanBasis)
    q, r = written_out(basis), basis.shape[1]
    weights, rows = RNG.normal(size=(2, 3, r)), RNG.normal(size=(4, 50))

    assert basis.shape == q.shape
    assert_allclose(weights @ basis.T, weights @ q.T, atol=1e-12)
    assert_allclose(basis @ np.eye(r), q, atol=1e-12)
    assert_allclose(rows @ basis, rows @ q, atol=1e-12)
    assert_allclose(sparse.csr_array(rows) @ basis, rows @ q, atol=1e-12)


def test_only_few_rows_are_reduced():
    assert is_reducible(np.zeros((5, 50)))
    assert not is_reducible(np.zeros((49, 50)))
    assert is_reducible(sparse.csr_array((900, 10**6)))
    assert not is_reducible(sparse.csr_array((5000, 10**6)))


def test_wide_sparse_rows_are_never_written_out():
    x = sparse.random_array((40, 10**7), density=1e-6, format="csr", rng=np.random.default_rng(0))
    z, basis = reduce_to_span(x)

    assert z.shape[0] == 40
    assert_allclose(z @ z.T, (x @ x.T).toarray(), atol=1e-10)
    assert basis.shape == (10**7, z.shape[1])
