"""Images of every kind become the same kind of batch."""

import io
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from multirel.networks import Preprocessing

PLAIN = Preprocessing(resize=8, crop=8, mean=(0, 0, 0), std=(1, 1, 1))
"""Leaves images of 8 × 8 pixels as they are, on a scale from 0 to 1."""

ORIENTATION = 0x0112
TURN_LEFT = 8


def make_image(mode: str = "RGB", *, width: int = 8, height: int = 8) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def as_batch(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image.convert("RGB")).copy()).permute(2, 0, 1)[None] / 255


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "CMYK", "YCbCr", "HSV"])
def test_every_kind_of_image_becomes_rgb(mode: str):
    image = make_image(mode)
    batch = PLAIN(image)
    assert (batch.shape, batch.dtype) == ((1, 3, 8, 8), torch.float32)
    torch.testing.assert_close(batch, as_batch(image))


@pytest.mark.parametrize("mode", ["L", "1", "I;16"])
def test_gray_images_have_three_equal_channels(mode: str):
    image = Image.new(mode, (8, 8), 1 if mode == "1" else 100)
    batch = PLAIN(image)
    assert torch.equal(batch[:, 0], batch[:, 1])
    assert torch.equal(batch[:, 0], batch[:, 2])


def test_transparent_pixels_are_white():
    image = Image.new("RGBA", (8, 8), (10, 20, 30, 0))
    image.putpixel((0, 0), (10, 20, 30, 255))
    batch = PLAIN(image)
    assert batch[0, :, 5, 5].tolist() == [1, 1, 1]
    torch.testing.assert_close(batch[0, :, 0, 0], torch.tensor([10.0, 20, 30]) / 255)


def test_a_palette_may_have_a_transparent_color():
    image = Image.new("P", (8, 8), 0)
    image.putpalette([200, 0, 0, 0, 200, 0])
    image.putpixel((0, 0), 1)
    image.info["transparency"] = 0
    batch = PLAIN(image)
    assert batch[0, :, 5, 5].tolist() == [1, 1, 1]
    torch.testing.assert_close(batch[0, :, 0, 0], torch.tensor([0, 200, 0]) / 255)


def test_gray_images_may_be_transparent():
    assert (PLAIN(Image.new("LA", (8, 8), (0, 0))) == 1).all()


def test_sixteen_bits_keep_their_upper_half():
    pixels = np.full((8, 8), 0x80FF, dtype=np.uint16)
    torch.testing.assert_close(PLAIN(Image.fromarray(pixels)), torch.full((1, 3, 8, 8), 128 / 255))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_images_without_a_known_range_are_refused(mode: str):
    with pytest.raises(ValueError, match=f"image 1, which fails with .*mode {mode} does not say"):
        PLAIN([make_image(), Image.new(mode, (8, 8))])


def test_photographs_are_turned_upright():
    upright = make_image(width=8, height=12)
    stored = io.BytesIO()
    exif = Image.Exif()
    exif[ORIENTATION] = TURN_LEFT
    upright.transpose(Image.Transpose.ROTATE_270).save(stored, "PNG", exif=exif)
    preprocessing = Preprocessing(resize=8, crop=6, mean=(0, 0, 0), std=(1, 1, 1))
    turned = Image.open(stored)
    assert turned.size == (12, 8)
    assert torch.equal(preprocessing(turned), preprocessing(upright))


def test_a_broken_exif_entry_turns_nothing():
    image = make_image()
    image.info["exif"] = b"Exif\x00\x00broken"
    assert torch.equal(PLAIN(image), PLAIN(make_image()))


def test_the_first_frame_of_an_animation_counts():
    stored = io.BytesIO()
    frames = [Image.new("L", (8, 8), value) for value in (0, 255)]
    frames[0].save(stored, "GIF", save_all=True, append_images=frames[1:])
    assert PLAIN(Image.open(stored)).max() == 0


@pytest.mark.parametrize(("width", "height"), [(451, 300), (300, 451), (300, 300), (9, 100)])
def test_the_shorter_side_is_resized_and_the_center_cut(width: int, height: int):
    """As it is written down, with Pillow alone."""
    preprocessing = Preprocessing(resize=256, crop=224)
    image = make_image(width=width, height=height)
    shorter = min(width, height)
    size = (round(256 * width / shorter), round(256 * height / shorter))
    left, top = (size[0] - 224) // 2, (size[1] - 224) // 2
    resized = image.resize(size, Image.Resampling.BILINEAR)
    expected = as_batch(resized.crop((left, top, left + 224, top + 224)))
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    torch.testing.assert_close(preprocessing(image), (expected - mean) / std)


@pytest.mark.parametrize("size", [(1, 3000), (3000, 1)])
def test_thin_images_are_cut_before_they_fill_the_memory(size: tuple[int, int]):
    preprocessing = Preprocessing(resize=256, crop=224, mean=(0, 0, 0), std=(1, 1, 1))
    batch = preprocessing(Image.new("RGB", size, (51, 102, 153)))
    torch.testing.assert_close(batch.mean(dim=(0, 2, 3)), torch.tensor([0.2, 0.4, 0.6]))


def test_interpolations_differ():
    image = make_image(width=20, height=20)
    bicubic = Preprocessing(resize=8, crop=8, interpolation="bicubic")
    assert not torch.equal(bicubic(image), Preprocessing(resize=8, crop=8)(image))


def test_arrays_tensors_and_images_give_the_same_batch():
    image = make_image()
    array = np.asarray(image)
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1)
    expected = PLAIN([image, image])
    assert torch.equal(PLAIN(np.stack([array, array])), expected)
    assert torch.equal(PLAIN(torch.stack([tensor, tensor])), expected)
    assert torch.equal(PLAIN([array, tensor]), expected)
    assert torch.equal(PLAIN(array), expected[:1])
    assert torch.equal(PLAIN(tensor), expected[:1])


def test_gray_arrays_need_no_channel():
    array = np.asarray(make_image("L"))
    expected = PLAIN(make_image("L"))
    for given in (array, array[..., None], torch.from_numpy(array.copy()), array[None, :, :, None]):
        assert torch.equal(PLAIN(given), expected)


def test_transparent_arrays_are_laid_on_white():
    image = Image.new("RGBA", (8, 8), (10, 20, 30, 128))
    assert torch.equal(PLAIN(np.asarray(image)), PLAIN(image))


def test_images_of_several_sizes_share_a_batch():
    assert PLAIN([make_image(), make_image(width=30), make_image("L", height=9)]).shape[0] == 3


def test_the_same_image_gives_the_same_batch():
    image = make_image(width=30, height=20)
    assert torch.equal(PLAIN(image), PLAIN(image))
    assert image.size == (30, 20)


def test_channels_are_innermost_in_memory():
    assert PLAIN([make_image(), make_image()]).is_contiguous(memory_format=torch.channels_last)


def test_settings_are_values():
    assert pickle.loads(pickle.dumps(PLAIN)) == PLAIN
    assert Preprocessing(resize=8, crop=8) != PLAIN
    assert repr(Preprocessing(resize=8, crop=8)).startswith("Preprocessing(resize=8, crop=8, mean=")


@pytest.mark.parametrize(
    ("images", "got"),
    [
        (np.zeros((8, 8, 3)), "float64 pixels in image 0"),
        (torch.zeros(3, 8, 8), "torch.float32 pixels in image 0"),
        ("photo.jpg", "got str"),
        (["photo.jpg"], "str as image 0"),
        ([make_image(), None], "NoneType as image 1"),
        (3, "got int"),
    ],
)
def test_anything_else_is_refused(images, got: str):
    with pytest.raises(TypeError, match=f"`images` must be pictures: expected PIL images.*{got}"):
        PLAIN(images)


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (np.zeros((3, 8, 8), np.uint8), r"\(H, W\) or \(H, W, C\) .*got \(3, 8, 8\) for image 0"),
        (torch.zeros(8, 8, 3, dtype=torch.uint8), r"\(H, W\) or \(C, H, W\) .*got \(8, 8, 3\)"),
        ([np.zeros(8, np.uint8)], r"got \(8,\) for image 0"),
        (np.zeros((0, 8, 3), np.uint8), r"got \(0, 8, 3\)"),
    ],
)
def test_axes_in_another_order_are_refused(images, expected: str):
    with pytest.raises(ValueError, match=f"`images` must have 1, 3 or 4 channels: .*{expected}"):
        PLAIN(images)


@pytest.mark.parametrize("images", [[], np.zeros((0, 8, 8, 3), np.uint8)])
def test_at_least_one_image_is_needed(images):
    with pytest.raises(ValueError, match="`images` must hold at least one image: got none"):
        PLAIN(images)


def test_broken_files_are_named(tmp_path):
    whole = tmp_path / "whole.jpg"
    make_image(width=200, height=200).save(whole)
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(whole.read_bytes()[:2000])
    message = r"`images` must be readable: .*broken.jpg, which fails with OSError: .*truncated"
    with (
        Image.open(whole) as first,
        Image.open(broken) as second,
        pytest.raises(ValueError, match=message),
    ):
        PLAIN([first, second])
