"""Eq. (5): the covariances by maximum likelihood, iterated until each satisfies its own equation."""

from math import prod

import numpy as np
import pytest

from multirel.tensor_normal import fit_tensor_normal
from tests.builders import color, positive_definite
from tests.environment import DTYPE, array, assert_close, tensor
from tests.reference import flip_flop as reference
from tests.reference.dense import kronecker

N_SAMPLES = 25
SWEEPS = 200
SETTLED = {"torch.float64": 1e-6, "torch.float32": 2e-3}[str(DTYPE)]
"""Relative distance from the fixed point that is left when the iteration has settled."""


def draw(shape):
    rng = np.random.default_rng(len(shape))
    matrices = [positive_definite(rng, size, condition=10.0) for size in shape]
    return color(matrices, rng.standard_normal((N_SAMPLES, *shape)))


def relative(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 2, 4), (2, 3, 2, 2), (2, 2, 2, 1, 3)])
def test_row_major_form_is_the_form_of_the_paper(shape):
    """Ascending others with row-major unfolding = the paper's Σ₃ ⊗ Σ₂ with column-major unfolding."""
    rng = np.random.default_rng(0)
    covariances = [positive_definite(rng, size) for size in shape]
    centered = rng.standard_normal((4, *shape))

    for mode in range(len(shape)):
        ours = reference.update(centered, covariances, mode)
        papers = reference.update_column_major(centered, covariances, mode)
        np.testing.assert_allclose(ours, papers, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 2, 2), (1, 3, 2)])
def test_fitted_point_satisfies_the_three_equations_of_the_paper(shape):
    """Σ̂₁, Σ̂₂, Σ̂₃ reproduce themselves in the update equations as printed (column-major)."""
    samples = draw(shape)
    fit = fit_tensor_normal(tensor(samples), tolerance=0.0, max_iterations=SWEEPS)
    centered = samples - samples.mean(axis=0)
    covariances = [array(covariance.dense()) for covariance in fit.distribution.covariances]

    for mode in range(3):
        expected = reference.update_column_major(centered, covariances, mode)
        assert relative(covariances[mode], expected) < SETTLED


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 3, 2, 2), (2, 2, 2, 1, 3)])
def test_fit_is_the_naive_flip_flop(shape):
    """Same Kronecker product as loops with explicit inverses and np.kron, any order."""
    samples = draw(shape)
    fit = fit_tensor_normal(tensor(samples), tolerance=0.0, max_iterations=SWEEPS)
    expected = kronecker(reference.flip_flop(samples, n_sweeps=SWEEPS))
    actual = kronecker([array(c.dense()) for c in fit.distribution.covariances])
    assert relative(actual, expected) < SETTLED


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_all_but_the_last_covariance_have_trace_d_k(shape):
    """Only the Kronecker product is identifiable: the scale is in the last factor."""
    samples = draw(shape)
    fit = fit_tensor_normal(tensor(samples))
    traces = [array(covariance.trace()).item() for covariance in fit.distribution.covariances]
    assert_close(traces[:-1], list(shape[:-1]))
    total = fit.distribution.variance.sum()
    assert array(total).item() == pytest.approx(prod(traces), rel=1e-4)


def test_one_mode_is_the_sample_covariance():
    """K = 1: no other covariance, one update, the maximum likelihood estimate with 1/n."""
    samples = draw((4,))
    fit = fit_tensor_normal(tensor(samples))
    expected = np.cov(samples, rowvar=False, bias=True)
    assert_close(fit.distribution.covariances[0].dense(), expected)
