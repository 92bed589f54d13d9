"""Weights are loaded strictly: every key, every shape."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from multirel.exceptions import NotFiniteError
from multirel.networks import build_backbone

Tensors = dict[str, torch.Tensor]


@pytest.fixture
def tensors() -> Tensors:
    return build_backbone("mobilenet_v2").state_dict()


def build(tensors: Tensors, folder: Path, name: str = "mobilenet_v2", **options):
    path = folder / "weights.safetensors"
    save_file(tensors, path)
    return build_backbone(name, weights=path, **options)


def test_missing_keys_are_named(tensors: Tensors, tmp_path: Path):
    missing = ["features.18.0.weight", "features.18.1.bias"]
    for key in missing:
        del tensors[key]
    message = (
        "`weights` must have the keys of mobilenet_v2: expected 312 such as features.0.0.weight, .* "
        "got 2 missing (features.18.0.weight, features.18.1.bias) in "
    )
    with pytest.raises(ValueError, match=re.escape(message).replace(r"\.\*", ".*")) as raised:
        build(tensors, tmp_path)
    assert "weights.safetensors. Check that the file is whole" in str(raised.value)


def test_unknown_keys_are_named(tensors: Tensors, tmp_path: Path):
    tensors |= {f"more.{number}": torch.zeros(1) for number in range(5)}
    message = r"got 5 unknown \(more.0, more.1, more.2 and 2 more\) in .*weights.safetensors"
    with pytest.raises(ValueError, match=message):
        build(tensors, tmp_path)


def test_names_with_a_prefix_are_missing_and_unknown(tensors: Tensors, tmp_path: Path):
    renamed = {f"module.{key}": value for key, value in tensors.items()}
    message = r"got 260 missing \(features.0.0.weight, .*\) and 312 unknown \(module.features"
    with pytest.raises(ValueError, match=message):
        build(renamed, tmp_path)


def test_the_file_of_another_architecture_is_recognized(tmp_path: Path):
    tensors = build_backbone("squeezenet1_0").state_dict()
    with pytest.raises(ValueError, match='another architecture: use the name "squeezenet1_0"'):
        build(tensors, tmp_path, "alexnet")


def test_half_a_layer_is_no_partial_file(tmp_path: Path):
    tensors = build_backbone("mobilenet_v2", output="logits").state_dict()
    del tensors["classifier.1.bias"]
    with pytest.raises(ValueError, match=r"got 1 missing \(classifier.1.bias\)"):
        build(tensors, tmp_path, output="logits")


def test_layers_that_are_not_needed_may_be_of_another_size(tmp_path: Path):
    """Such as the scores of a network that was trained on other classes."""
    tensors = build_backbone("mobilenet_v2", output="logits").state_dict()
    tensors["classifier.1.weight"] = torch.zeros(10, 1280)
    build(tensors, tmp_path)
    message = r"expected \(1000, 1280\) for classifier.1.weight, got \(10, 1280\) in .*safetensors"
    with pytest.raises(ValueError, match=message):
        build(tensors, tmp_path, output="logits")


def test_counters_of_batches_may_be_missing(tensors: Tensors, tmp_path: Path):
    old = {key: value for key, value in tensors.items() if "num_batches" not in key}
    backbone = build(old, tmp_path)
    assert backbone.state_dict()["features.0.1.num_batches_tracked"] == 0


def test_weights_of_half_precision_become_single(tensors: Tensors, tmp_path: Path):
    half = {k: v.half() if v.is_floating_point() else v for k, v in tensors.items()}
    backbone = build(half, tmp_path)
    assert all(parameter.dtype == torch.float32 for parameter in backbone.parameters())


def test_quantized_weights_are_refused(tensors: Tensors, tmp_path: Path):
    tensors["features.0.0.weight"] = torch.zeros(32, 3, 3, 3, dtype=torch.int8)
    with pytest.raises(ValueError, match="must not be quantized: expected torch.float32 for feat"):
        build(tensors, tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_are_finite(value: float, tensors: Tensors, tmp_path: Path):
    tensors["features.0.1.running_var"][3] = value
    with pytest.raises(NotFiniteError, match=r"NaN or infinity for features.0.1.running_var in"):
        build(tensors, tmp_path)
