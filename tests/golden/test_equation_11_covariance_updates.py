"""Eq. (11): Σ_k ← S_k + εI, in the paper's column-major form and in ours."""

import numpy as np
import pytest

from tests.builders import positive_definite
from tests.environment import assert_close
from tests.reference import prior as reference
from tests.stacks import covariances_of, prior_on, related_weight, set_weight

SHAPES = [(3, 4), (2, 3, 4), (4, 2, 3), (3, 2, 2, 3), (2, 2, 3, 2, 2)]
JITTER = 0.1
FACTOR = 100.0


@pytest.mark.parametrize("shape", SHAPES)
def test_both_forms_of_the_scatter_agree(shape):
    """W_(k) (Σ_K ⊗ … ⊗ Σ_1)⁻¹ W_(k)ᵀ column-major is our row-major product."""
    rng = np.random.default_rng(0)
    weight = related_weight(shape)
    covariances = [positive_definite(rng, size) for size in shape]
    precisions = [np.linalg.inv(matrix) for matrix in covariances]
    for mode in range(len(shape)):
        np.testing.assert_allclose(
            reference.scatter(weight, precisions, mode),
            reference.scatter_column_major(weight, covariances, mode),
            rtol=1e-11,
            atol=1e-12,
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_updates_are_those_of_the_paper(shape):
    """Task, output, input in turn, each with the covariances that are there by then, again and again."""
    weight = related_weight(shape)
    prior, _ = prior_on(weight, scale="free", jitter=JITTER, start=0.3, n_updates=None)
    n_tasks = shape[0]
    covariances = [0.7 * np.eye(n_tasks) + 0.3, *(np.eye(size) for size in shape[1:])]
    for _ in range(3):
        prior.update()
        for mode, size in enumerate(shape):
            scatter = reference.scatter_column_major(weight, covariances, mode)
            covariances[mode] = scatter + JITTER * np.eye(size)
        for actual, expected in zip(covariances_of(prior), covariances, strict=True):
            assert_close(actual, expected, factor=FACTOR)


def test_updates_are_of_the_deviation_from_the_mean():
    """W − M in the place of W."""
    first, then = related_weight((2, 3, 4)), related_weight((2, 3, 4), seed=1)
    prior, network = prior_on(first, scale="free", jitter=JITTER, mean="initial", modes=("task",))
    set_weight(network, then)
    prior.update()
    scatter = reference.scatter(then - first, [np.eye(2), np.eye(3), np.eye(4)], 0)
    assert_close(covariances_of(prior)[0], scatter + JITTER * np.eye(2), factor=FACTOR)


@pytest.mark.parametrize("shape", [(2, 3, 7), (4, 1, 6)])
def test_scatters_have_the_rank_that_one_stack_allows(shape):
    """Rank S_k = min(d_k, D/d_k), and not min(D₁, D₂, T)."""
    prior, _ = prior_on(related_weight(shape), scale="free", jitter=JITTER, start=0.0)
    prior.update()
    for size, matrix in zip(shape, covariances_of(prior), strict=True):
        eigenvalues = np.linalg.eigvalsh(matrix - JITTER * np.eye(size))
        rank = int((eigenvalues > 1e-4 * eigenvalues[-1]).sum())
        assert rank == min(size, np.prod(shape) // size)
