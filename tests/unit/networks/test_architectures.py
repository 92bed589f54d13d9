"""The architectures have the sizes, the keys and the layers of the published ones."""

import pytest
import torch
from torch.nn import functional as F

from multirel.networks import build_backbone
from multirel.networks._architectures import ARCHITECTURES, find_architecture, known_shapes
from multirel.networks._efficientnet_lite import StridedConv2d
from tests.environment import assert_close

N_PARAMETERS = {
    "alexnet": {"features": 2_469_696, "logits": 61_100_840},
    "vgg16": {"features": 14_714_688, "logits": 138_357_544},
    "squeezenet1_0": {"features": 735_424, "logits": 1_248_424},
    "mobilenet_v2": {"features": 2_223_872, "logits": 3_504_872},
    "efficientnet_lite0": {"features": 3_371_008, "logits": 4_652_008},
    "small-cnn": {"features": 93_472},
}
"""Of the whole network as published, and of its convolutions."""

SIZES = {
    "alexnet": {"features": 9216, "fc6": 4096, "fc7": 4096, "logits": 1000},
    "vgg16": {"features": 25088, "fc6": 4096, "fc7": 4096, "logits": 1000},
    "squeezenet1_0": {"features": 512, "logits": 1000},
    "mobilenet_v2": {"features": 1280, "logits": 1000},
    "efficientnet_lite0": {"features": 1280, "logits": 1000},
    "small-cnn": {"features": 128},
}

SOME_KEYS = {
    "alexnet": {"features.10.weight": (256, 256, 3, 3), "classifier.1.weight": (4096, 9216)},
    "vgg16": {"features.28.bias": (512,), "classifier.6.bias": (1000,)},
    "squeezenet1_0": {
        "features.12.expand3x3.weight": (256, 64, 3, 3),
        "classifier.1.weight": (1000, 512, 1, 1),
    },
    "mobilenet_v2": {
        "features.1.conv.1.weight": (16, 32, 1, 1),
        "features.17.conv.3.running_var": (320,),
        "classifier.1.weight": (1000, 1280),
    },
    "efficientnet_lite0": {
        "blocks.0.0.conv_pw.weight": (16, 32, 1, 1),
        "blocks.6.0.conv_pwl.weight": (320, 1152, 1, 1),
        "conv_head.weight": (1280, 320, 1, 1),
    },
}
"""Where the names of the public files are easily missed."""

SMALL_OUTPUTS = [
    (name, output)
    for name, sizes in SIZES.items()
    for output in sizes
    if name != "vgg16" or output == "features"
]
"""Outputs without the fully connected layers of VGG-16, which take long to draw."""


def count(shapes: dict[str, torch.Size]) -> int:
    buffers = ("running_mean", "running_var", "num_batches_tracked")
    return sum(shape.numel() for key, shape in shapes.items() if not key.endswith(buffers))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_numbers_of_parameters_are_those_published(name: str):
    features = build_backbone(name)
    assert sum(p.numel() for p in features.parameters()) == N_PARAMETERS[name]["features"]
    assert count(known_shapes(name)) == [*N_PARAMETERS[name].values()][-1]


@pytest.mark.parametrize("name", SOME_KEYS)
def test_keys_are_those_of_the_public_files(name: str):
    shapes = known_shapes(name)
    assert {key: tuple(shapes[key]) for key in SOME_KEYS[name]} == SOME_KEYS[name]


@pytest.mark.parametrize(("name", "output"), SMALL_OUTPUTS)
def test_outputs_have_the_size_that_the_backbone_states(name: str, output: str):
    backbone = build_backbone(name, output=output).eval()
    side = max(ARCHITECTURES[name].smallest_side, 32)
    with torch.no_grad():
        features = backbone(torch.randn(2, 3, side, side + 5))
    assert features.shape == (2, backbone.n_features)
    assert backbone.n_features == SIZES[name][output]
    assert torch.isfinite(features).all()


@pytest.mark.parametrize("name", SIZES)
def test_every_architecture_states_the_size_of_each_output(name: str):
    assert dict(ARCHITECTURES[name].n_features) == SIZES[name]
    assert ["features", *ARCHITECTURES[name].further_layers] == [*SIZES[name]]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_smallest_side_is_the_smallest_that_works(name: str):
    backbone = build_backbone(name).eval()
    smallest = ARCHITECTURES[name].smallest_side
    with torch.no_grad():
        assert backbone(torch.zeros(1, 3, smallest, smallest)).shape == (1, backbone.n_features)
        if smallest > 1:
            with pytest.raises(RuntimeError):
                backbone._evaluate(backbone._rest, torch.zeros(1, 3, smallest - 1, smallest - 1))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_random_weights_keep_the_scale_of_what_passes_through(name: str):
    torch.manual_seed(0)
    backbone = build_backbone(name).train()
    with torch.no_grad():
        features = backbone(torch.randn(4, 3, 96, 96))
    assert 0.02 < float(features.std()) < 20


@pytest.mark.parametrize("output", ["fc6", "fc7"])
def test_fully_connected_outputs_come_after_their_relu(output: str):
    features = build_backbone("alexnet", output=output).eval()(torch.randn(2, 3, 63, 63))
    assert 0.2 < float((features == 0).float().mean()) < 0.8
    assert (features >= 0).all()


@pytest.mark.parametrize(
    ("name", "output", "expected"),
    [
        ("alexnet", "fc6", "Dropout Linear ReLU Dropout"),
        ("alexnet", "fc7", "Dropout Linear ReLU Dropout Linear ReLU"),
        ("vgg16", "fc6", "Linear ReLU Dropout"),
        ("vgg16", "fc7", "Linear ReLU Dropout Linear ReLU Dropout"),
    ],
)
def test_dropout_stands_where_the_originals_have_it(name: str, output: str, expected: str):
    """A head that begins with the next linear layer then makes the original network."""
    with torch.device("meta"):
        (classifier,) = ARCHITECTURES[name].make_layers(output).further.values()
    assert " ".join(type(layer).__name__ for layer in classifier) == expected


def test_dropout_acts_while_training_only():
    torch.manual_seed(0)
    backbone = build_backbone("alexnet", output="fc6")
    images = torch.randn(1, 3, 63, 63)
    with torch.no_grad():
        assert not torch.equal(backbone(images), backbone(images))
        backbone.eval()
        assert torch.equal(backbone(images), backbone(images))


def test_padding_is_that_of_tensorflow():
    """An odd padding has its larger half below and right; sides become ⌈side / stride⌉."""
    torch.manual_seed(0)
    layer = StridedConv2d(1, 1, 3, stride=2, bias=False)
    even, odd = torch.randn(1, 1, 6, 6), torch.randn(1, 1, 7, 7)
    weight = layer.weight
    assert_close(layer(even), F.conv2d(F.pad(even, (0, 1, 0, 1)), weight, stride=2))
    assert_close(layer(odd), F.conv2d(F.pad(odd, (1, 1, 1, 1)), weight, stride=2))
    assert layer(torch.randn(1, 1, 6, 9)).shape == (1, 1, 3, 5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_is_recognized_by_its_tensors(name: str):
    assert find_architecture(build_backbone(name).state_dict()) == name
    assert find_architecture({"weight": torch.zeros(1)}) is None
    assert find_architecture({}) is None
