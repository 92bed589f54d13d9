"""Public weight files load strictly and do what their authors report."""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from multirel.exceptions import MultirelWarning
from multirel.networks import Backbone, build_backbone
from tests.integration.shared_data import find_photograph, find_shared, open_office_images

FILES = {
    "alexnet": "weights/alexnet-features-torchvision/alexnet_features.safetensors",
    "squeezenet1_0": "weights/squeezenet1_0-deepcompressed/squeezenet1_0.safetensors",
    "mobilenet_v2": "weights/mobilenet_v2-features/mobilenet_v2_features.safetensors",
    "efficientnet_lite0": "weights/efficientnet_lite0/efficientnet_lite0.safetensors",
}

WHOLE = ("squeezenet1_0", "efficientnet_lite0")
"""Files that hold the scores of the 1000 classes too."""

SCORES = {
    ("squeezenet1_0", "chelsea.png"): {285: 0.62, 282: 0.26, 281: 0.11, 287: 0.01, 293: 0.01},
    ("squeezenet1_0", "coffee.png"): {967: 0.81, 809: 0.06, 968: 0.04, 960: 0.03, 925: 0.02},
    ("squeezenet1_0", "motorcycle_left.png"): {670: 0.50, 665: 0.49},
    ("squeezenet1_0", "rocket.jpg"): {733: 0.68, 657: 0.10, 437: 0.08, 744: 0.07, 668: 0.06},
    ("squeezenet1_0", "china.jpg"): {687: 0.18, 663: 0.15, 442: 0.14, 628: 0.12, 408: 0.07},
    ("squeezenet1_0", "flower.jpg"): {328: 0.36, 115: 0.20, 947: 0.16},
    ("efficientnet_lite0", "chelsea.png"): {282: 0.38, 285: 0.37, 281: 0.16},
    ("efficientnet_lite0", "coffee.png"): {967: 0.96, 968: 0.01, 925: 0.01},
    ("efficientnet_lite0", "rocket.jpg"): {657: 0.38, 744: 0.25, 540: 0.05},
    ("efficientnet_lite0", "motorcycle_left.png"): {665: 0.50, 670: 0.16, 535: 0.06},
    ("efficientnet_lite0", "china.jpg"): {698: 0.38, 442: 0.16, 975: 0.06},
    # The third and the fourth score round to the same: the file's notes name the former.
    ("efficientnet_lite0", "flower.jpg"): {985: 0.33, 309: 0.05, 947: 0.04},
}
"""The highest scores as the notes beside the files report them, by class of ImageNet."""

ROUNDING = 0.0055
"""The reported scores have two decimals."""

PROBE = {
    "alexnet": (91.0, 88.1, 72.8, 84.5),
    "squeezenet1_0": (93.7, 95.8, 89.9, 86.5),
    "mobilenet_v2": (96.0, 98.7, 95.8, 92.6),
    "efficientnet_lite0": (96.3, 98.7, 95.5, 94.0),
}
"""Accuracy in % on amazon, webcam, dslr, caltech10: logistic regression, 20 % train, 3 seeds."""

TASKS = ("amazon", "webcam", "dslr", "caltech10")


def build(name: str, **options) -> Backbone:
    return build_backbone(name, weights=find_shared(FILES[name]), **options)


def accuracy(features: np.ndarray, labels: list[int]) -> float:
    """Return the accuracy of logistic regression on standardized features, 20 % train, 3 seeds."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scores = []
    for seed in range(3):
        train, test = train_test_split(
            np.arange(len(labels)), train_size=0.2, stratify=labels, random_state=seed
        )
        y = np.asarray(labels)
        probe = make_pipeline(StandardScaler(), linear_model.LogisticRegression(max_iter=500))
        scores.append(probe.fit(features[train], y[train]).score(features[test], y[test]))
    return 100 * float(np.mean(scores))


def extract(backbone: Backbone, images: list[Image.Image]) -> np.ndarray:
    chunks = [images[start : start + 32] for start in range(0, len(images), 32)]
    return np.concatenate([backbone(backbone.preprocess(chunk)).numpy() for chunk in chunks])


def crop(images: list[Image.Image], *, n_crops: int, smallest: float) -> list[Image.Image]:
    """Return random squares of every image, of `smallest` to 0.9 of its shorter side."""
    generator = random.Random(0)
    crops = []
    for image in images:
        for _ in range(n_crops):
            side = int(min(image.size) * generator.uniform(smallest, 0.9))
            left, top = (generator.randint(0, length - side) for length in image.size)
            crops.append(image.crop((left, top, left + side, top + side)))
    return crops


def photographs() -> list[Image.Image]:
    """Return ten photographs, one per class."""
    images, labels = open_office_images("webcam")
    return [images[labels.index(label)] for label in range(10)]


@pytest.mark.parametrize("name", FILES)
def test_files_load_strictly_up_to_where_they_end(name: str):
    backbone = build(name, frozen=True, output="logits" if name in WHOLE else "features")
    held = load_file(find_shared(FILES[name]))
    loaded = backbone.state_dict()
    assert loaded.keys() == held.keys()
    assert all(torch.equal(loaded[key], held[key]) for key in held)
    assert backbone.new_layers == ()


@pytest.mark.parametrize("name", FILES)
def test_checksums_are_those_beside_the_files(name: str):
    notes = find_shared(FILES[name]).with_name("README.md").read_text(encoding="utf-8")
    assert f"`{build(name).weights_checksum}`" in notes


@pytest.mark.parametrize(("name", "photograph"), SCORES)
def test_scores_are_those_reported(name: str, photograph: str):
    backbone = build(name, frozen=True, output="logits")
    with Image.open(find_photograph(photograph)) as image:
        scores = backbone(backbone.preprocess(image))[0].softmax(dim=0)
    expected = SCORES[name, photograph]
    for label, score in expected.items():
        assert float(scores[label]) == pytest.approx(score, abs=ROUNDING)
    assert int(scores.argmax()) == next(iter(expected))


def test_the_first_filters_of_alexnet_are_those_printed():
    first = build("alexnet").state_dict()["features.0.weight"][0, 0, 0]
    assert first[:3].tolist() == pytest.approx([0.11864, 0.094069, 0.095435], abs=1e-5)
    assert first[-3:].tolist() == pytest.approx([0.055822, 0.021575, 0.049963], abs=1e-5)


@pytest.mark.parametrize("name", ["alexnet", "mobilenet_v2"])
def test_crops_of_a_photograph_are_nearest_to_each_other(name: str):
    n_crops = 6
    backbone = build(name, frozen=True)
    batch = backbone.preprocess(crop(photographs(), n_crops=n_crops, smallest=0.6))
    maps = backbone.get_submodule("features")(batch).mean(dim=(2, 3))
    similarity = F.normalize(maps) @ F.normalize(maps).T
    nearest = similarity.fill_diagonal_(-1).argmax(dim=1)
    source = torch.arange(len(batch)) // n_crops
    assert float((source[nearest] == source).float().mean()) >= 0.95


def test_batch_normalizations_of_mobilenet_see_what_they_were_trained_on():
    """Means of their inputs agree with the stored ones: median correlation 0.987 is reported."""
    backbone = build("mobilenet_v2", frozen=True)
    norms = [layer for layer in backbone.modules() if isinstance(layer, nn.BatchNorm2d)]
    correlations = []

    def compare(norm: nn.BatchNorm2d, inputs: tuple[torch.Tensor]) -> None:
        means = torch.stack([inputs[0].mean(dim=(0, 2, 3)), norm.running_mean])
        correlations.append(float(torch.corrcoef(means)[0, 1]))

    for norm in norms:
        norm.register_forward_pre_hook(compare)
    backbone(backbone.preprocess(crop(photographs(), n_crops=3, smallest=0.8)))
    assert len(correlations) == 52
    assert np.median(correlations) > 0.95


def test_the_file_of_another_architecture_is_named():
    with pytest.raises(ValueError, match='use the name "squeezenet1_0"'):
        build_backbone("alexnet", weights=find_shared(FILES["squeezenet1_0"]))


def test_frozen_features_of_alexnet_end_at_pool5():
    assert build("alexnet", frozen=True).n_features == 9216
    with pytest.raises(
        ValueError, match="expected those up to fc6, got none of fc6 in .*alexnet_f"
    ):
        build("alexnet", frozen=True, output="fc6")


def test_fc6_is_trained_from_random_weights():
    with pytest.warns(
        MultirelWarning, match="does not hold fc6: .*alexnet_features.safetensors ends"
    ):
        backbone = build("alexnet", frozen="features", output="fc6").train()
    assert backbone.new_layers == ("fc6",)
    pool5 = backbone.prefix(torch.randn(2, *backbone.input_size))
    assert pool5.shape == (2, 9216)
    assert not pool5.requires_grad
    assert backbone.rest(pool5).requires_grad


def test_features_of_alexnet_tell_classes_apart():
    """Its pool5 on dslr: above the 51.3 % of SURF features."""
    images, labels = open_office_images("dslr")
    expected = PROBE["alexnet"][TASKS.index("dslr")]
    assert accuracy(extract(build("alexnet", frozen=True), images), labels) > expected - 4


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", FILES)
def test_features_reach_the_measured_accuracy(name: str, task: str):
    images, labels = open_office_images(task)
    found = accuracy(extract(build(name, frozen=True), images), labels)
    assert found == pytest.approx(PROBE[name][TASKS.index(task)], abs=1.5)
