"""Models as tensors and JSON, and back."""

import json

import numpy as np
import pytest
from safetensors.torch import load, save

from multirel.estimators import SingleTaskClassifier
from multirel.estimators._model import Model
from multirel.estimators._network_state import model_from_state, model_to_state
from tests.unit.estimators.network_builders import (
    PLANS,
    PlannedClassifier,
    PlannedRegressor,
    fit,
    make_data,
    make_images,
    make_module,
)


def copy_of(model: Model, **options) -> Model:
    """The model through bytes and text."""
    tensors, description = model_to_state(model)
    return model_from_state(load(save(tensors)), json.loads(json.dumps(description)), **options)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("n_classes", [None, 3], ids=["numbers", "classes"])
def test_a_network_comes_back_with_the_same_bits(name: str, n_classes):
    data = make_data(n_classes)
    make = PlannedRegressor if n_classes is None else PlannedClassifier
    model = fit(make(plan=PLANS[name], max_epochs=3), data).model_
    expected = model.scores(data.x, data.task)
    np.testing.assert_array_equal(copy_of(model).scores(data.x, data.task), expected)


def test_networks_with_different_outputs_come_back():
    data = make_data(3)
    y = np.where(data.task == 0, data.y % 2, data.y) + 10 * data.task
    estimator = PlannedClassifier(plan=PLANS["mrn"], classes="per-task", max_epochs=3)
    model = estimator.fit(data.x, y, tasks=data.tasks).model_
    expected = model.scores(data.x, data.task)
    np.testing.assert_array_equal(copy_of(model).scores(data.x, data.task), expected)


@pytest.mark.parametrize("name", ["single", "mrn", "pooled"])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("hidden_sizes", [(), (5,)])
def test_a_backbone_of_ones_own_comes_back_into_a_module_like_it(name, frozen, hidden_sizes):
    if frozen and not hidden_sizes:
        estimator = SingleTaskClassifier(backbone=make_module().requires_grad_(False))
    else:
        backbone = make_module().requires_grad_(not frozen)
        estimator = PlannedClassifier(
            plan=PLANS[name], backbone=backbone, hidden_sizes=hidden_sizes, max_epochs=3
        )
    data = make_images()
    model = fit(estimator, data).model_
    copy = copy_of(model, network=make_module(seed=5))
    np.testing.assert_array_equal(copy.scores(data.x, data.task), model.scores(data.x, data.task))
    with pytest.raises(
        ValueError, match="`network` must be given for an estimator with a backbone"
    ):
        copy_of(model)


@pytest.mark.parametrize("name", ["single", "mrn"])
def test_a_backbone_by_name_comes_back_by_itself(name: str):
    data = make_images(4, side=16)
    estimator = PlannedClassifier(
        plan=PLANS[name], backbone="small-cnn", hidden_sizes=(), max_epochs=1
    )
    model = fit(estimator, data).model_
    np.testing.assert_array_equal(
        copy_of(model).scores(data.x, data.task), model.scores(data.x, data.task)
    )


def test_linear_models_come_back():
    data = make_data()
    model = fit(SingleTaskClassifier(), data).model_
    np.testing.assert_array_equal(
        copy_of(model).scores(data.x, data.task), model.scores(data.x, data.task)
    )


def test_states_that_do_not_fit_are_refused():
    tensors, description = model_to_state(
        fit(PlannedClassifier(plan=PLANS["mrn"], max_epochs=1), make_data()).model_
    )
    fewer = {name: value for name, value in tensors.items() if name != "targets.center"}
    with pytest.raises(ValueError, match="they differ in targets.center"):
        model_from_state(fewer, description)
    name = "network.heads.fc7.weight"
    with pytest.raises(ValueError, match="they differ in heads.fc7.weight"):
        model_from_state({k: v for k, v in tensors.items() if k != name}, description)
    with pytest.raises(ValueError, match=r"`tensors` must have the shapes .*got \(3, 16, 3\)"):
        model_from_state(tensors | {name: tensors[name][:, :, :3]}, description)
    with pytest.raises(ValueError, match="`description` must be that of a model.*got 'forest'"):
        model_from_state(tensors, {"form": "forest"})


def test_other_models_are_refused():
    class Other(Model):
        def scores(self, x, task):
            return x

    with pytest.raises(TypeError, match="`model` must be linear or a network: got Other"):
        model_to_state(Other())
