import numpy as np
import pytest
from scipy.linalg import sqrtm

from multirel.estimators._linear import Coordinates
from multirel.estimators._linear._spectral_relations import trace_norm_relations


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("mode", ["task", "input"])
def test_covariances_are_roots_of_products_with_the_trace_of_the_mode(mode, n_outputs):
    weights = np.random.default_rng(0).normal(size=(4, n_outputs, 6))
    size = 4 if mode == "task" else 6
    relations = trace_norm_relations(weights, np.ones(4, bool), mode=mode, n_features=6)
    expected = np.zeros((size, size))
    for c in range(n_outputs):
        w = weights[:, c] if mode == "task" else weights[:, c].T
        root = np.real(sqrtm(w @ w.T))
        expected += size * root / np.trace(root) / n_outputs
    np.testing.assert_allclose(getattr(relations, mode).dense(), expected, atol=1e-6)
    assert np.trace(getattr(relations, mode).dense()) == pytest.approx(size)


def test_coordinates_in_a_span_count_all_features():
    weights = np.random.default_rng(0).normal(size=(4, 1, 2))
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 2)))[0]
    coordinates = Coordinates(center=np.zeros(6), scale=np.ones(6), basis=basis)
    found = trace_norm_relations(weights, np.ones(4, bool), mode="input", n_features=6)
    direct = trace_norm_relations(weights @ basis.T, np.ones(4, bool), mode="input", n_features=6)
    np.testing.assert_allclose(
        found.in_features(coordinates).input.dense(), direct.input.dense(), atol=1e-12
    )


def test_weights_of_zero_have_the_identity():
    relations = trace_norm_relations(
        np.zeros((3, 1, 2)), np.ones(3, bool), mode="task", n_features=2
    )
    np.testing.assert_array_equal(relations.task.dense(), np.eye(3))
