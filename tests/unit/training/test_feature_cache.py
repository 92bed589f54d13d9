"""Features of frozen layers are evaluated once, and what the cache returns is what the layers compute."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from multirel.exceptions import MultirelWarning, NotFiniteError
from multirel.networks import Backbone, build_backbone
from multirel.training._feature_cache import cached_features
from tests.environment import DEVICE

N_IMAGES = 7


def build(folder: Path, *, seed: int = 0, name: str = "small-cnn", **options) -> Backbone:
    """Return a frozen backbone with the weights of a file."""
    torch.manual_seed(seed)
    path = folder / f"{name}-{seed}.safetensors"
    save_file(build_backbone(name).state_dict(), path)
    return build_backbone(name, weights=path, **{"frozen": True, **options})


def save_images(folder: Path, *, n: int = N_IMAGES) -> list[Path]:
    """Return the paths of random pictures."""
    generator = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.png" for number in range(n)]
    for path in paths:
        Image.fromarray(generator.integers(256, size=(40, 36, 3), dtype=np.uint8)).save(path)
    return paths


def count_images(backbone: Backbone) -> list[int]:
    """Return a list to which every evaluation of the layers adds its number of images."""
    counts = []
    first = backbone.get_submodule("features")
    first.register_forward_pre_hook(lambda layer, inputs: counts.append(len(inputs[0])))
    return counts


def evaluate(backbone: Backbone, paths: list[Path]) -> torch.Tensor:
    with torch.no_grad():
        return backbone(backbone.preprocess([Image.open(path) for path in paths]))


def stored(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


@pytest.fixture
def backbone(tmp_path: Path) -> Backbone:
    return build(tmp_path)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return save_images(tmp_path / "images")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_cached_features_are_those_of_the_backbone(backbone, paths, cache, batch_size: int):
    found = cached_features(backbone, paths, folder=cache, batch_size=batch_size)
    torch.testing.assert_close(found, evaluate(backbone, paths), rtol=1e-5, atol=1e-6)
    assert not found.requires_grad


def test_the_second_call_evaluates_nothing_and_returns_the_same_bits(backbone, paths, cache):
    counts = count_images(backbone)
    first = cached_features(backbone, paths, folder=cache, batch_size=3)
    assert counts == [3, 3, 1]
    second = cached_features(backbone, paths, folder=cache, batch_size=5)
    assert counts == [3, 3, 1]
    assert torch.equal(first, second)


def test_an_equal_backbone_built_again_finds_the_features(backbone, paths, cache, tmp_path):
    first = cached_features(backbone, paths, folder=cache)
    again = build(tmp_path)
    counts = count_images(again)
    assert torch.equal(cached_features(again, paths, folder=cache), first)
    assert counts == []


def test_order_names_and_times_of_files_make_no_difference(backbone, paths, cache):
    first = cached_features(backbone, paths, folder=cache)
    counts = count_images(backbone)
    moved = [path.rename(path.with_name(f"moved-{path.name}")) for path in reversed(paths)]
    os.utime(moved[0], (0, 0))
    assert torch.equal(cached_features(backbone, moved, folder=cache), first.flip(0))
    assert torch.equal(cached_features(backbone, moved[2:4], folder=cache), first.flip(0)[2:4])
    assert counts == []


def test_only_images_that_are_added_are_evaluated(backbone, paths, cache):
    first = cached_features(backbone, paths[:4], folder=cache)
    counts = count_images(backbone)
    whole = cached_features(backbone, [*paths[5:], *paths[:4]], folder=cache)
    assert counts == [2]
    assert torch.equal(whole[2:], first)


def test_a_file_with_a_new_picture_is_evaluated_again(backbone, paths, cache):
    cached_features(backbone, paths, folder=cache)
    Image.new("RGB", (50, 50), "red").save(paths[2])
    counts = count_images(backbone)
    found = cached_features(backbone, paths, folder=cache)
    assert counts == [1]
    torch.testing.assert_close(found, evaluate(backbone, paths), rtol=1e-5, atol=1e-6)


def test_equal_images_are_evaluated_once(backbone, paths, cache):
    counts = count_images(backbone)
    found = cached_features(backbone, [paths[0], paths[1], paths[0]], folder=cache)
    assert counts == [2]
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])


def change_a_weight(backbone: Backbone) -> None:
    weight = next(backbone.parameters())
    with torch.no_grad():
        weight.view(-1)[0] += 1e-3


def change_the_preprocessing(backbone: Backbone) -> None:
    backbone.preprocessing = type(backbone.preprocessing)(resize=40, crop=32)


def change_the_structure(backbone: Backbone) -> None:
    backbone.get_submodule("features")[3] = nn.AvgPool2d(kernel_size=2, stride=2)


def change_the_name(backbone: Backbone) -> None:
    backbone.name = "another"


def change_the_precision(backbone: Backbone) -> None:
    backbone.double()


@pytest.mark.parametrize(
    "change",
    [
        change_a_weight,
        change_the_preprocessing,
        change_the_structure,
        change_the_name,
        change_the_precision,
    ],
)
def test_what_layers_compute_is_part_of_the_key(backbone, paths, cache, change):
    cached_features(backbone, paths, folder=cache)
    change(backbone)
    counts = count_images(backbone)
    found = cached_features(backbone, paths, folder=cache)
    assert counts == [N_IMAGES]
    assert found.dtype == next(backbone.parameters()).dtype
    torch.testing.assert_close(found, evaluate(backbone, paths), rtol=1e-5, atol=1e-6)


def test_statistics_of_normalizations_are_part_of_the_key(paths, cache, tmp_path):
    backbone = build(tmp_path, name="mobilenet_v2")
    cached_features(backbone, paths[:1], folder=cache)
    next(backbone.buffers()).add_(0.1)
    counts = count_images(backbone)
    cached_features(backbone, paths[:1], folder=cache)
    assert counts == [1]


def test_the_features_in_front_of_trained_layers_are_shared_and_their_weights_do_not_count(
    paths, cache, tmp_path
):
    torch.manual_seed(0)
    weights = tmp_path / "whole.safetensors"
    save_file(build_backbone("mobilenet_v2", output="logits").state_dict(), weights)
    backbone = build_backbone("mobilenet_v2", weights=weights, frozen="features", output="logits")
    first = cached_features(backbone, paths[:2], folder=cache)
    with torch.no_grad():
        torch.testing.assert_close(
            backbone.eval().rest(first), evaluate(backbone, paths[:2]), rtol=1e-4, atol=1e-5
        )
        [*backbone.parameters()][-1].add_(1.0)
    counts = count_images(backbone)
    assert torch.equal(cached_features(backbone, paths[:2], folder=cache), first)
    assert counts == []


def test_pictures_arrays_and_preprocessed_tensors_are_images_too(backbone, paths, cache):
    expected = cached_features(backbone, paths, folder=cache)
    opened = [Image.open(path) for path in paths]
    arrays = np.stack([np.asarray(picture) for picture in opened])
    kinds = {
        "pictures": opened,
        "array": arrays,
        "pixels": torch.from_numpy(arrays).permute(0, 3, 1, 2),
        "preprocessed": backbone.preprocess(opened),
    }
    for name, images in kinds.items():
        counts = count_images(backbone)
        found = [cached_features(backbone, images, folder=cache) for _ in range(2)]
        assert sum(counts) == N_IMAGES, name
        assert torch.equal(*found)
        torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=1e-6)


def test_one_picture_needs_no_list(backbone, paths, cache):
    expected = cached_features(backbone, paths[:1], folder=cache)
    for image in (paths[0], str(paths[0]), Image.open(paths[0]), np.asarray(Image.open(paths[0]))):
        found = cached_features(backbone, image, folder=cache)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_what_preprocessing_looks_at_tells_pictures_apart(backbone, cache):
    """The side that is up, the palette, and the color that is transparent."""
    generator = np.random.default_rng(1)
    plain = Image.fromarray(generator.integers(256, size=(40, 40, 3), dtype=np.uint8))
    turned = plain.copy()
    turned.getexif()[274] = 6
    indices = plain.convert("P", palette=Image.Palette.ADAPTIVE)
    recolored = indices.copy()
    recolored.putpalette(list(reversed(indices.getpalette())))
    see_through = indices.copy()
    see_through.info["transparency"] = int(np.asarray(indices)[0, 0])
    pictures = [plain, turned, indices, recolored, see_through]
    found = cached_features(backbone, pictures, folder=cache)
    expected = torch.cat([backbone(backbone.preprocess(picture)) for picture in pictures])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert len(found.unique(dim=0)) == len(pictures)


def test_the_backbone_comes_back_in_its_mode(paths, cache, tmp_path):
    """Dropout and batch statistics are off while features are evaluated, whoever turned them on."""
    backbone = build(tmp_path, name="mobilenet_v2")
    expected = evaluate(backbone, paths[:3])
    for layer in backbone.modules():
        layer.training = True
    statistics = [buffer.clone() for buffer in backbone.buffers()]
    found = cached_features(backbone, paths[:3], folder=cache)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert all(layer.training for layer in backbone.modules())
    assert all(map(torch.equal, backbone.buffers(), statistics))


def test_the_mode_comes_back_after_an_error(backbone, paths, cache):
    backbone.get_submodule("features").train()
    paths[1].write_bytes(b"no picture")
    with pytest.raises(ValueError, match="must be readable"):
        cached_features(backbone, paths, folder=cache)
    assert backbone.get_submodule("features").training


def test_a_lower_precision_around_the_call_does_not_reach_the_cache(backbone, paths, cache):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = cached_features(backbone, paths, folder=cache)
    torch.testing.assert_close(found, evaluate(backbone, paths), rtol=1e-5, atol=1e-6)


def test_the_device_of_the_evaluation_is_not_part_of_the_key(backbone, paths, cache):
    found = cached_features(backbone, paths, folder=cache, device=DEVICE)
    counts = count_images(backbone)
    assert torch.equal(cached_features(backbone, paths, folder=cache, device="cpu"), found)
    assert counts == []
    assert found.device.type == next(backbone.parameters()).device.type == "cpu"


def test_progress_is_reported_in_images(backbone, paths, cache):
    reports = []
    for images in (paths[:4], [*paths, paths[0]]):
        cached_features(
            backbone,
            images,
            folder=cache,
            batch_size=2,
            progress=lambda done, total: reports.append((done, total)),
        )
    assert reports == [(0, 4), (2, 4), (4, 4), (5, 8), (7, 8), (8, 8)]


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit_of_a_feature(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def overwrite_the_header(path: Path) -> None:
    path.write_bytes(b"\xff" * 200)


def hold_something_else(path: Path) -> None:
    save_file({"other": torch.zeros(3)}, path)


@pytest.mark.parametrize(
    "damage",
    [cut_short, empty, flip_a_bit_of_a_feature, overwrite_the_header, hold_something_else],
)
def test_a_damaged_file_is_named_and_computed_again(backbone, paths, cache, damage):
    first = cached_features(backbone, paths, folder=cache, batch_size=4)
    counts = count_images(backbone)
    broken = next(path for path in stored(cache) if len(load_file(path)["images"]) == 4)
    damage(broken)
    with pytest.warns(MultirelWarning, match=f"{broken} are damaged: .+ They are computed again"):
        again = cached_features(backbone, paths, folder=cache, batch_size=4)
    assert counts == [4]
    assert torch.equal(again, first)
    assert torch.equal(cached_features(backbone, paths, folder=cache), first)


def test_a_file_that_fails_to_be_written_leaves_nothing(backbone, paths, cache, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        cached_features(backbone, paths, folder=cache)
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_what_a_killed_process_left_is_taken_away_once_it_is_old(backbone, paths, cache):
    cached_features(backbone, paths[:1], folder=cache)
    young, old = (stored(cache)[0].with_name(f"{name}.unfinished") for name in ("young", "old"))
    young.write_bytes(b"")
    old.write_bytes(b"")
    yesterday = time.time() - 24 * 3600
    os.utime(old, (yesterday, yesterday))
    cached_features(backbone, paths, folder=cache)
    assert young.exists()
    assert not old.exists()


def test_the_folder_is_named_after_the_architecture(backbone, paths, cache):
    cached_features(backbone, paths, folder=cache)
    (folder,) = cache.iterdir()
    assert folder.name.startswith("small-cnn-")


def test_layers_that_train_are_refused(paths, cache, tmp_path):
    with pytest.raises(ValueError, match="must have frozen layers.+got frozen=False in small-cnn"):
        cached_features(build_backbone("small-cnn"), paths, folder=cache)
    backbone = build(tmp_path)
    backbone.get_submodule("features.0").requires_grad_(True)
    with pytest.raises(ValueError, match="got features.0.weight, which requires gradients, in sm"):
        cached_features(backbone, paths, folder=cache)


def test_random_layers_are_refused(backbone, paths, cache):
    backbone.new_layers = ("fc6",)
    with pytest.raises(ValueError, match="weights of a file in all frozen layers: got random fc6"):
        cached_features(backbone, paths, folder=cache)
    backbone.weights_checksum = None
    with pytest.raises(ValueError, match="got random weights in small-cnn. Build it with `weigh"):
        cached_features(backbone, paths, folder=cache)


def test_random_layers_after_the_frozen_ones_are_no_obstacle(paths, cache, tmp_path):
    weights = tmp_path / "features.safetensors"
    save_file(build_backbone("alexnet").state_dict(), weights)
    with pytest.warns(MultirelWarning, match="does not hold fc6"):
        backbone = build_backbone("alexnet", weights=weights, frozen="features", output="fc6")
    assert cached_features(backbone, paths[:1], folder=cache).shape == (1, 9216)


def test_layers_that_look_at_the_whole_batch_are_refused(backbone, paths, cache):
    norm = nn.BatchNorm2d(32, track_running_stats=False).requires_grad_(False)
    backbone.get_submodule("features")[1] = norm
    with pytest.raises(ValueError, match="treat every image alone: got features.1, a batch norm"):
        cached_features(backbone, paths, folder=cache)


def test_networks_are_no_backbones(paths, cache):
    with pytest.raises(TypeError, match="`backbone` must be a Backbone: got Linear"):
        cached_features(nn.Linear(2, 2), paths, folder=cache)


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        ([], ValueError, "`images` must hold at least one image: got none"),
        (torch.zeros(0, 3, 32, 32), ValueError, "`images` must hold at least one image"),
        (b"bytes", TypeError, "expected paths, PIL images, .+ got bytes"),
        ([3], TypeError, "got int as image 0"),
        ([torch.zeros(3, 32, 32)], TypeError, "got torch.float32 pixels in image 0"),
        (torch.zeros(3, 32, 32), ValueError, r"expected the shape \(n, 3, height, width\)"),
    ],
)
def test_what_is_no_image_is_refused(backbone, cache, images, error, message: str):
    with pytest.raises(error, match=message):
        cached_features(backbone, images, folder=cache)


def test_batches_hold_at_least_one_image(backbone, paths, cache):
    with pytest.raises(ValueError, match="`batch_size` must be at least 1: got 0"):
        cached_features(backbone, paths, folder=cache, batch_size=0)


def test_files_that_cannot_be_read_are_named(backbone, paths, cache):
    absent = paths[0].with_name("absent.png")
    with pytest.raises(ValueError, match=f"got {absent}, which fails with FileNotFoundError"):
        cached_features(backbone, [*paths, absent], folder=cache)
    paths[3].write_bytes(b"no picture")
    with pytest.raises(ValueError, match=f"got {paths[3]}, which fails with UnidentifiedImage"):
        cached_features(backbone, paths, folder=cache)
    paths[3].write_bytes(paths[2].read_bytes()[:1000])
    with pytest.raises(ValueError, match=f"got {paths[3]}, which fails with .+ Repair the file"):
        cached_features(backbone, paths, folder=cache)


def test_pictures_that_cannot_be_read_are_named(backbone, paths, cache):
    paths[3].write_bytes(paths[2].read_bytes()[:1000])
    with (
        Image.open(paths[3]) as picture,
        pytest.raises(ValueError, match=f"got {paths[3]}, which fails with"),
    ):
        cached_features(backbone, [picture], folder=cache)


def test_files_that_change_meanwhile_are_named(backbone, paths, cache):
    def replace(n_done: int, n_images: int) -> None:
        Image.new("RGB", (50, 50), "red").save(paths[1])

    with pytest.raises(ValueError, match=f"must stay as they are .+ got {paths[1]}, which has ch"):
        cached_features(backbone, paths, folder=cache, progress=replace)


def test_features_that_are_not_finite_are_not_kept(backbone, paths, cache):
    batch = backbone.preprocess([Image.open(path) for path in paths])
    batch[4, 0, 0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match="got NaN or infinity for image 4. Check the image"):
        cached_features(backbone, batch, folder=cache)
    assert stored(cache) == []


def test_a_file_in_the_place_of_the_folder_is_named(backbone, paths, cache):
    cache.write_bytes(b"")
    with pytest.raises(ValueError, match=f"`folder` must be a folder: got {cache}, where a file"):
        cached_features(backbone, paths, folder=cache)


def test_folders_of_features_are_paths(backbone, paths):
    with pytest.raises(TypeError, match="`folder` must be a path: got NoneType"):
        cached_features(backbone, paths, folder=None)


@pytest.mark.parametrize("failing", ["mkdir", "open"])
def test_folders_that_cannot_be_written_are_named(backbone, paths, cache, failing, monkeypatch):
    """When it is made, and when the disk is full."""

    def fails(self, *args, **kwargs):
        if failing == "mkdir" or args == ("xb",):
            raise OSError("no space left")
        return opens(self, *args, **kwargs)

    opens = Path.open
    monkeypatch.setattr(Path, failing, fails)
    with pytest.raises(OSError, match=r"with room for features: .*\(no space left\). Make room"):
        cached_features(backbone, paths, folder=cache)
