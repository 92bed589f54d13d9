import numpy as np
import pytest

from multirel.estimators._linear._spectral_values import (
    largest_singular_value,
    map_singular_values,
    shrink_by_squared_sum,
    singular_values,
)


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (4, 4)])
def test_singular_values_change_and_their_vectors_do_not(shape):
    matrix = np.random.default_rng(0).normal(size=shape)
    left, old, right = np.linalg.svd(matrix, full_matrices=False)
    found, new = map_singular_values(matrix, lambda values: np.maximum(values - 1.0, 0))
    np.testing.assert_allclose(new, np.maximum(old - 1, 0), atol=1e-12)
    np.testing.assert_allclose(found, (left * np.maximum(old - 1, 0)) @ right, atol=1e-12)


def test_the_largest_singular_value_is_the_operator_norm():
    matrix = np.random.default_rng(0).normal(size=(5, 9))
    assert largest_singular_value(matrix) == pytest.approx(np.linalg.norm(matrix, 2))
    assert singular_values(matrix)[0] == pytest.approx(np.linalg.norm(matrix, 2))


def test_nothing_has_no_singular_values():
    assert largest_singular_value(np.zeros((0, 3))) == 0
    assert len(singular_values(np.zeros((3, 0)))) == 0


@pytest.mark.parametrize("strength", [0.0, 0.01, 0.3, 5.0])
def test_shrunk_values_are_better_than_all_others_nearby(strength):
    rng = np.random.default_rng(1)
    values = np.sort(rng.exponential(size=6))[::-1]

    def objective(s):
        return 0.5 * ((s - values) ** 2).sum() + strength * s.sum() ** 2

    best = shrink_by_squared_sum(values, strength=strength)
    for _ in range(300):
        other = np.maximum(best + 1e-3 * rng.normal(size=6), 0)
        assert objective(best) <= objective(other) + 1e-15
