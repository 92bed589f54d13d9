"""Speed of the tensor normal distribution: `make bench`."""

import pytest
import torch
from torch.distributions import MultivariateNormal

from benchmarks.tensor_normal_cost import bare_products, make_tensor_normal
from multirel.tensor_normal import TensorNormal, fit_tensor_normal, kronecker_prox

CASES = [((16, 16, 16), 64), ((4, 32, 256), 64), ((4, 512, 512), 1)]
SETTINGS = {"dtype": torch.float32, "device": "cpu"}


@pytest.fixture(autouse=True)
def repeatable():
    """Random numbers that are the same every time."""
    torch.manual_seed(0)


@pytest.mark.parametrize(("shape", "n_samples"), CASES)
def test_bare_matrix_products(benchmark, shape, n_samples):
    benchmark(bare_products(shape, n_samples, **SETTINGS))


@pytest.mark.parametrize(("shape", "n_samples"), CASES)
def test_log_prob(benchmark, shape, n_samples):
    law = make_tensor_normal(shape, **SETTINGS)
    benchmark(law.log_prob, law.sample((n_samples,)))


@pytest.mark.parametrize(("shape", "n_samples"), CASES)
def test_rsample(benchmark, shape, n_samples):
    benchmark(make_tensor_normal(shape, **SETTINGS).rsample, (n_samples,))


def test_construction_and_density(benchmark):
    law = make_tensor_normal((16, 16, 16), **SETTINGS)
    matrices, value = [covariance.dense() for covariance in law.covariances], law.sample()
    benchmark(lambda: TensorNormal(law.loc, matrices, validate_args=False).log_prob(value))


def test_construction_and_density_of_a_dense_normal(benchmark):
    law = make_tensor_normal((16, 16, 16), **SETTINGS)
    first, second, third = (covariance.dense() for covariance in law.covariances)
    dense, value = torch.kron(torch.kron(first, second), third), law.sample().flatten()
    loc = law.loc.flatten()
    benchmark(lambda: MultivariateNormal(loc, dense, validate_args=False).log_prob(value))


def test_prox(benchmark):
    law = make_tensor_normal((4, 512, 512), **SETTINGS)
    benchmark(kronecker_prox, law.covariances, law.sample(), 0.1)


@pytest.mark.parametrize(("shape", "n_samples"), [((4, 5, 6), 2000), ((4, 32, 64), 64)])
def test_fit(benchmark, shape, n_samples):
    samples = make_tensor_normal(shape, dtype=torch.float64, device="cpu").sample((n_samples,))
    benchmark(fit_tensor_normal, samples)
