"""What the settings say about each mode, and every combination that makes no sense."""

import numpy as np
import pytest
import torch
from torch import nn

from multirel.priors import TaskRelationship, attach_prior
from tests.environment import tensor
from tests.stacks import covariances_of, prior_on, related_weight

SHAPE = (3, 4, 5)


def prior_with(**settings):
    prior, _ = prior_on(related_weight(SHAPE), **settings)
    return prior


def refuses(message, error=ValueError, **settings):
    with pytest.raises(error, match=message):
        prior_with(**settings)


def shrinkage_in_summary(**settings):
    """The weights by mode, as the summary shows them."""
    (row,) = prior_with(**settings).summary().rows
    return row.modes


WORDS = {
    "shrinkage_target": "'identity', 'constant-correlation'",
    "mean": "'zero', 'initial', 'task-average'",
    "scale": "'trace', 'free', 'determinant'",
    "covariance_update": "'logdet', 'trace'",
    "inverse": "'ridge', 'pseudo'",
    "weighting": "'equal', 'size'",
    "application": "'proximal', 'gradient'",
}


@pytest.mark.parametrize("name", WORDS)
def test_words_must_be_known(name):
    """With all that are."""
    refuses(f"`{name}` must be one of {WORDS[name]}.*: got 'nonsense'", **{name: "nonsense"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modes": ()}, "`modes` must name at least one mode: got none"),
        ({"modes": ("task", "class")}, "`modes` must be among task, .*: got 'class'"),
        ({"modes": ("task", "task")}, "`modes` must name each mode once: got task, task"),
        ({"modes": ("kernel", "width")}, "`modes` must have either 'kernel' or the axes"),
        ({"n_samples": 0}, "`n_samples` must be the number of training rows: .*, got 0"),
        ({"n_samples": float("nan")}, "`n_samples` must be .* got nan"),
        ({"n_samples": float("inf")}, "`n_samples` must be .* got inf"),
        ({"strength": -1.0}, "`strength` must be a number that is not negative: got -1"),
        ({"strength": float("nan")}, "`strength` must be a number"),
        ({"jitter": -1e-6}, "`jitter` must be a number that is not negative"),
        ({"mean_strength": -1.0}, "`mean_strength` must be a number that is not negative"),
        ({"mean_strength": 1.0}, "`mean_strength` must be 0 with mean='zero': got 1.0"),
        ({"mean": "initial", "mean_strength": 1.0}, "must be 0 with mean='initial'"),
        ({"rank": "full"}, "`rank` must be 'auto', a whole number or None: got 'full'"),
        ({"rank": 2.5}, "`rank` must be 'auto', a whole number or None: got 2.5"),
        ({"rank": 0}, "`rank` must be at least 1: got 0. None means full rank"),
        ({"n_updates": -1}, "`n_updates` must be a whole number that is not negative: got -1"),
        ({"n_updates": 1.5}, "`n_updates` must be a whole number .*: got 1.5"),
        ({"update_every": 0}, "`update_every` must be a whole number from 1: got 0"),
        ({"update_every": 2.5}, "`update_every` must be a whole number from 1: got 2.5"),
        ({"apply_every": 0}, "`apply_every` must be 'auto' or a whole number from 1: got 0"),
        ({"apply_every": 1.5}, "`apply_every` must be 'auto' or a whole number from 1: got 1.5"),
        ({"apply_every": "never"}, "`apply_every` must be 'auto' or .*: got 'never'"),
        ({"shrinkage": -0.1}, "`shrinkage` must be from 0 to 1: got -0.1 for the mode 'task'"),
        ({"shrinkage": 1.1}, "`shrinkage` must be from 0 to 1: got 1.1"),
        ({"shrinkage": float("nan")}, "`shrinkage` must be from 0 to 1: got nan"),
        ({"shrinkage": (0.1, 0.2)}, "must have one weight per mode: expected 3, got 2"),
        ({"shrinkage": (0.1, 0.2, 3.0)}, "from 0 to 1: got 3.0 for the mode 'input'"),
        ({"shrinkage": {"kernel": 0.1}}, "`shrinkage` must name modes of the prior: got kernel"),
        ({"start": 1.0}, "`start` must be a correlation that 3 tasks can have"),
    ],
)
def test_values_must_make_sense(settings, message):
    """Each with its value in the error."""
    refuses(message, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"application": "gradient", "apply_every": 1}, "`apply_every` must be 'auto' with app"),
        ({"scale": "free", "shrinkage": 0.0}, "`shrinkage` must be None with scale='free'"),
        ({"scale": "free", "shrinkage": 0.1}, "paper's literal form: got 0.1. Use scale='trace'"),
        ({"scale": "free", "jitter": 0.0}, "`jitter` must be above 0 with scale='free'"),
        (
            {"scale": "free", "covariance_update": "trace"},
            "`covariance_update='trace'` needs scale='trace': got scale='free'",
        ),
        (
            {"scale": "determinant", "covariance_update": "trace"},
            "`covariance_update='trace'` needs scale='trace': got scale='determinant'",
        ),
        (
            {"scale": "free", "shrinkage_target": "constant-correlation"},
            "`shrinkage_target` must be 'identity' with scale='free'",
        ),
        (
            {"scale": "determinant", "shrinkage_target": "constant-correlation"},
            "`shrinkage_target` must be 'identity' with scale='determinant'",
        ),
        ({"scale": "determinant", "rank": 2}, "`rank` must be 'auto' or None with scale='det"),
        ({"covariance_update": "trace", "rank": 2}, "`rank` must be 'auto' or None .*: got 2"),
        ({"inverse": "pseudo", "shrinkage": 0.1}, "`shrinkage` must be left alone with inverse"),
        (
            {"inverse": "pseudo", "shrinkage_target": "constant-correlation"},
            "`shrinkage_target` must be left alone with inverse='pseudo'",
        ),
        ({"inverse": "pseudo", "scale": "determinant"}, "`scale` must be left alone with inverse"),
        (
            {"inverse": "pseudo", "covariance_update": "trace"},
            "`covariance_update` must be left alone with inverse='pseudo'",
        ),
        ({"inverse": "pseudo", "rank": 2}, "`rank` must be left alone with inverse='pseudo'"),
        ({"inverse": "pseudo", "jitter": 0.1}, "`jitter` must be left alone with inverse='pseudo'"),
        ({"weighting": "size"}, "`weighting` must be 'equal' unless layers share a task cov"),
        (
            {"modes": ("output",), "share_task_covariance": True},
            "`share_task_covariance` must be False where the task mode is off",
        ),
        (
            {"shrinkage": {"task": 1.0}, "share_task_covariance": True},
            "`share_task_covariance` must be False where the task mode is off",
        ),
        (
            {"scale": "free", "share_task_covariance": True},
            "`weighting` must be 'size' with scale='free' and a shared task covariance",
        ),
        ({"modes": ("output",), "start": 0.3}, "`start` must be left alone where the task mode"),
        ({"shrinkage": {"task": 1}, "start": 0.3}, "`start` must be left alone where the task"),
        ({"modes": ("output",), "start": torch.eye(3)}, "`start` must be left alone where the"),
    ],
)
def test_combinations_must_make_sense(settings, message):
    """What would be accepted and ignored says so."""
    refuses(message, **settings)


def test_a_single_name_is_no_sequence_of_modes():
    """It would be taken letter by letter."""
    refuses(r"`modes` must be a sequence of names: got 'task'", TypeError, modes="task")


def test_rule_of_the_released_code_is_a_preset_only():
    """`attach_prior` knows two updates."""
    with pytest.raises(
        ValueError, match="`covariance_update` must be one of 'logdet', 'trace': got"
    ):
        prior_with(modes=("task",), covariance_update="released-code")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "task 0.1, output 0.95, input 0.95"),
        ({"modes": ("task",)}, "task 0.1"),
        ({"modes": ("input", "task")}, "task 0.1, input 0.95"),
        ({"shrinkage": 0.3}, "task 0.3, output 0.3, input 0.3"),
        ({"shrinkage": (0.1, 0.2, 0.3)}, "task 0.1, output 0.2, input 0.3"),
        (
            {"modes": ("input", "output", "task"), "shrinkage": [0.1, 0.2, 0.3]},
            "task 0.3, output 0.2, input 0.1",
        ),
        ({"shrinkage": {"task": 0.4}}, "task 0.4, output 0.95, input 0.95"),
        ({"shrinkage": {"input": 0.4}}, "task 0.1, output 0.95, input 0.4"),
        ({"shrinkage": {"output": 1.0}}, "task 0.1, input 0.95"),
        ({"scale": "free"}, "task 0, output 0, input 0"),
        ({"inverse": "pseudo"}, "task 0, output 0, input 0"),
        ({"scale": "determinant"}, "task 0.1, output 0.95, input 0.95"),
    ],
)
def test_shrinkage_is_one_number_or_one_per_mode(settings, expected):
    """None is .1 for tasks and .95 elsewhere; 1 switches a mode off; sequences follow `modes`."""
    assert shrinkage_in_summary(**settings) == expected


@pytest.mark.parametrize(
    "settings", [{"modes": ("output",)}, {"shrinkage": {"task": 1, "input": 1}}]
)
def test_modes_that_are_off_are_the_identity(settings):
    """Also after an update."""
    prior = prior_with(**settings)
    prior.update()
    task, output, inputs = covariances_of(prior)
    np.testing.assert_array_equal(task, np.eye(3))
    np.testing.assert_array_equal(inputs, np.eye(5))
    assert np.abs(output - np.eye(4)).max() > 1e-3


@pytest.mark.parametrize(
    ("shape", "settings", "expected"),
    [
        ((2, 600, 3), {}, "full, 64, full"),
        ((2, 3, 512), {}, "full, full, full"),
        ((2, 3, 513), {}, "full, full, 64"),
        ((1001, 1, 2), {}, "64, full, full"),
        ((1000, 1, 2), {}, "full, full, full"),
        ((2, 3, 513), {"rank": None}, "full, full, full"),
        ((2, 3, 513), {"rank": 5}, "full, full, 5"),
        ((4, 5, 6), {"rank": 5}, "full, full, 5"),
        ((2, 3, 513), {"scale": "free"}, "full, full, 64"),
        ((2, 3, 513), {"scale": "determinant"}, "full, full, full"),
        ((2, 3, 513), {"covariance_update": "trace"}, "full, full, full"),
        ((2, 3, 513), {"inverse": "pseudo"}, "full, full, full"),
    ],
)
def test_rank_is_low_for_large_modes(shape, settings, expected):
    """64 above 512 outputs or inputs and above 1000 tasks, unless all eigenvalues are needed."""
    prior, _ = prior_on(related_weight(shape), dtype=torch.float32, **settings)
    (row,) = prior.summary().rows
    assert row.rank == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0.3, 0.3),
        (0, 0.0),
        (-0.4, -0.4),
        (np.float64(0.3), 0.3),
        (torch.tensor(0.25), 0.25),
        (np.full((3, 3), 0.3) + 0.7 * np.eye(3), 0.3),
        (2 * np.full((3, 3), 0.3) + 1.4 * np.eye(3), 0.3),
        ([[1.0, 0.3, 0.3], [0.3, 1.0, 0.3], [0.3, 0.3, 1.0]], 0.3),
    ],
)
def test_start_is_a_number_or_a_matrix_of_any_library(start, expected):
    """Matrices are brought to unit diagonal."""
    prior = prior_with(start=start)
    correlations = (1 - expected) * np.eye(3) + expected
    np.testing.assert_allclose(prior.correlations("a", raw=True), correlations, atol=1e-6)


def test_start_may_be_a_tensor_of_any_precision():
    """Also of one that asks for gradients."""
    matrix = torch.eye(3, dtype=torch.float16).requires_grad_()
    np.testing.assert_array_equal(prior_with(start=matrix).correlations("a", raw=True), np.eye(3))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (-0.5, "more than -0.5 and less than 1, got -0.5"),
        (float("nan"), "`start` must be a correlation that 3 tasks can have with one another"),
        (np.eye(2), r"expected shape \(3, 3\), got \(2, 2\)"),
        (np.ones(3), r"expected shape \(3, 3\), got \(3,\)"),
        (np.ones((3, 3)), "`start` .*must be positive definite"),
        (np.full((3, 3), np.nan), "`start` must .*finite"),
        (np.triu(np.ones((3, 3))) + np.eye(3), "`start` must be symmetric"),
    ],
)
def test_start_must_be_a_correlation(start, message):
    """Positive definite for as many tasks as there are."""
    refuses(message, start=start)


def test_relationships_hold_the_settings_of_the_task_mode():
    """What is given twice must agree."""
    clashes = [
        ({"shrinkage": 0.3}, "`shrinkage` must be left to the shared TaskRelationship: got 0.3"),
        ({"shrinkage": {"task": 0.3}}, "`shrinkage` must be left to the shared TaskRelationship"),
        ({"start": 0.3}, "`start` must be left to the shared TaskRelationship: got 0.3"),
        ({"start": np.eye(3)}, "`start` must be left to the shared TaskRelationship"),
        ({"weighting": "size"}, "`weighting` must be left to the shared TaskRelationship"),
        ({"modes": ("output",)}, "must be False where the task mode is off"),
        ({"scale": "free"}, "`weighting` must be 'size' with scale='free'"),
        ({"inverse": "pseudo"}, "`shrinkage` of the shared TaskRelationship must be 0 with"),
    ]
    for settings, message in clashes:
        refuses(message, share_task_covariance=TaskRelationship(3, shrinkage=0.2), **settings)
    refuses(
        "`shrinkage` of the shared TaskRelationship must be 0 with scale='free'",
        share_task_covariance=TaskRelationship(3, weighting="size"),
        scale="free",
    )
    refuses(
        "`shrinkage` of a TaskRelationship must be below 1",
        share_task_covariance=TaskRelationship(3, shrinkage=1.0),
    )


def test_relationships_leave_the_shrinkage_of_other_modes_alone():
    """A mapping without "task" is no clash, and neither is the same number."""
    for shrinkage in ({"output": 0.5}, {"task": 0.2, "output": 0.5}):
        prior = prior_with(
            share_task_covariance=TaskRelationship(3, shrinkage=0.2), shrinkage=shrinkage
        )
        (row,) = prior.summary().rows
        assert row.modes == "task 0.2, output 0.5, input 0.95"


def test_relationships_have_the_tasks_of_the_network():
    """In number, in names and in order; numbers fit any names."""
    weight = related_weight(SHAPE)
    names = ["0", "1", "2"]
    prior_on(weight, share_task_covariance=TaskRelationship(names))
    prior_on(weight, share_task_covariance=TaskRelationship(["x", "y", "z"]))
    with pytest.raises(ValueError, match="must have the tasks of the network: expected 3"):
        prior_on(weight, share_task_covariance=TaskRelationship(4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": 1}, "`tasks` must be at least two to have a correlation: got 1"),
        ({"tasks": []}, "`tasks` must be at least two to have a correlation: got 0"),
        ({"tasks": 3, "shrinkage": 1.5}, "`shrinkage` must be from 0 to 1: got 1.5"),
        ({"tasks": 3, "weighting": "none"}, "`weighting` must be 'equal' or 'size': got 'none'"),
        ({"tasks": 3, "start": -0.6}, "`start` must be a correlation that 3 tasks can have"),
        ({"tasks": 3, "start": tensor(np.eye(2))}, r"expected shape \(3, 3\), got \(2, 2\)"),
    ],
)
def test_relationships_check_their_own_settings(arguments, message):
    """At construction."""
    with pytest.raises(ValueError, match=message):
        TaskRelationship(**arguments)


@pytest.mark.parametrize("name", ["n_samples", "strength", "jitter", "mean_strength", "start"])
@pytest.mark.parametrize("value", ["1", "x", None])
def test_numbers_are_numbers(name, value):
    refuses(f"`{name}` must be a number.*: got {value!r}", TypeError, **{name: value})


@pytest.mark.parametrize("name", ["n_samples", "strength"])
@pytest.mark.parametrize("value", [[1.0, 2.0], np.ones(3)])
def test_numbers_per_copy_are_tensors(name, value):
    refuses(f"`{name}` must be a number.* A tensor holds one per copy", TypeError, **{name: value})


@pytest.mark.parametrize("value", ["auto", {"task": "x"}, np.full(3, 0.1), [0.1, 0.2, None]])
def test_weights_of_targets_are_numbers(value):
    refuses("`shrinkage` must be a number.*: got", TypeError, shrinkage=value)


@pytest.mark.parametrize("value", [None, 5])
def test_modes_are_a_sequence(value):
    refuses("`modes` must be a sequence of names: got", TypeError, modes=value)


def test_sharing_is_a_yes_a_no_or_a_relationship():
    network = nn.ModuleDict({name: nn.Linear(3, 2) for name in ("x", "y")})
    with pytest.raises(TypeError, match="True, False or a TaskRelationship: got 'yes'"):
        attach_prior(network, "*", n_samples=10, share_task_covariance="yes")
