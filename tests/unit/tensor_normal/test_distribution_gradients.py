"""First and second derivatives of densities and samples."""

import numpy as np
import pytest
import torch

from multirel.tensor_normal import (
    LowRankCovariance,
    TensorNormal,
    kronecker_solve,
)
from tests.environment import DEVICE, assert_close, tensor

DOUBLE = {"dtype": torch.float64}
SHAPES = [(3,), (2, 3), (2, 1, 2)]


def positive(root: torch.Tensor) -> torch.Tensor:
    """A Aᵀ + I: a covariance whatever A is."""
    return root @ root.mT + torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)


def inputs(shape, *, batch=()):
    """A point, a mean and one square root per mode, all wanting gradients; double precision."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((*batch, *shape)), rng.standard_normal(shape)]
    arrays += [rng.standard_normal((*batch, size, size)) for size in shape]
    return [tensor(values, **DOUBLE).requires_grad_() for values in arrays]


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("shape", SHAPES)
def test_density_is_twice_differentiable(shape, batch):
    """In x, the mean and every covariance."""

    def log_density(x, loc, *roots):
        return TensorNormal(loc, [positive(root) for root in roots]).log_prob(x)

    arguments = inputs(shape, batch=batch)
    assert torch.autograd.gradcheck(log_density, arguments)
    assert torch.autograd.gradgradcheck(log_density, arguments)


@pytest.mark.parametrize("shape", SHAPES)
def test_samples_are_twice_differentiable(shape):
    """In the mean and every covariance, at fixed noise."""

    def sample(loc, *roots):
        torch.manual_seed(0)
        return TensorNormal(loc, [positive(root) for root in roots]).rsample((2,))

    arguments = inputs(shape)[1:]
    assert torch.autograd.gradcheck(sample, arguments)
    assert torch.autograd.gradgradcheck(sample, arguments)


def test_entropy_and_divergence_are_differentiable():
    """In the covariances of both."""

    def both(loc, first, second, third, fourth):
        p = TensorNormal(loc, [positive(first), positive(second)])
        q = TensorNormal(torch.zeros_like(loc), [positive(third), positive(fourth)])
        return p.entropy() + torch.distributions.kl_divergence(p, q)

    rng = np.random.default_rng(0)
    shapes = [(2, 3), (2, 2), (3, 3), (2, 2), (3, 3)]
    arguments = [tensor(rng.standard_normal(s), **DOUBLE).requires_grad_() for s in shapes]
    assert torch.autograd.gradcheck(both, arguments)


def test_density_of_low_rank_covariances_is_twice_differentiable():
    """In the point, the eigenvalues and the complement."""
    rng = np.random.default_rng(0)
    basis = tensor(np.linalg.qr(rng.standard_normal((4, 2)))[0], **DOUBLE)

    def log_density(x, log_eigenvalues, log_complement):
        covariance = LowRankCovariance(basis, log_eigenvalues.exp(), log_complement.exp())
        eye = torch.eye(2, **DOUBLE, device=DEVICE)
        loc = torch.zeros(2, 4, **DOUBLE, device=DEVICE)
        return TensorNormal(loc, [eye, covariance]).log_prob(x)

    arrays = [rng.standard_normal((2, 4)), rng.standard_normal(2), rng.standard_normal(())]
    arguments = [tensor(values, **DOUBLE).requires_grad_() for values in arrays]
    assert torch.autograd.gradcheck(log_density, arguments)
    assert torch.autograd.gradgradcheck(log_density, arguments)


def test_gradient_of_the_density_is_minus_the_precision_times_the_difference():
    """∇ ln p(X) = −P (X − M), folded."""
    x, loc, first, second = (values.detach() for values in inputs((2, 3)))
    distribution = TensorNormal(loc, [positive(first), positive(second)])
    x = x.requires_grad_()
    (gradient,) = torch.autograd.grad(distribution.log_prob(x), x)
    expected = -kronecker_solve(distribution.covariances, (x - loc).detach())
    assert_close(gradient, expected, dtype=torch.float64, factor=10)
