"""Recipes: rates, steps, presets, and settings that make no sense."""

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from multirel.training import Recipe


def test_rates_fall_as_their_decay_says():
    recipe = Recipe(learning_rate=0.1)
    assert [recipe.rate_at(p) for p in (0, 1)] == [0.1, 0.1 * 11**-0.75]
    assert Recipe(learning_rate=0.1, decay="constant").rate_at(0.7) == 0.1
    cosine = Recipe(learning_rate=0.1, decay="cosine")
    assert [cosine.rate_at(p) for p in (0, 0.5, 1)] == pytest.approx([0.1, 0.05, 0])


def test_steps_are_counted_from_epochs_or_given():
    assert Recipe().count_steps(7) == 50 * 7
    assert Recipe(max_epochs=3).count_steps(7) == 21
    assert Recipe(max_steps=3).count_steps(7) == 3


def test_recipes_are_values_that_json_can_hold():
    recipe = Recipe.preset("full", seed=3)
    assert Recipe(**json.loads(json.dumps(recipe.to_dict()))) == recipe
    with pytest.raises(FrozenInstanceError):
        recipe.seed = 4


@pytest.mark.parametrize("rate", [1, np.float64(1.0)])
def test_numbers_of_any_library_become_plain_ones(rate):
    recipe = Recipe(learning_rate=rate)
    assert recipe == Recipe(learning_rate=1.0)
    assert type(recipe.learning_rate) is float


def test_the_paper_has_momentum_a_batch_per_task_and_fast_new_layers_and_biases():
    recipe = Recipe.preset("paper")
    assert (recipe.optimizer, recipe.momentum, recipe.decay) == ("sgd", 0.9, "inverse")
    assert (recipe.new_layer_multiplier, recipe.bias_multiplier) == (10, 2)
    assert (recipe.sampling, recipe.trained) == ("per-task", "fully-connected")


def test_presets_say_what_trains_and_take_other_settings():
    assert Recipe.preset("frozen").trained == "heads"
    assert Recipe.preset("full", learning_rate=0.5).learning_rate == 0.5
    assert Recipe.preset("full").trained == "all"


def test_steps_replace_the_epochs_of_a_preset():
    recipe = Recipe.preset("frozen", max_steps=10)
    assert (recipe.max_epochs, recipe.max_steps) == (None, 10)


def test_unknown_presets_are_refused():
    with pytest.raises(
        ValueError, match="one of the presets 'frozen', 'paper', 'full': got 'fast'"
    ):
        Recipe.preset("fast")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "lbfgs"}, "`optimizer` must be one of 'sgd', 'adamw': got 'lbfgs'"),
        ({"decay": "step"}, "`decay` must be one of 'inverse', 'constant', 'cosine': got 'step'"),
        ({"sampling": "all"}, "`sampling` must be one of 'proportional', 'equal'"),
        ({"precision": "fp16"}, "`precision` must be one of 'float32', 'tf32', 'bf16': got 'fp16'"),
        ({"trained": "conv"}, "`trained` must be one of 'heads', 'fully-connected', 'all', None"),
        ({"learning_rate": 0.0}, "`learning_rate` must be above 0 and finite: got 0.0"),
        ({"learning_rate": float("nan")}, "`learning_rate` must be above 0 and finite: got nan"),
        ({"learning_rate": float("inf")}, "`learning_rate` must be above 0 and finite: got inf"),
        ({"momentum": 1.0}, "`momentum` must be at least 0 and below 1: got 1.0"),
        ({"weight_decay": -1.0}, "`weight_decay` must be at least 0 and finite: got -1.0"),
        ({"new_layer_multiplier": 0.0}, "`new_layer_multiplier` must be above 0 and finite"),
        ({"bias_multiplier": -2.0}, "`bias_multiplier` must be above 0 and finite: got -2.0"),
        ({"clip_norm": 0.0}, "`clip_norm` must be above 0 and finite: got 0.0"),
        ({"validation_fraction": 1.0}, "`validation_fraction` must be at least 0 and below 1"),
        ({"max_epochs": 0}, "`max_epochs` must be at least 1: got 0"),
        ({"max_steps": 0}, "`max_steps` must be at least 1: got 0"),
        ({"batch_size": 0}, "`batch_size` must be at least 1: got 0"),
        ({"accumulate": 0}, "`accumulate` must be at least 1: got 0"),
        ({"patience": 0}, "`patience` must be at least 1: got 0"),
        ({"seed": -1}, "`seed` must be at least 0: got -1"),
        (
            {"max_epochs": 3, "max_steps": 4},
            "`max_epochs` must be None where `max_steps` is given: got 3 and 4",
        ),
        (
            {"nesterov": True, "optimizer": "adamw"},
            "`nesterov` must be False without SGD's momentum: got optimizer='adamw'",
        ),
        ({"nesterov": True, "momentum": 0.0}, "`nesterov` must be False without SGD's momentum"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**settings)


@pytest.mark.parametrize("value", [1.5, True, "3", None])
def test_numbers_of_things_are_whole(value):
    with pytest.raises(TypeError, match="`batch_size` must be a whole number: got"):
        Recipe(batch_size=value)


@pytest.mark.parametrize("name", ["learning_rate", "momentum", "clip_norm", "validation_fraction"])
@pytest.mark.parametrize("value", ["0.1", True, [0.1]])
def test_numbers_are_numbers(name, value):
    with pytest.raises(TypeError, match=f"`{name}` must be a number: got"):
        Recipe(**{name: value})


@pytest.mark.parametrize("name", ["nesterov", "deterministic"])
def test_switches_are_true_or_false(name: str):
    with pytest.raises(TypeError, match=f"`{name}` must be True or False: got 'x'"):
        Recipe(**{name: "x"})
