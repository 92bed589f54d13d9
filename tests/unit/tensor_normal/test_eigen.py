"""Eigenvectors and orthonormal columns, on whichever device they are computed."""

import numpy as np
import pytest
import torch

from multirel.tensor_normal import accurate_product, eigh, orthonormal
from tests.builders import positive_definite
from tests.environment import DEVICE, DTYPE, array, assert_close, tensor


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("size", [1, 4, 200])
def test_eigenvectors_make_the_matrix_again(size: int, batch: tuple[int, ...]):
    matrix = positive_definite(np.random.default_rng(0), size, batch=batch)
    values, vectors = eigh(tensor(matrix))
    assert values.device.type == vectors.device.type == DEVICE.type
    assert_close((vectors * values.unsqueeze(-2)) @ vectors.mT, matrix, factor=100)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_orthonormal_columns_span_the_same(batch: tuple[int, ...]):
    columns = np.random.default_rng(0).standard_normal((*batch, 30, 6)) * np.geomspace(1, 1e-3, 6)
    basis = orthonormal(tensor(columns))
    assert_close(basis.mT @ basis, np.broadcast_to(np.eye(6), (*batch, 6, 6)), factor=10)
    assert_close(basis @ (basis.mT @ tensor(columns)), columns, factor=10)


def test_dependent_columns_are_made_orthonormal_too():
    columns = np.random.default_rng(0).standard_normal((30, 2)) @ np.ones((2, 5))
    basis = orthonormal(tensor(columns))
    assert_close(basis.mT @ basis, np.eye(5), factor=10)


def test_accurate_products_keep_their_type():
    left, right = np.random.default_rng(0).standard_normal((2, 5, 5))
    product = accurate_product(tensor(left), tensor(right))
    assert product.dtype == DTYPE
    assert_close(product, left @ right)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="products round their factors on GPUs")
def test_accurate_products_do_not_round_their_factors():
    left, right = torch.randn(2, 200, 200, device="cuda")
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    product = accurate_product(left, right)
    torch.backends.cuda.matmul.allow_tf32 = before
    np.testing.assert_allclose(array(product), array(left) @ array(right), rtol=0, atol=1e-5)
