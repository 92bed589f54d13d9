import numpy as np
import pytest
from scipy import sparse

from multirel.estimators._linear import Design
from multirel.estimators._linear._spectral_curvature import TaskCurvature

COUNTS = [7, 0, 3, 40, 2]


def dense_matrices(x, curvature, tasks):
    starts = np.concatenate([[0], np.cumsum(COUNTS)])
    result = []
    for t in tasks:
        rows, h = x[starts[t] : starts[t + 1]], curvature[starts[t] : starts[t + 1]]
        centered = rows - h @ rows / h.sum()
        result.append((centered.T * h) @ centered)
    return np.array(result)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    ("size", "tasks"), [(3, [0, 2, 3, 4]), (60, [0, 2, 3, 4]), (30, [0, 2, 3, 4]), (30, [3])]
)
def test_products_and_solutions_are_those_of_centered_matrices(is_sparse, size, tasks):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(sum(COUNTS), size)) + 1
    x *= rng.random(x.shape) < 0.5
    h = rng.uniform(0.1, 1, size=len(x))
    design = Design(
        sparse.csr_array(x) if is_sparse else x, np.concatenate([[0], np.cumsum(COUNTS)])
    )
    curvature = TaskCurvature(design, h, np.array(tasks))
    matrices = dense_matrices(x, h, tasks)
    values = rng.normal(size=(len(tasks), size))
    expected = np.einsum("tij,tj->ti", matrices, values)
    np.testing.assert_allclose(curvature.times(values), expected, atol=1e-10)
    for shift in (0.3, 2.0):
        solved = curvature.resolvent(shift)(values)
        shifted = matrices + shift * np.eye(size)
        np.testing.assert_allclose(
            solved, np.linalg.solve(shifted, values[:, :, None])[:, :, 0], atol=1e-10
        )


def test_the_last_factors_are_kept():
    x = np.random.default_rng(0).normal(size=(sum(COUNTS), 3))
    design = Design(x, np.concatenate([[0], np.cumsum(COUNTS)]))
    curvature = TaskCurvature(design, np.ones(len(x)), np.array([0, 3]))
    assert curvature.last_shift == 0
    values = np.ones((2, 3))
    first = curvature.resolvent(0.5)(values)
    assert curvature.last_shift == 0.5
    curvature.resolvent(2.0)
    np.testing.assert_array_equal(curvature.resolvent(0.5)(values), first)
