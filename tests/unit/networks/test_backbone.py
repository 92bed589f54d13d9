"""What is frozen stays as it is, and the parts of a backbone add up to the whole."""

import copy
import pickle
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from multirel.networks import Backbone, build_backbone
from tests.environment import DEVICE, run_python

IMAGES = torch.randn(4, 3, 40, 40, generator=torch.Generator().manual_seed(0))


def save_random(name: str, folder: Path, *, output: str = "features") -> Path:
    """Save random weights, with statistics that are not those of the images."""
    path = folder / f"{name}-{output}.safetensors"
    save_file(build_backbone(name, output=output).state_dict(), path)
    return path


def build_frozen(name: str, folder: Path, **options) -> Backbone:
    return build_backbone(name, weights=save_random(name, folder), frozen=True, **options)


@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_lite0", "squeezenet1_0"])
def test_frozen_layers_stay_in_evaluation_mode(name: str, tmp_path: Path):
    backbone = build_frozen(name, tmp_path)
    before = copy.deepcopy(backbone.state_dict())
    network = nn.Sequential(backbone, nn.Linear(backbone.n_features, 2)).train()
    network(IMAGES).sum().backward()
    assert network.training
    assert not any(layer.training for layer in backbone.modules())
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())


def test_frozen_layers_have_no_gradients(tmp_path: Path):
    backbone = build_frozen("small-cnn", tmp_path)
    assert backbone.frozen is True
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    assert not backbone(IMAGES).requires_grad


def test_layers_that_are_not_frozen_train():
    backbone = build_backbone("mobilenet_v2")
    before = copy.deepcopy(backbone.state_dict())
    backbone(IMAGES).sum().backward()
    assert backbone.frozen is False
    assert all(parameter.grad is not None for parameter in backbone.parameters())
    assert not torch.equal(backbone.state_dict()["features.0.1.running_mean"],
                           before["features.0.1.running_mean"])  # fmt: skip
    backbone.eval()
    assert not any(layer.training for layer in backbone.modules())


def test_layers_after_the_features_train_where_only_those_are_frozen(tmp_path: Path):
    weights = save_random("mobilenet_v2", tmp_path, output="logits")
    backbone = build_backbone("mobilenet_v2", weights=weights, frozen="features", output="logits")
    backbone.train()
    trained = {key for key, parameter in backbone.named_parameters() if parameter.requires_grad}
    assert backbone.frozen == "features"
    assert trained == {"classifier.1.weight", "classifier.1.bias"}
    assert backbone.get_submodule("classifier").training
    assert not backbone.get_submodule("features").training


def test_freezing_up_to_the_features_freezes_all_where_they_are_the_output(tmp_path: Path):
    weights = save_random("small-cnn", tmp_path)
    backbone = build_backbone("small-cnn", weights=weights, frozen="features")
    assert backbone.frozen is True
    assert not backbone.train().training


@pytest.mark.parametrize("frozen", [True, False, "features"])
@pytest.mark.parametrize("name", ["squeezenet1_0", "efficientnet_lite0"])
def test_the_rest_continues_from_the_frozen_prefix(name: str, frozen, tmp_path: Path):
    weights = save_random(name, tmp_path, output="logits")
    backbone = build_backbone(name, weights=weights, frozen=frozen, output="logits").eval()
    values = backbone.prefix(IMAGES)
    assert torch.equal(backbone.rest(values), backbone(IMAGES))
    assert torch.equal(values, backbone(IMAGES)) == (frozen is True)
    assert torch.equal(values, IMAGES) == (frozen is False)


def test_the_layout_of_the_images_in_memory_makes_no_difference():
    backbone = build_backbone("squeezenet1_0").eval()
    last = IMAGES.contiguous(memory_format=torch.channels_last)
    assert torch.equal(backbone(IMAGES), backbone(last))


def test_features_of_an_image_do_not_depend_on_its_batch(tmp_path: Path):
    backbone = build_frozen("mobilenet_v2", tmp_path)
    alone = torch.cat([backbone(image[None]) for image in IMAGES])
    torch.testing.assert_close(backbone(IMAGES), alone, rtol=1e-4, atol=1e-5)


def test_preprocessed_images_are_where_the_weights_are():
    backbone = build_backbone("small-cnn").to(device=DEVICE, dtype=torch.float64)
    batch = backbone.preprocess(Image.new("RGB", (50, 40), "red"))
    assert (batch.shape, batch.dtype) == ((1, *backbone.input_size), torch.float64)
    assert batch.device == next(backbone.parameters()).device
    assert backbone(batch).dtype == torch.float64


def test_copies_are_whole(tmp_path: Path):
    backbone = build_frozen("small-cnn", tmp_path)
    for other in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
        assert torch.equal(other.train()(IMAGES), backbone(IMAGES))
        assert not other.training
        assert other.preprocessing == backbone.preprocessing


def test_the_text_form_says_what_it_is():
    assert "name='small-cnn', output='features', n_features=128" in repr(
        build_backbone("small-cnn")
    )


def test_sides_that_are_too_small_are_named():
    message = r"`images` must be a batch for alexnet: .* at least 63, got \(1, 3, 62, 80\). Use"
    with pytest.raises(ValueError, match=message):
        build_backbone("alexnet")(torch.zeros(1, 3, 62, 80))


@pytest.mark.parametrize("shape", [(3, 64, 64), (2, 1, 64, 64), (2, 64, 64, 3)])
def test_images_without_three_channels_are_refused(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"expected the shape \(n, 3, height, width\)"):
        build_backbone("small-cnn")(torch.zeros(shape))


def test_pixels_that_are_not_standardized_are_refused():
    with pytest.raises(ValueError, match=r"`images` must be standardized: .* got torch.uint8"):
        build_backbone("small-cnn")(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))


@pytest.mark.slow
def test_backbones_compile():
    run_python(
        "import torch\n"
        "from multirel.networks import build_backbone\n"
        "backbone = build_backbone('small-cnn').eval()\n"
        "images = torch.randn(2, 3, 32, 32)\n"
        "compiled = torch.compile(backbone, fullgraph=True)\n"
        "torch.testing.assert_close(compiled(images), backbone(images), rtol=1e-4, atol=1e-5)\n"
    )
