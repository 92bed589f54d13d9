"""Images, backbones, and features in the place of images."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from multirel.estimators import SingleTaskClassifier
from multirel.estimators._network_images import (
    BackboneFeatures,
    BackboneModel,
    count_features,
    evaluate_backbone,
    is_frozen,
    make_backbone,
    to_images,
    with_features,
)
from multirel.networks import Backbone, build_backbone
from tests.unit.estimators.network_builders import (
    PLANS,
    PlannedClassifier,
    fit,
    make_images,
    make_module,
    make_rows,
)


def make(backbone, weights=None, seed=0):
    return make_backbone(SimpleNamespace(backbone=backbone, weights=weights), seed=seed)


@pytest.fixture
def weight_file(tmp_path):
    path = tmp_path / "small.safetensors"
    save_file(build_backbone("small-cnn").state_dict(), path)
    return path


def test_a_module_is_copied():
    module = make_module()
    copy = make(module)
    assert copy is not module
    assert torch.equal(copy[2].weight, module[2].weight)


def test_a_backbone_by_name_is_as_random_as_the_seed():
    state = torch.random.get_rng_state()
    first, second, other = make("small-cnn"), make("small-cnn"), make("small-cnn", seed=1)
    weights = [next(backbone.parameters()) for backbone in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert not is_frozen(first)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_backbone_with_a_weight_file_is_frozen(weight_file):
    assert is_frozen(make("small-cnn", weight_file))


def test_a_backbone_without_weights_counts_as_frozen():
    assert is_frozen(nn.Flatten())


def test_pixels_are_scaled_for_modules_and_preprocessed_for_backbones():
    x = make_images(4, side=16).x
    np.testing.assert_allclose(to_images(nn.Flatten(), x), x / 255, rtol=1e-6)
    backbone = build_backbone("small-cnn")
    expected = backbone.preprocess(torch.from_numpy(x))
    torch.testing.assert_close(to_images(backbone, x), expected)
    torch.testing.assert_close(to_images(backbone, x[:, 0]), expected)


def test_floating_images_stay_as_they_are():
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8))
    images = to_images(build_backbone("small-cnn"), x)
    assert images.dtype == torch.float32
    np.testing.assert_allclose(images, x, rtol=1e-6)


def test_features_are_those_of_evaluation_mode():
    module = nn.Sequential(nn.Flatten(), nn.Dropout(0.5)).train()
    x = make_images(30).x
    values = evaluate_backbone(module, x, device="cpu")
    np.testing.assert_allclose(values, x.reshape(len(x), -1) / 255, rtol=1e-6)
    assert module.training


def test_the_number_of_features_is_what_a_module_says_or_gives():
    module = make_module()
    assert count_features(module, make_images().x[:1]) == 6
    module.n_features = 7
    assert count_features(module, make_images().x[:1]) == 7


@pytest.mark.parametrize(
    ("module", "got"), [(nn.Identity(), r"\(1, 1, 8, 8\)"), (nn.LSTM(8, 3), "tuple")]
)
def test_a_backbone_must_give_rows_of_features(module, got):
    x = make_images().x[:1] if isinstance(module, nn.Identity) else make_images().x[0, 0]
    x = x if x.ndim == 4 else x.astype(np.float32)
    with pytest.raises(ValueError, match=f"`backbone` must give a row of features.*got {got}"):
        count_features(module, x)


def test_each_image_is_evaluated_once(weight_file):
    data = make_images(side=16)
    source = np.array([3, 3, 1, 0, 3])
    rows = make_rows(data, source=source, task=data.task[:5], y=np.zeros(5), weight=np.ones(5))
    for backbone in (make("small-cnn", weight_file), make_module().requires_grad_(False)):
        x = data.x if isinstance(backbone, Backbone) else data.x[:, :, :8, :8]
        found = with_features(make_rows(data, x=x, source=source), backbone, device="cpu")
        assert len(found.x.values) == 3
        expected = evaluate_backbone(backbone, x, device="cpu")[source]
        np.testing.assert_allclose(found.x[found.source].values, expected, rtol=1e-4, atol=1e-5)
        assert with_features(found, backbone, device="cpu") is found
    assert len(rows) == 5


def test_features_in_the_place_of_images_give_the_same_fit():
    """As a search does, which evaluates the backbone for all candidates at once."""
    data = make_images()
    frozen = make_module().requires_grad_(False)
    estimator = fit(PlannedClassifier(plan=PLANS["mrn"], backbone=frozen, max_epochs=4), data)
    features = BackboneFeatures(
        values=evaluate_backbone(frozen, data.x, device="cpu"), backbone=frozen
    )
    again = fit(PlannedClassifier(plan=PLANS["mrn"], backbone=frozen, max_epochs=4), data)
    again._fit_rows(make_rows(data, x=features))
    assert features.shape == (30, 6)
    np.testing.assert_allclose(
        again.model_.scores(features, data.task),
        estimator.model_.scores(data.x, data.task),
        rtol=1e-6,
        atol=1e-7,
    )


def test_images_through_a_weight_file(weight_file):
    data = make_images(side=16)
    estimator = SingleTaskClassifier(backbone="small-cnn", weights=weight_file)
    fit(estimator, data)
    assert isinstance(estimator.model_, BackboneModel)
    assert estimator.score(data.x, data.y, tasks=data.tasks) > 0.9
    assert estimator.coef_.shape == (3, 1, 128)
