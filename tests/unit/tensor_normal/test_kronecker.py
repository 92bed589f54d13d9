"""Kronecker algebra: messages, batches, compilation."""

import numpy as np
import pytest
import torch

from multirel.tensor_normal import (
    DenseCovariance,
    IdentityCovariance,
    LowRankCovariance,
    kronecker_color,
    kronecker_matvec,
    kronecker_prox,
    kronecker_quadratic_form,
    kronecker_solve,
    kronecker_whiten,
)
from tests.builders import positive_definite
from tests.environment import DEVICE, DTYPE, array, assert_close, tensor
from tests.reference import dense

PRODUCTS = [kronecker_matvec, kronecker_solve, kronecker_color, kronecker_whiten]


@pytest.mark.parametrize("function", [*PRODUCTS, kronecker_quadratic_form])
@pytest.mark.parametrize("shape", [(3, 2), (2,), (2, 3, 1)])
def test_weight_of_another_shape_is_an_error(function, shape):
    """The message has the sizes of the covariances and the shape."""
    covariances = [IdentityCovariance(2), IdentityCovariance(3)]
    with pytest.raises(ValueError, match=r"its size: expected \(…, 2, 3\), got"):
        function(covariances, torch.zeros(shape))


def test_prox_of_another_shape_is_an_error():
    """The same message as for the products."""
    with pytest.raises(ValueError, match=r"one trailing axis per covariance"):
        kronecker_prox([IdentityCovariance(2)], torch.zeros(3), 1.0)


def test_prox_takes_one_step_per_batch_entry():
    """`step` of shape "*batch"."""
    rng = np.random.default_rng(0)
    matrices = [positive_definite(rng, size) for size in (2, 3)]
    weight = rng.standard_normal((4, 2, 3))
    steps = np.array([0.0, 0.1, 1.0, 10.0])

    points = kronecker_prox(
        [DenseCovariance(tensor(m)) for m in matrices], tensor(weight), tensor(steps)
    )

    for point, one, step in zip(array(points), weight, steps, strict=True):
        assert_close(point, dense.prox(matrices, one, step), factor=100)


def test_prox_of_no_step_is_the_weight_and_of_a_long_step_is_zero():
    """(I + 0·P)⁻¹ = I, and the limit is the minimizer of the penalty."""
    rng = np.random.default_rng(0)
    covariances = [DenseCovariance(tensor(positive_definite(rng, size))) for size in (2, 3)]
    weight = tensor(rng.standard_normal((2, 3)))
    assert_close(kronecker_prox(covariances, weight, 0.0), array(weight), factor=100)
    assert np.abs(array(kronecker_prox(covariances, weight, 1e8))).max() < 1e-6


@pytest.mark.parametrize("function", [*PRODUCTS, kronecker_quadratic_form, kronecker_prox])
def test_functions_are_twice_differentiable(function):
    """In the weight and in the matrices, which are kept symmetric by A ↦ A Aᵀ + I."""
    rng = np.random.default_rng(0)
    double = {"dtype": torch.float64}
    inputs = [tensor(rng.standard_normal((2, 3)), **double).requires_grad_()]
    inputs += [tensor(rng.standard_normal((d, d)), **double).requires_grad_() for d in (2, 3)]
    arguments = (0.7,) if function is kronecker_prox else ()

    def value(weight, *roots):
        covariances = [
            DenseCovariance(root @ root.mT + torch.eye(len(root), dtype=root.dtype, device=DEVICE))
            for root in roots
        ]
        return function(covariances, weight, *arguments)

    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradgradcheck(value, inputs, fast_mode=True)


def test_gradient_with_coinciding_eigenvalues_is_finite():
    """The Cholesky factor, not the eigenvectors, carries the gradient of the quadratic form."""
    matrix = torch.eye(3, dtype=DTYPE, device=DEVICE, requires_grad=True)
    weight = tensor(np.arange(3.0))
    kronecker_quadratic_form([DenseCovariance(matrix)], weight).backward()
    expected = -np.outer(np.arange(3.0), np.arange(3.0))
    gradient = array(matrix.grad)
    assert_close((gradient + gradient.T) / 2, expected)


@pytest.mark.parametrize("function", PRODUCTS)
def test_low_rank_matches_its_dense_form(function):
    """Up to the choice of square root, which `whiten` and `color` may differ by."""
    rng = np.random.default_rng(0)
    covariance = LowRankCovariance.from_matrix(tensor(positive_definite(rng, 4)), 2)
    written_out = DenseCovariance(covariance.dense())
    weight = tensor(rng.standard_normal((4, 4)))
    one = array(function([covariance, covariance], weight))
    other = array(function([written_out, written_out], weight))
    if function in (kronecker_matvec, kronecker_solve):
        assert_close(one, other, factor=100)
    elif function is kronecker_whiten:
        assert_close(np.linalg.norm(one), np.linalg.norm(other), factor=100)


@pytest.mark.parametrize("function", [*PRODUCTS, kronecker_quadratic_form])
@pytest.mark.parametrize("batch", [(), (1,)])
def test_weight_without_the_batch_of_its_covariances_is_repeated(function, batch):
    """Batch axes broadcast: the same as the weight repeated for every entry of the batch."""
    rng = np.random.default_rng(0)
    matrices = tensor(positive_definite(rng, 3, batch=(4,)))
    single = DenseCovariance(tensor(positive_definite(rng, 2)))
    for batched in (DenseCovariance(matrices), LowRankCovariance.from_matrix(matrices, 1)):
        for covariances, shape in (([batched, single], (3, 2)), ([single, batched], (2, 3))):
            weight = tensor(rng.standard_normal((*batch, *shape)))
            expected = function(covariances, weight.expand(4, *shape).contiguous())
            assert_close(function(covariances, weight), expected)
