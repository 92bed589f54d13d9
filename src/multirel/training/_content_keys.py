"""Names for frozen layers and for images by what they hold: equal content, equal key."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import ExifTags, Image
from torch import Tensor, nn

from multirel.networks import Backbone

__all__ = [
    "bytes_of",
    "digest",
    "key_of_image",
    "key_of_layers",
    "read_image_file",
    "reading_error",
    "tensors_of",
    "type_error",
]

FORMAT = 1
"""Counts the changes of what keys mean, so that features of an older meaning are not taken for new ones."""

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""What differs between processes in the text form of a layer that holds a function."""

LENGTH_BYTES = 8


def key_of_layers(backbone: Backbone, layers: Mapping[str, nn.Module]) -> str:
    """The architecture, and a hash of all that decides what these layers of `backbone` compute."""
    text = {name: ADDRESS.sub("", repr(layer)) for name, layer in layers.items()}
    settings = [FORMAT, backbone.name, text, repr(backbone.preprocessing)]
    parts: list[bytes | memoryview] = [json.dumps(settings).encode()]
    for name, value in tensors_of(layers):
        parts += [f"{name} {value.dtype} {tuple(value.shape)}".encode(), bytes_of(value)]
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", backbone.name)
    return f"{readable}-{digest(*parts)}"


def key_of_image(image: Any, number: int) -> str:
    """A hash of all that decides what preprocessing makes of an image.

    Args:
        image: A path, whose file counts; a PIL image, an array, or a tensor, whose pixels count.
        number: Its number, for errors.

    Raises:
        TypeError: If it is something else.
        ValueError: If it cannot be read.
    """
    if isinstance(image, str | os.PathLike):
        return digest(b"file", read_image_file(image))
    if isinstance(image, Image.Image):
        try:
            return digest(b"picture", *_parts_of(image))
        # A decoder raises whatever a broken file makes of it.
        except Exception as error:
            name = getattr(image, "filename", "") or f"image {number}"
            raise reading_error(name, error) from error
    if isinstance(image, Tensor):
        header = f"{image.dtype} {tuple(image.shape)}"
        return digest(b"tensor", header.encode(), bytes_of(image))
    if isinstance(image, np.ndarray):
        header = f"{image.dtype.str} {image.shape}"
        return digest(b"array", header.encode(), image.tobytes())
    raise type_error(f"{type(image).__name__} as image {number}")


def _parts_of(image: Image.Image) -> list[bytes]:
    """The pixels, and what else preprocessing looks at: which side is up, and what is transparent."""
    image.load()
    has_palette = image.mode in ("P", "PA")
    pixels = image.convert("RGBA") if has_palette else image
    header = [
        image.mode,
        image.size,
        image.getexif().get(ExifTags.Base.Orientation),
        image.info.get("transparency"),
        image.has_transparency_data,
    ]
    return [repr(header).encode(), pixels.tobytes()]


def read_image_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file, or an error that names it."""
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise reading_error(path, error) from error


def reading_error(name: object, error: Exception) -> ValueError:
    """The error for an image that cannot be read."""
    return ValueError(
        f"`images` must be readable: expected a whole picture, got {name}, which fails with "
        f"{type(error).__name__}: {error}. Repair the file or leave it out."
    )


def type_error(got: str) -> TypeError:
    """The error for what is no image."""
    return TypeError(
        f"`images` must be pictures: expected paths, PIL images, arrays or tensors of uint8, or one "
        f"floating tensor that is preprocessed, got {got}. Use `Backbone.preprocess` for tensors."
    )


def tensors_of(layers: Mapping[str, nn.Module]) -> Iterator[tuple[str, Tensor]]:
    """The weights and statistics of layers, with their names."""
    for name, layer in layers.items():
        yield from layer.named_parameters(prefix=name)
        yield from layer.named_buffers(prefix=name)


def digest(*parts: bytes | memoryview) -> str:
    """The SHA-256 of the parts, in hexadecimal digits; their lengths keep neighbors apart."""
    found = sha256()
    for part in parts:
        found.update(len(part).to_bytes(LENGTH_BYTES, "big"))
        found.update(part)
    return found.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of a tensor, row-major, whatever its layout in memory."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data
