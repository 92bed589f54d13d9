import numpy as np
import pytest
from numpy.testing import assert_allclose

from multirel.estimators._linear._learned_prior import LearnedPrior
from tests.reference import prior as reference
from tests.unit.estimators.linear.learned_priors import SETTINGS, problem_of


def prior_of(problem, **settings):
    return LearnedPrior(problem, strength=2.0, settings={**SETTINGS, **settings})


def equicorrelation(size, correlation):
    return (1 - correlation) * np.eye(size) + correlation


def test_the_first_penalty_has_the_start_as_its_task_correlation():
    problem = problem_of(4, 2, 3)

    penalty = prior_of(problem, start=0.3).penalty()

    assert penalty.strength == 2.0 / problem.n_samples
    assert_allclose(penalty.task.dense(4), np.linalg.inv(equicorrelation(4, 0.3)), atol=1e-12)
    assert_allclose(penalty.output.dense(2), np.eye(2))
    assert_allclose(penalty.input.dense(3), np.eye(3))


@pytest.mark.parametrize("shape", [(3, 2, 4), (6, 1, 3), (3, 1, 20), (2, 3, 2)])
def test_an_update_is_one_sweep_over_the_modes(shape):
    problem = problem_of(*shape)
    weights = np.random.default_rng(0).standard_normal(shape)
    prior = prior_of(problem, shrinkage=(0.1, 0.4, 0.7))

    prior.update(weights)

    steps = [
        lambda s, a=a: reference.trace_scaled(s, shrinkage=a, jitter=1e-6) for a in (0.1, 0.4, 0.7)
    ]
    start = [equicorrelation(shape[0], 0.5), np.eye(shape[1]), np.eye(shape[2])]
    expected = reference.sweep(weights, start, steps)
    for factors, matrix in zip(prior.covariances().values(), expected, strict=True):
        assert_allclose(factors.dense(), matrix, atol=1e-10)
    penalty = prior.penalty()
    for mode, matrix in zip(penalty.modes, expected, strict=True):
        assert_allclose(mode.dense(len(matrix)), np.linalg.inv(matrix), atol=1e-8)


def test_a_task_alone_has_outputs_and_inputs_to_relate():
    problem = problem_of(1, 3, 4)
    weights = np.random.default_rng(0).standard_normal((1, 3, 4))
    prior = prior_of(problem, shrinkage={"task": 0.2, "output": 0.3, "input": 0.4})

    prior.update(weights)

    steps = [
        None,
        lambda s: reference.trace_scaled(s, shrinkage=0.3, jitter=1e-6),
        lambda s: reference.trace_scaled(s, shrinkage=0.4, jitter=1e-6),
    ]
    expected = reference.sweep(weights, [np.eye(1), np.eye(3), np.eye(4)], steps)
    for factors, matrix in zip(prior.covariances().values(), expected, strict=True):
        assert_allclose(factors.dense(), matrix, atol=1e-10)


@pytest.mark.parametrize(
    "settings", [{"modes": ("task",)}, {"modes": ("task",), "scale": "free"}, {"scale": "free"}]
)
def test_settings_of_tasks_do_not_disturb_a_task_alone(settings):
    prior = prior_of(problem_of(1, 1, 4), **settings)

    prior.update(np.ones((1, 1, 4)))

    assert prior.penalty().task.dense(1).tolist() == [[1.0]]


def test_a_sequence_of_shrinkages_keeps_its_order_for_a_task_alone():
    weights = np.random.default_rng(0).standard_normal((1, 2, 3))
    priors = [
        prior_of(problem_of(1, 2, 3), shrinkage=shrinkage)
        for shrinkage in ((0.2, 0.3, 0.4), {"output": 0.3, "input": 0.4})
    ]
    for prior in priors:
        prior.update(weights)

    one, other = (prior.covariances() for prior in priors)
    assert all(np.array_equal(one[mode].dense(), other[mode].dense()) for mode in one)


@pytest.mark.parametrize(
    ("settings", "jitter"), [({"scale": "free", "jitter": 0.1}, 0.1), ({"n_updates": 0}, 0.0)]
)
def test_log_terms_are_those_of_the_objective(settings, jitter):
    shape = (3, 2, 4)
    problem = problem_of(*shape)
    prior = prior_of(problem, **settings)
    if jitter:
        prior.update(np.random.default_rng(0).standard_normal(shape))

    covariances = [factors.dense() for factors in prior.covariances().values()]
    expected = 2.0 / problem.n_samples / 2 * reference.log_terms(covariances, jitter)
    assert_allclose(prior.log_terms(), expected, rtol=1e-9)


def test_an_exact_rank_changes_nothing():
    problem = problem_of(3, 1, 40)
    weights = np.random.default_rng(0).standard_normal((3, 1, 40))
    priors = [prior_of(problem, rank=rank) for rank in ("auto", None)]
    for prior in priors:
        prior.update(weights)

    assert priors[0].penalty().input.basis.shape[1] < 40
    one, other = (prior.covariances() for prior in priors)
    for mode in one:
        assert_allclose(one[mode].dense(), other[mode].dense(), atol=1e-10)
