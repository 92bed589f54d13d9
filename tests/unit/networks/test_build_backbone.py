"""Backbones by name: what is built, and what is refused before anything is built."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from multirel.exceptions import MultirelWarning
from multirel.networks import build_backbone
from tests.unit.networks.test_backbone import IMAGES, save_random


def save_pool5(folder: Path) -> Path:
    """Save an AlexNet that ends at pool5, as the public file without its classifier does."""
    return save_random("alexnet", folder)


def test_random_weights_follow_the_seed():
    def build(seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(seed)
        return build_backbone("small-cnn").state_dict()

    first, again, other = build(0), build(0), build(1)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["features.0.weight"], other["features.0.weight"])


def test_random_weights_have_the_variance_of_he():
    weight = build_backbone("squeezenet1_0").state_dict()["features.12.expand3x3.weight"]
    assert float(weight.std()) == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.02)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_weights_come_back_from_their_file(suffix: str, tmp_path: Path):
    original = build_backbone("squeezenet1_0", output="logits").eval()
    path = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        save_file(original.state_dict(), path)
    else:
        torch.save(original.state_dict(), path)
    backbone = build_backbone("squeezenet1_0", weights=path, frozen=True, output="logits")
    assert torch.equal(backbone(IMAGES), original(IMAGES))
    assert backbone.new_layers == ()


def test_layers_after_the_output_are_left_out(tmp_path: Path):
    weights = save_random("mobilenet_v2", tmp_path, output="logits")
    backbone = build_backbone("mobilenet_v2", weights=str(weights), frozen=True)
    assert not [key for key in backbone.state_dict() if key.startswith("classifier")]


def test_the_checksum_is_that_of_the_file(tmp_path: Path):
    first = save_random("small-cnn", tmp_path)
    checksum = build_backbone("small-cnn", weights=first).weights_checksum
    assert checksum is not None
    assert len(checksum) == 64
    assert build_backbone("small-cnn", weights=first).weights_checksum == checksum
    second = save_random("small-cnn", tmp_path)
    assert build_backbone("small-cnn", weights=second).weights_checksum != checksum
    assert build_backbone("small-cnn").weights_checksum is None


def test_a_frozen_layer_is_never_random():
    message = "`frozen` must be False where weights are random: .* got None and frozen=True. Name"
    with pytest.raises(ValueError, match=message):
        build_backbone("alexnet", frozen=True)


def test_a_layer_that_a_partial_file_lacks_is_never_frozen(tmp_path: Path):
    message = "must hold every layer that is frozen: expected those up to fc6, got none of fc6 in"
    with pytest.raises(ValueError, match=message):
        build_backbone("alexnet", weights=save_pool5(tmp_path), frozen=True, output="fc6")


@pytest.mark.parametrize("frozen", [False, "features"])
def test_a_layer_that_a_partial_file_lacks_may_train(frozen, tmp_path: Path):
    with pytest.warns(MultirelWarning, match="`weights` does not hold fc6: .* start from random"):
        backbone = build_backbone(
            "alexnet", weights=save_pool5(tmp_path), frozen=frozen, output="fc6"
        )
    assert backbone.new_layers == ("fc6",)
    assert backbone.get_submodule("classifier.1").weight.requires_grad
    assert backbone.get_submodule("features.0").weight.requires_grad == (frozen is False)
    assert float(backbone.state_dict()["classifier.1.weight"].std()) > 0


def test_a_partial_file_serves_the_output_where_it_ends(tmp_path: Path):
    backbone = build_backbone("alexnet", weights=save_pool5(tmp_path), frozen=True)
    assert (backbone.n_features, backbone.new_layers) == (9216, ())


def test_scores_that_a_partial_file_lacks_are_new(tmp_path: Path):
    weights = save_random("mobilenet_v2", tmp_path)
    with pytest.warns(MultirelWarning, match="does not hold logits"):
        backbone = build_backbone("mobilenet_v2", weights=weights, output="logits")
    assert torch.isfinite(backbone(IMAGES)).all()


def test_the_default_device_and_type_are_followed():
    with torch.device("meta"):
        assert build_backbone("small-cnn").get_submodule("features.0").weight.is_meta
    torch.set_default_dtype(torch.float64)
    try:
        assert build_backbone("small-cnn").get_submodule("features.0").weight.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ["resnet", "AlexNet", "keras:vgg16", ""])
def test_unknown_names_are_answered_with_the_known_ones(name: str):
    message = f"`name` must name a backbone: .*alexnet, vgg16.*torchvision:NAME, got '{name}'"
    with pytest.raises(ValueError, match=message):
        build_backbone(name)


def test_unknown_outputs_are_answered_with_the_known_ones():
    message = r"`output` must name an output of vgg16: .*features, fc6, fc7, logits, got 'fc9'"
    with pytest.raises(ValueError, match=message):
        build_backbone("vgg16", output="fc9")
    with pytest.raises(ValueError, match=r"of small-cnn: expected one of features, got 'fc6'"):
        build_backbone("small-cnn", output="fc6")


@pytest.mark.parametrize("frozen", ["all", None, "fc6", 1, 0])
def test_other_ways_to_freeze_are_refused(frozen):
    with pytest.raises(ValueError, match='`frozen` must be True, False or "features": got'):
        build_backbone("small-cnn", frozen=frozen)


def test_names_of_backbones_are_strings():
    with pytest.raises(TypeError, match="`name` must be the name of a backbone: got NoneType"):
        build_backbone(None)
