"""Models of timm and torchvision: through doubles of their interfaces, and the real ones where present."""

import sys
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from multirel.networks import Preprocessing, build_backbone
from multirel.networks._architectures import ARCHITECTURES

SETTINGS = {
    "input_size": (3, 16, 16),
    "interpolation": "bicubic",
    "mean": (0.5, 0.4, 0.3),
    "std": (0.1, 0.2, 0.3),
    "crop_pct": 0.9,
    "crop_mode": "center",
}


class Model(nn.Module):
    """Stands in for a model of either package."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, kernel_size=3)
        self.norm = nn.BatchNorm2d(5)
        self.fc = nn.Linear(5, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.conv(images)).mean(dim=(2, 3)))

    def reset_classifier(self, n_classes: int) -> None:
        assert n_classes == 0
        self.fc = nn.Identity()


class Convolutions(nn.Module):
    """Has no linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, kernel_size=3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.conv(images)


class Weights(Enum):
    """Stands in for torchvision's table of weights."""

    FIRST = ("https://example.org/model-11111111.pth", 20)
    SECOND = ("https://example.org/model-22222222.pth", 24)
    DEFAULT = SECOND

    @property
    def url(self) -> str:
        return self.value[0]

    def transforms(self) -> SimpleNamespace:
        return SimpleNamespace(
            resize_size=[self.value[1]],
            crop_size=[16],
            mean=[0.5, 0.4, 0.3],
            std=[0.1, 0.2, 0.3],
            interpolation=SimpleNamespace(value="bilinear"),
        )


@pytest.fixture
def timm(monkeypatch) -> dict:
    """A double of timm, and the settings that it answers with."""
    settings = dict(SETTINGS)
    module = SimpleNamespace(
        is_model=lambda name: name in ("model", "map"),
        create_model=lambda name, pretrained: Convolutions() if name == "map" else Model(),
    )
    data = SimpleNamespace(resolve_model_data_config=lambda network: settings)
    monkeypatch.setitem(sys.modules, "timm", module)
    monkeypatch.setitem(sys.modules, "timm.data", data)
    return settings


@pytest.fixture
def torchvision(monkeypatch) -> None:
    """A double of torchvision."""
    models = SimpleNamespace(
        list_models=lambda module: ["model", "convolutions"],
        get_model=lambda name, weights: Model() if name == "model" else Convolutions(),
        get_model_weights=lambda name: Weights,
    )
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))


@pytest.fixture
def whole_model(tmp_path: Path) -> Path:
    """Weights of the whole model, its classifier included."""
    path = tmp_path / "model-11111111.pth"
    torch.save(Model().state_dict(), path)
    return path


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_the_last_linear_layer_is_left_out(package: str, request):
    request.getfixturevalue(package)
    backbone = build_backbone(f"{package}:model")
    assert (backbone.name, backbone.n_features, backbone.output) == (
        f"{package}:model",
        5,
        "features",
    )
    assert backbone(backbone.preprocess(Image.new("RGB", (40, 30)))).shape == (1, 5)
    assert all(parameter.requires_grad for parameter in backbone.parameters())


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_weights_of_the_whole_model_are_loaded_and_frozen(package: str, request, whole_model: Path):
    request.getfixturevalue(package)
    backbone = build_backbone(f"{package}:model", weights=whole_model, frozen=True).train()
    expected = torch.load(whole_model, weights_only=True)
    assert torch.equal(backbone.get_submodule("model.conv").weight, expected["conv.weight"])
    assert not any(layer.training for layer in backbone.modules())
    assert backbone.weights_checksum is not None


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_weights_are_loaded_strictly(package: str, request, tmp_path: Path):
    request.getfixturevalue(package)
    path = tmp_path / "weights.safetensors"
    save_file({"conv.weight": torch.zeros(5, 3, 3, 3), "more": torch.zeros(1)}, path)
    message = rf"the keys of {package}:model: .*\(conv.bias, norm.weight, .*1 unknown \(more\)"
    with pytest.raises(ValueError, match=message):
        build_backbone(f"{package}:model", weights=path)


def test_timm_states_the_preprocessing(timm):
    assert build_backbone("timm:model").preprocessing == Preprocessing(
        resize=17, crop=16, mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.3), interpolation="bicubic"
    )


@pytest.mark.parametrize(
    "change",
    [{"crop_mode": "squash"}, {"interpolation": "lanczos"}, {"input_size": (3, 16, 20)}],
)
def test_preprocessing_of_another_kind_is_refused(timm, change: dict):
    timm.update(change)
    with pytest.raises(ValueError, match="resized and cropped to a square .* for timm:model"):
        build_backbone("timm:model")


@pytest.mark.usefixtures("torchvision")
def test_torchvision_states_the_preprocessing_of_each_file(whole_model: Path):
    default = build_backbone("torchvision:model")
    assert (default.preprocessing.resize, default.preprocessing.crop) == (24, 16)
    known = build_backbone("torchvision:model", weights=whole_model)
    assert known.preprocessing.resize == 20
    renamed = build_backbone(
        "torchvision:model", weights=whole_model.rename(whole_model.with_name("a.pth"))
    )
    assert renamed.preprocessing == default.preprocessing


@pytest.mark.usefixtures("torchvision")
def test_models_without_a_linear_layer_are_refused():
    with pytest.raises(ValueError, match="got torchvision:convolutions, which has none"):
        build_backbone("torchvision:convolutions")


@pytest.mark.parametrize("name", ["timm:other", "torchvision:other", "timm:"])
def test_unknown_models_are_named(name: str, timm, torchvision):
    package, _, model = name.partition(":")
    with pytest.raises(
        ValueError, match=f"a model of {package}: .* got '{model}'. See {package}'s"
    ):
        build_backbone(name)


def test_models_that_return_maps_are_refused(timm, monkeypatch):
    monkeypatch.setattr(Convolutions, "reset_classifier", lambda self, n: None, raising=False)
    with pytest.raises(ValueError, match="returns one vector per image: .* from timm:map"):
        build_backbone("timm:map")


@pytest.mark.usefixtures("torchvision")
def test_packages_offer_features_only():
    with pytest.raises(
        ValueError, match="of torchvision:model: expected one of features, got 'fc6'"
    ):
        build_backbone("torchvision:model", output="fc6")


@pytest.mark.usefixtures("torchvision")
def test_random_weights_of_a_package_are_not_frozen():
    with pytest.raises(ValueError, match="`frozen` must be False where weights are random"):
        build_backbone("torchvision:model", frozen=True)


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_a_missing_package_is_answered_with_the_line_that_installs_it(package: str, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    message = (
        rf"a package that is installed: expected {package}, .* Run: pip install {package} torch==\d"
    )
    with pytest.raises(ImportError, match=message):
        build_backbone(f"{package}:resnet18")


def test_a_package_made_for_another_torch_is_named(monkeypatch, tmp_path: Path):
    """Beside another build of torch, torchvision raises RuntimeError while it is imported."""
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    message = "expected torchvision, got RuntimeError: operator nms does not exist. .* same build"
    with pytest.raises(ImportError, match=message):
        build_backbone("torchvision:resnet18")


def import_or_skip(package: str):
    """Return the real package; not every build of torch has one that imports."""
    try:
        return import_module(package)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"could not import '{package}': {error}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package", "model"),
    [
        ("alexnet", "torchvision", "alexnet"),
        ("vgg16", "torchvision", "vgg16"),
        ("squeezenet1_0", "torchvision", "squeezenet1_0"),
        ("mobilenet_v2", "torchvision", "mobilenet_v2"),
        ("efficientnet_lite0", "timm", "tf_efficientnet_lite0"),
    ],
)
def test_our_architectures_compute_what_the_originals_do(
    name: str, package: str, model: str, tmp_path: Path
):
    module = import_or_skip(package)
    make = module.create_model if package == "timm" else module.models.get_model
    original = make(model).eval()
    path = tmp_path / "weights.safetensors"
    save_file(original.state_dict(), path)
    backbone = build_backbone(name, weights=path, frozen=True, output="logits")
    images = torch.randn(2, *backbone.input_size)
    with torch.no_grad():
        torch.testing.assert_close(backbone(images), original(images), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_features"),
    [("torchvision:resnet18", 512), ("torchvision:vit_b_16", 768), ("timm:resnet18", 512)],
)
def test_models_of_the_real_packages_become_backbones(name: str, n_features: int):
    import_or_skip(name.partition(":")[0])
    backbone = build_backbone(name).eval()
    assert backbone.n_features == n_features
    assert name not in ARCHITECTURES
