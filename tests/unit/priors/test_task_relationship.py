"""One task covariance for several layers, in one prior or in several, against formulas by hand."""

import numpy as np
import pytest
import torch

from multirel.priors import TaskRelationship
from tests.environment import array, assert_close
from tests.reference import prior as reference
from tests.stacks import covariances_of, prior_on, related_weight, set_weight

SHAPES = [(3, 4, 5), (3, 2, 2)]
FACTOR = 10.0


def weights():
    """A large layer and a small one with another scale and other relations."""
    return [related_weight(SHAPES[0]), 20 * related_weight(SHAPES[1], 5)]


def scatters():
    return [
        reference.scatter(weight, [np.eye(size) for size in weight.shape], 0)
        for weight in weights()
    ]


def test_equal_weighting_averages_normalized_scatters():
    """Σ_T from the mean over layers of S_T / tr S_T, shrunk and brought to trace T."""
    prior, _ = prior_on(*weights(), modes=("task",), share_task_covariance=True)
    prior.update()
    average = sum(matrix / np.trace(matrix) for matrix in scatters()) / 2
    expected = reference.trace_scaled(average, shrinkage=0.1, jitter=1e-6)
    for layer in "ab":
        assert_close(covariances_of(prior, layer)[0], expected, factor=FACTOR)


def test_size_weighting_is_the_exact_minimizer():
    """Σ_T = Σ D_ℓ S_ℓ / Σ D_ℓ + εI with a free scale: the objective has no slope there."""
    prior, _ = prior_on(
        *weights(),
        modes=("task",),
        scale="free",
        jitter=0.1,
        share_task_covariance=True,
        weighting="size",
    )
    prior.update()
    sizes = [np.prod(shape) for shape in SHAPES]
    parts = [size * matrix for size, matrix in zip(sizes, scatters(), strict=True)]
    expected = sum(parts) / sum(sizes) + 0.1 * np.eye(3)
    for layer in "ab":
        assert_close(covariances_of(prior, layer)[0], expected, factor=FACTOR)

    def objective(matrix):
        total = 0.0
        for weight in weights():
            precisions = [np.linalg.inv(matrix), *(np.eye(size) for size in weight.shape[1:])]
            others = [np.eye(size) for size in weight.shape[1:]]
            logs = reference.log_terms([matrix], jitter=0.1) * weight[0].size
            total += reference.half_distance(weight, precisions) + logs / 2
            assert reference.log_terms(others) == 0
        return total

    rng = np.random.default_rng(0)
    for _ in range(10):
        shift = rng.standard_normal((3, 3))
        assert objective(expected) < objective(expected + 1e-3 * (shift + shift.T))


def test_large_layers_outvote_small_ones_by_size_only():
    """What the two weightings are for."""
    rng = np.random.default_rng(0)
    large = np.broadcast_to(rng.standard_normal((1, 20, 50)), (2, 20, 50)).copy()
    small = np.stack([np.ones((2, 2)), -np.ones((2, 2))])
    found = {}
    for weighting in ("equal", "size"):
        prior, _ = prior_on(
            large,
            small,
            modes=("task",),
            share_task_covariance=True,
            weighting=weighting,
            shrinkage=0.0,
            mean="zero",
        )
        prior.update()
        found[weighting] = prior.correlations("b", raw=True)[0, 1]
    assert abs(found["equal"]) < 1e-4
    assert found["size"] > 0.98


def test_two_priors_share_one_relationship():
    """With strengths and settings of their own; an update of either counts the layers of both."""
    relationship = TaskRelationship(3, start=0.3, shrinkage=0.2)
    one, other = weights()
    settings = {"modes": ("task",), "share_task_covariance": relationship}
    first, _ = prior_on(one, **settings)
    assert relationship.covariance is not None
    second, _ = prior_on(other, strength=7.0, application="gradient", **settings)
    assert_close(covariances_of(second)[0], 0.7 * np.eye(3) + 0.3)
    first.update()
    average = sum(matrix / np.trace(matrix) for matrix in scatters()) / 2
    expected = reference.trace_scaled(average, shrinkage=0.2, jitter=1e-6)
    for prior in (first, second):
        assert_close(covariances_of(prior)[0], expected, factor=FACTOR)
    deviation = np.sqrt(np.diag(expected))
    assert_close(relationship.correlations(), expected / np.outer(deviation, deviation), factor=10)


def test_size_weighting_of_two_priors_counts_their_strengths():
    """λ_ℓ D_ℓ S_ℓ / Σ λ_ℓ D_ℓ, with λ/N of each prior."""
    relationship = TaskRelationship(3, shrinkage=0.0, weighting="size")
    settings = {"modes": ("task",), "scale": "free", "jitter": 0.1}
    settings["share_task_covariance"] = relationship
    first, _ = prior_on(weights()[0], strength=2.0, n_samples=10, **settings)
    prior_on(weights()[1], strength=3.0, n_samples=60, **settings)
    first.update()
    shares = [2 / 10 * np.prod(SHAPES[0]), 3 / 60 * np.prod(SHAPES[1])]
    parts = [share * matrix for share, matrix in zip(shares, scatters(), strict=True)]
    expected = sum(parts) / sum(shares) + 0.1 * np.eye(3)
    assert_close(covariances_of(first)[0], expected, factor=FACTOR)


def test_other_modes_are_learned_layer_by_layer():
    """After the shared task covariance, and whitened by it."""
    prior, _ = prior_on(*weights(), share_task_covariance=True)
    prior.update()
    task = covariances_of(prior)[0]
    for layer, weight in zip("ab", weights(), strict=True):
        precisions = [np.linalg.inv(task), *(np.eye(size) for size in weight.shape[1:])]
        expected = reference.trace_scaled(
            reference.scatter(weight, precisions, 1), shrinkage=0.95, jitter=1e-6
        )
        assert_close(covariances_of(prior, layer)[1], expected, factor=FACTOR)


def test_priors_that_estimate_differently_cannot_share():
    """One scale, one update, one target."""
    relationship = TaskRelationship(3, shrinkage=0.2)
    prior_on(weights()[0], share_task_covariance=relationship)
    message = "`share_task_covariance` must join priors of one"
    for settings in (
        {"scale": "determinant"},
        {"covariance_update": "trace"},
        {"shrinkage_target": "constant-correlation"},
        {"jitter": 1e-2},
        {"rank": 1},
    ):
        with pytest.raises(ValueError, match=message):
            prior_on(weights()[1], share_task_covariance=relationship, **settings)


@pytest.mark.parametrize(
    ("shapes", "settings", "message"),
    [
        ([(3, 2, 2), (3, 2, 2)], {"scale": "determinant"}, "must join priors of one"),
        ([(3, 2, 2), (2, 2, 2)], {}, "must have the tasks of the network: expected 2"),
    ],
)
def test_a_prior_that_could_not_join_leaves_the_relationship_alone(shapes, settings, message):
    """Neither its layers nor its covariance change, also if only the second layer does not fit."""
    relationship = TaskRelationship(3, start=0.3)
    prior, _ = prior_on(weights()[0], share_task_covariance=relationship, modes=("task",))
    with pytest.raises(ValueError, match=message):
        prior_on(
            *[related_weight(shape, seed) for seed, shape in enumerate(shapes)],
            share_task_covariance=relationship,
            **settings,
        )
    prior.update()
    alone, _ = prior_on(
        weights()[0], share_task_covariance=TaskRelationship(3, start=0.3), modes=("task",)
    )
    alone.update()
    assert_close(covariances_of(prior)[0], covariances_of(alone)[0])


def test_relationships_before_any_layer_have_the_start():
    """As tensors."""
    relationship = TaskRelationship(["x", "y"], start=0.3)
    assert relationship.tasks == ("x", "y")
    assert relationship.covariance is None
    assert isinstance(relationship.correlations(), torch.Tensor)
    assert_close(relationship.correlations(), [[1, 0.3], [0.3, 1]])


def test_layers_of_zeros_have_no_vote():
    """A layer that starts at zero says nothing about the tasks."""
    prior, network = prior_on(
        weights()[0], np.zeros(SHAPES[1]), modes=("task",), share_task_covariance=True
    )
    prior.update()
    expected = reference.trace_scaled(scatters()[0], shrinkage=0.1, jitter=1e-6)
    assert_close(covariances_of(prior, "b")[0], expected, factor=FACTOR)
    set_weight(network, np.zeros(SHAPES[0]))
    prior.update()
    assert_close(covariances_of(prior)[0], expected, factor=FACTOR)


def test_the_shared_penalty_is_the_sum_over_layers():
    """Each with the one Σ_T."""
    prior, _ = prior_on(*weights(), share_task_covariance=True)
    prior.update()
    expected = 0.0
    for layer, weight in zip("ab", weights(), strict=True):
        precisions = [np.linalg.inv(matrix) for matrix in covariances_of(prior, layer)]
        expected += reference.half_distance(weight, precisions) / 10
    np.testing.assert_allclose(array(prior()).item(), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("tasks", "error", "message"),
    [
        (["a", "a"], ValueError, "one name per task: got 'a' more than once"),
        ("ab", TypeError, "got str. Use a list of names"),
        (2.5, TypeError, "a number of tasks or their names: got float"),
    ],
)
def test_names_of_tasks_must_be_names(tasks, error, message):
    with pytest.raises(error, match=message):
        TaskRelationship(tasks)
