import numpy as np
import pytest

from multirel.estimators._linear import Design
from multirel.estimators._linear._spectral_curvature import TaskCurvature
from multirel.estimators._linear._spectral_splitting import (
    QuadraticModel,
    SplitPoint,
    balanced_weight,
    minimize_model,
)
from multirel.estimators._linear._trace_norm_penalty import TraceNormPenalty


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    design = Design(x, np.arange(0, 61, 10))
    curvature = TaskCurvature(design, np.ones(60), np.arange(6))
    y = y - np.repeat(y.reshape(6, 10).mean(axis=1), 10)
    return QuadraticModel(
        curvature=curvature,
        linear=design.pull_back(y[:, None])[:, 0],
        constants=design.sums(y[:, None] ** 2)[:, 0] / 2,
    )


@pytest.mark.parametrize("weight", [1e-2, 1.0, 1e3])
def test_any_weight_leads_to_the_same_minimum(model, weight):
    start = SplitPoint(blocks=np.zeros((1, 6, 5)), slopes=model.linear[None], weight=weight)
    found = minimize_model(
        model, TraceNormPenalty(strength=0.1), start=start, absolute=1e-10, relative=0.0
    )
    slopes = model.curvature.times(found.blocks[0]) - model.linear
    left, values, right = np.linalg.svd(found.blocks[0], full_matrices=False)
    inside = values > 1e-9
    # At the minimum −slopes = 2 γ ‖W‖_* (U Vᵀ + a part of norm ≤ 1 that is orthogonal to it).
    dual = -slopes / (0.2 * values.sum())
    assert np.linalg.norm(dual, 2) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(
        left[:, inside].T @ dual @ right[inside].T, np.eye(inside.sum()), atol=1e-4
    )


def test_a_solution_needs_one_check(model):
    penalty = TraceNormPenalty(strength=0.1)
    start = SplitPoint(blocks=np.zeros((1, 6, 5)), slopes=model.linear[None], weight=1.0)
    first = minimize_model(model, penalty, start=start, absolute=1e-10, relative=0.0)
    again = minimize_model(model, penalty, start=first, absolute=1e-8, relative=0.0)
    assert again.n_iterations == 1


def test_the_weight_goes_to_the_ratio_of_lengths_but_not_too_far():
    ones = np.ones((1, 2, 2))
    assert balanced_weight(3 * ones, ones, weight=1.0) == pytest.approx(3)
    assert balanced_weight(1e9 * ones, ones, weight=1.0) == pytest.approx(100)
    assert balanced_weight(ones, 1e9 * ones, weight=1.0) == pytest.approx(0.01)
    assert balanced_weight(ones, 0 * ones, weight=7.0) == 7
