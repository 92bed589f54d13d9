"""Simulated tasks follow the distribution that they are said to come from."""

import numpy as np
import pytest

from multirel.data import make_related_tasks
from multirel.exceptions import NotPositiveDefiniteError


def blocks(n_blocks: int, size: int, within: float) -> np.ndarray:
    inside = (1 - within) * np.eye(size) + within
    return np.kron(np.eye(n_blocks), inside)


def test_shapes_names_and_kinds_are_as_documented():
    data = make_related_tasks(3, [5, 0, 7], 4, n_classes=6)
    assert data.X.shape == (12, 4)
    assert data.y.shape == data.tasks.shape == (12,)
    assert data.task_names == ("task 1", "task 2", "task 3")
    assert data.n_rows_per_task == {"task 1": 5, "task 2": 0, "task 3": 7}
    assert data.kind == "classification"
    assert data.class_names == (0, 1, 2, 3, 4, 5)
    assert data.feature_names == ("x1", "x2", "x3", "x4")
    assert data.true_weights.shape == (3, 6, 4)
    assert data.true_intercepts.shape == (3, 6)
    regression = make_related_tasks(3, 5, 4)
    assert (regression.kind, regression.class_names) == ("regression", None)
    assert regression.true_weights.shape == (3, 1, 4)


def test_the_seed_decides_everything():
    one, same, other = (make_related_tasks(3, 5, 4, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.y, same.y)
    assert not np.array_equal(one.X, other.X)


def test_weights_have_the_covariances_of_every_mode():
    """Moments over 4000 draws: E W_(k) W_(k)ᵀ is Σ_k times the traces of the others."""
    given = {
        "task": blocks(2, 2, 0.9),
        "output": np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]),
        "input": np.array([[1.0, -0.6], [-0.6, 1]]),
    }
    draws = np.stack(
        [
            make_related_tasks(4, 1, 2, n_classes=3, covariances=given, seed=seed).true_weights
            for seed in range(4000)
        ]
    )
    for mode, matrix in enumerate(given.values()):
        rows = np.moveaxis(draws, mode + 1, 1).reshape(len(draws), len(matrix), -1)
        found = np.einsum("nir,njr->ij", rows, rows)
        np.testing.assert_allclose(
            found / np.trace(found), matrix / np.trace(matrix), atol=0.02, rtol=0
        )


def test_without_covariances_tasks_have_the_correlation():
    data = make_related_tasks(3, 2, 4, correlation=0.3)
    np.testing.assert_allclose(data.true_covariances["task"], 0.7 * np.eye(3) + 0.3)
    np.testing.assert_array_equal(data.true_covariances["output"], np.eye(1))
    np.testing.assert_array_equal(data.true_covariances["input"], np.eye(4))


def scores_of(data) -> np.ndarray:
    number = np.array([data.task_names.index(name) for name in data.tasks])
    weights, intercepts = data.true_weights[number], data.true_intercepts[number]
    return np.einsum("noi,ni->no", weights, data.X) + intercepts


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_numbers_have_errors_of_the_size_of_the_noise(noise: float):
    data = make_related_tasks(3, 2000, 4, noise=noise)
    errors = data.y - scores_of(data)[:, 0]
    assert np.std(errors) == pytest.approx(noise, rel=0.03, abs=1e-12)


def test_classes_without_noise_are_the_largest_scores():
    data = make_related_tasks(3, 200, 4, n_classes=5, noise=0.0)
    np.testing.assert_array_equal(data.y, scores_of(data).argmax(axis=1))


def test_classes_with_noise_one_follow_the_multinomial_logit_model():
    """Their average probability under the model is that of draws from it."""
    data = make_related_tasks(2, 20_000, 3, n_classes=3)
    scores = np.exp(scores_of(data))
    probabilities = scores / scores.sum(axis=1, keepdims=True)
    drawn = probabilities[np.arange(len(data)), data.y].mean()
    assert drawn == pytest.approx((probabilities**2).sum(axis=1).mean(), abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((0, 5, 4), {}, "`n_tasks` must be at least 1: got 0"),
        ((3, [5, 5], 4), {}, "one per task: expected 3, got 2"),
        ((3, 0, 4), {}, "at least one row"),
        ((3, [5, -1, 4], 4), {}, "no task fewer than none"),
        ((3, 5, 0), {}, "`n_features` must be at least 1: got 0"),
        ((3, 5, 4), {"n_classes": 1}, "`n_classes` must be at least 2: got 1. None makes"),
        ((3, 5, 4), {"noise": -1.0}, "`noise` must not be negative: got -1.0"),
        ((3, 5, 4), {"covariances": {"kernel": np.eye(3)}}, "expected some of task, output, input"),
        ((3, 5, 4), {"covariances": {"task": np.eye(4)}}, r"expected shape \(3, 3\), got \(4, 4\)"),
    ],
)
def test_numbers_that_make_no_tasks_are_refused(arguments, settings, message: str):
    with pytest.raises(ValueError, match=message):
        make_related_tasks(*arguments, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"correlation": 1.0},
            "`correlation` must be symmetric and positive definite .*'task' of size 3",
        ),
        ({"correlation": -0.6}, "a smallest eigenvalue of -0.2"),
        (
            {"covariances": {"input": -np.eye(4)}},
            "`covariances` must be .* the mode 'input' of size 4",
        ),
        ({"covariances": {"input": np.triu(np.ones((4, 4)))}}, "got another matrix"),
        ({"covariances": {"input": np.full((4, 4), np.nan)}}, "got another matrix"),
    ],
)
def test_matrices_that_are_no_covariances_are_refused(settings, message: str):
    with pytest.raises(NotPositiveDefiniteError, match=message):
        make_related_tasks(3, 5, 4, **settings)
