"""Images as the batch that a backbone expects: RGB, resized, cropped at the center, standardized."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from multirel._annotations import Float

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "Images", "Preprocessing"]

Picture: TypeAlias = Image.Image | NDArray[np.uint8] | Tensor
Images: TypeAlias = Picture | Sequence[Picture]

Triple = tuple[float, float, float]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)

INTERPOLATIONS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}

LONGEST_SIDE = 8192
"""A resized image with a longer side is cut before it is resized, or a thin line would fill the memory."""

BITS_TO_DROP = 8
"""Images of 16 bits per channel keep their upper 8."""

CHANNELS = (1, 3, 4)
"""Channels of a gray, a color and a transparent image."""

COLOR_AXES = 3
BATCH_AXES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessing:
    """What turns images into the batch that a backbone was trained on.

    A value: equal settings are equal, and `repr` tells them apart, so that caches can use it as a key.
    """

    resize: int
    """Length of the shorter side after resizing."""

    crop: int
    """Height and width of the square that is cut from the center."""

    mean: Triple = IMAGENET_MEAN
    """Subtracted from each channel, on a scale where white is 1."""

    std: Triple = IMAGENET_STD
    """What each channel is divided by then."""

    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    """How pixels are resized."""

    def __call__(self, images: Images) -> Float[Tensor, "n 3 side side"]:
        """The batch of `images`, in their order, on the CPU.

        Photographs are turned upright as their EXIF entry says, gray and palette images become RGB,
        transparent ones are laid on white, and of an animation the first frame counts.

        Args:
            images: A PIL image, a uint8 array (H, W), (H, W, C) or (n, H, W, C), a uint8 tensor (H, W),
                (C, H, W) or (n, C, H, W), or a sequence of such images of any sizes.

        Raises:
            TypeError: If an image is something else.
            ValueError: If there is no image, or one cannot be read.
        """
        pixels = [np.asarray(self._resize_and_crop(image)) for image in _iter_rgb(images)]
        if not pixels:
            raise ValueError("`images` must hold at least one image: got none. Give an image.")
        # The channels stay the innermost axis in memory, which is the faster order on a CPU.
        batch = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)
        mean = torch.tensor(self.mean, dtype=torch.float32).view(3, 1, 1)
        std = torch.tensor(self.std, dtype=torch.float32).view(3, 1, 1)
        return (batch.to(torch.float32) / 255).sub_(mean).div_(std)

    def _resize_and_crop(self, image: Image.Image) -> Image.Image:
        width, height = image.size
        shorter = min(width, height)
        # Both rounded to the pixel, as in the figures that are published with the weight files.
        resized = [round(self.resize * side / shorter) for side in (width, height)]
        left, top = ((side - self.crop) // 2 for side in resized)
        method = INTERPOLATIONS[self.interpolation]
        if max(resized) <= LONGEST_SIDE:
            image = image.resize((resized[0], resized[1]), method)
            return image.crop((left, top, left + self.crop, top + self.crop))
        x, y = width / resized[0], height / resized[1]
        box = (left * x, top * y, (left + self.crop) * x, (top + self.crop) * y)
        return image.resize((self.crop, self.crop), method, box=box)


def _iter_rgb(images: Any) -> Iterator[Image.Image]:
    for number, picture in enumerate(_iter_pictures(images)):
        image = picture if isinstance(picture, Image.Image) else _from_pixels(picture, number)
        try:
            rgb = _to_rgb(image)
        # A decoder raises whatever a broken file makes of it.
        except Exception as error:
            name = getattr(image, "filename", "") or f"image {number}"
            raise ValueError(
                f"`images` must be readable: expected a whole picture, got {name}, which fails with "
                f"{type(error).__name__}: {error}. Repair the file or leave it out."
            ) from error
        yield rgb


def _iter_pictures(images: Any) -> Iterator[Picture]:
    """One picture after the other, whatever they came in."""
    if isinstance(images, Image.Image):
        yield images
    elif isinstance(images, np.ndarray | Tensor):
        yield from images if images.ndim == BATCH_AXES else (images,)
    elif isinstance(images, Sequence) and not isinstance(images, str | bytes):
        yield from images
    else:
        raise _type_error(type(images).__name__)


def _from_pixels(picture: Any, number: int) -> Image.Image:
    """The PIL image of an array (H, W) or (H, W, C), or of a tensor (H, W) or (C, H, W)."""
    if not isinstance(picture, np.ndarray | Tensor):
        raise _type_error(f"{type(picture).__name__} as image {number}")
    if picture.dtype not in (np.uint8, torch.uint8):
        raise _type_error(f"{picture.dtype} pixels in image {number}")
    if isinstance(picture, Tensor):
        expected = "(H, W) or (C, H, W)"
        pixels = picture.detach().cpu().numpy()
        pixels = pixels.transpose(1, 2, 0) if pixels.ndim == COLOR_AXES else pixels
    else:
        expected = "(H, W) or (H, W, C)"
        pixels = picture
    is_gray = pixels.ndim == COLOR_AXES - 1
    is_color = pixels.ndim == COLOR_AXES and pixels.shape[-1] in CHANNELS
    if not (is_gray or is_color) or pixels.size == 0:
        raise ValueError(
            f"`images` must have 1, 3 or 4 channels: expected the shape {expected} for each, "
            f"got {tuple(picture.shape)} for image {number}. Move or add the axis of the channels."
        )
    if is_color and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    return Image.fromarray(np.ascontiguousarray(pixels))


def _to_rgb(image: Image.Image) -> Image.Image:
    image.load()
    try:
        image = ImageOps.exif_transpose(image)
    # The picture is whole; a broken EXIF entry says nothing about which side is up.
    except Exception:
        pass
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> BITS_TO_DROP).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"mode {image.mode} does not say which pixel is white")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        background = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(background, image)
    return image.convert("RGB")


def _type_error(got: str) -> TypeError:
    return TypeError(
        f"`images` must be pictures: expected PIL images, or arrays or tensors of uint8, got {got}. "
        f"Open files with PIL.Image.open, and scale pixels to 0 … 255."
    )
