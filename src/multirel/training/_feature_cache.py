"""Features of the frozen layers of a backbone, evaluated once and kept on disk."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from multirel._annotations import Float
from multirel.exceptions import NotFiniteError
from multirel.networks import Backbone
from multirel.training._content_keys import (
    digest,
    key_of_image,
    key_of_layers,
    read_image_file,
    reading_error,
    tensors_of,
    type_error,
)
from multirel.training._feature_store import FeatureStore

__all__ = ["cached_features"]

Picture: TypeAlias = str | os.PathLike[str] | Image.Image | NDArray[np.uint8] | Tensor
Progress: TypeAlias = Callable[[int, int], object]

BATCH_AXES = 4


def cached_features(
    backbone: Backbone,
    images: Picture | Sequence[Picture],
    *,
    folder: str | os.PathLike[str],
    batch_size: int = 64,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> Float[Tensor, "n *values"]:
    """What the frozen layers of `backbone` make of `images`, on the CPU, evaluated only if `folder` lacks it.

    That is `backbone.prefix` of the preprocessed images; for a backbone of `build_backbone` a row per image.
    The cache goes by content: the layers, their weights, the preprocessing, and the bytes of each image file
    or the pixels of each picture. Images under other names, in another order, or some of them find what is
    there, and of images that are added only those are evaluated. Device and batch size are not part of the
    key: they change features by rounding only.

    Every batch is stored as soon as it is evaluated, whole or not at all: a run that was killed goes on where
    it was. Several processes may share the folder. Nothing in it is ever run when it is read.

    Args:
        backbone: A backbone with `frozen=True` or `frozen="features"`. It comes back in the mode and on the
            device in which it was.
        images: Paths of image files, PIL images, or uint8 arrays or tensors as `Backbone.preprocess` takes
            them; or one floating tensor (n, 3, height, width) that is preprocessed already.
        folder: Where the features are kept. It is made if it does not exist, and may be deleted at any time.
        batch_size: How many images are evaluated at once, and stored in one file.
        device: Where to evaluate. None means where the backbone is.
        progress: Called with the number of images that are done and their total, at first and after every
            batch.

    Raises:
        TypeError: If `backbone` or an image is something else.
        ValueError: If the layers are not frozen or their weights are random, if they do not treat every image
            alone, or if an image cannot be read; the message names the file.
        NotFiniteError: If the features of an image are not finite.

    Warns:
        MultirelWarning: If a file of the cache is damaged. Its features are evaluated again.
    """
    layers = _check_frozen_layers(backbone)
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"`folder` must be a path: got {type(folder).__name__}.")
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1: got {batch_size}. Try 64.")
    pictures = _as_sequence(images)
    keys = [key_of_image(picture, number) for number, picture in enumerate(pictures)]
    store = FeatureStore(Path(folder).expanduser() / key_of_layers(backbone, layers))
    result = _Result(keys)
    for stored_keys, features in store.read(set(keys)):
        result.fill(stored_keys, features)
    report = progress or _say_nothing
    report(result.n_done, len(keys))
    missing = result.missing()
    if missing:
        with _evaluation(layers, device):
            for start in range(0, len(missing), batch_size):
                some = missing[start : start + batch_size]
                features = _evaluate(backbone, pictures, some)
                store.write([key for _, key in some], features)
                result.fill([key for _, key in some], features)
                report(result.n_done, len(keys))
    return result.features()


def _say_nothing(n_done: int, n_images: int) -> None:
    """What happens without `progress`."""


@final
class _Result:
    """The features in the order of the images, some of which may be equal.

    Args:
        keys: The key of each image.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.n_done = 0
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, key in enumerate(keys):
            self._places[key].append(place)
        self._unfilled = dict(self._places)
        self._n_images = len(keys)
        self._features = torch.empty(0)

    def fill(self, keys: Sequence[str], features: Tensor) -> None:
        """Put features where their keys belong. Keys of other images are passed over."""
        if self.n_done == 0:
            self._features = features.new_empty(self._n_images, *features.shape[1:])
        for key, row in zip(keys, features, strict=True):
            places = self._unfilled.pop(key, [])
            self._features[places] = row
            self.n_done += len(places)

    def missing(self) -> list[tuple[int, str]]:
        """Key by key that has no features yet, the number of the first image that has it."""
        return [(places[0], key) for key, places in self._unfilled.items()]

    def features(self) -> Tensor:
        """The features, once nothing is missing."""
        return self._features


def _check_frozen_layers(backbone: Any) -> dict[str, nn.Module]:
    """The layers that `prefix` evaluates, by name, or an error if what they compute may change."""
    if not isinstance(backbone, Backbone):
        raise TypeError(
            f"`backbone` must be a Backbone: got {type(backbone).__name__}. Make one with "
            f"`build_backbone`, or pass the `backbone` of a network."
        )
    layers = {name: backbone.get_submodule(name) for name in backbone._prefix}
    trained = [name for name, value in tensors_of(layers) if value.requires_grad]
    if not layers or trained:
        got = f"{trained[0]}, which requires gradients," if trained else "frozen=False"
        raise ValueError(
            f"`backbone` must have frozen layers, since features of trained ones change: got {got} in "
            f"{backbone.name}. Build it with frozen=True or frozen='features'."
        )
    is_random = backbone.weights_checksum is None
    if is_random or (backbone.frozen is True and backbone.new_layers):
        got = "random weights" if is_random else f"random {' and '.join(backbone.new_layers)}"
        raise ValueError(
            f"`backbone` must have the weights of a file in all frozen layers: got {got} in "
            f"{backbone.name}. Build it with `weights`."
        )
    _check_every_image_is_alone(layers)
    return layers


def _check_every_image_is_alone(layers: Mapping[str, nn.Module]) -> None:
    for name, layer in layers.items():
        for key, part in layer.named_modules(prefix=name):
            if isinstance(part, _BatchNorm) and part.running_mean is None:
                raise ValueError(
                    f"`backbone` must treat every image alone: got {key}, a batch normalization that "
                    f"takes the statistics of the batch. Give it track_running_stats=True and "
                    f"statistics."
                )


def _as_sequence(images: Any) -> Sequence[Any] | Tensor:
    """One entry per image. A tensor that is preprocessed stays a tensor."""
    sequence: Sequence[Any] | Tensor
    if isinstance(images, Tensor) and images.is_floating_point():
        sequence = images
    elif isinstance(images, str | os.PathLike | Image.Image):
        sequence = [images]
    elif isinstance(images, np.ndarray | Tensor):
        sequence = list(images) if images.ndim == BATCH_AXES else [images]
    elif isinstance(images, Sequence) and not isinstance(images, bytes):
        sequence = images
    else:
        raise type_error(type(images).__name__)
    if len(sequence) == 0:
        raise ValueError("`images` must hold at least one image: got none. Give an image.")
    return sequence


def _evaluate(
    backbone: Backbone, pictures: Sequence[Any] | Tensor, some: Sequence[tuple[int, str]]
) -> Tensor:
    """The features of some images, given by number and key, on the CPU."""
    numbers = [number for number, _ in some]
    if isinstance(pictures, Tensor):
        weight = next(backbone.parameters())
        images = pictures[numbers].to(device=weight.device, dtype=weight.dtype)
    else:
        images = backbone.preprocess([_open(pictures[number], key) for number, key in some])
    # The cache outlives the loop that fills it, and with it the loop's choice of a lower precision.
    with torch.no_grad(), torch.autocast(images.device.type, enabled=False):
        features = backbone.prefix(images).cpu().contiguous()
    is_finite = features.flatten(1).isfinite().all(1)
    if not is_finite.all():
        number = numbers[int(is_finite.int().argmin())]
        picture = pictures[number]
        name = picture if isinstance(picture, str | os.PathLike) else f"image {number}"
        raise NotFiniteError(
            f"`images` must have finite features: got NaN or infinity for {name}. Check the image, and "
            f"the weights of {backbone.name}."
        )
    return features


def _open(picture: Any, key: str) -> Any:
    """The picture in a file; anything else as it is."""
    if not isinstance(picture, str | os.PathLike):
        return picture
    content = read_image_file(picture)
    if digest(b"file", content) != key:
        raise ValueError(
            f"`images` must stay as they are while they are read: got {picture}, which has changed. "
            f"Run it again."
        )
    try:
        opened = Image.open(BytesIO(content))
    # A decoder raises whatever a broken file makes of it.
    except Exception as error:
        raise reading_error(picture, error) from error
    # Preprocessing names it in its errors.
    opened.filename = os.fspath(picture)
    return opened


@contextmanager
def _evaluation(
    layers: Mapping[str, nn.Module], device: str | torch.device | None
) -> Iterator[None]:
    """The layers on `device` and in evaluation mode; then again as they were."""
    modes = {part: part.training for layer in layers.values() for part in layer.modules()}
    home = next(value for _, value in tensors_of(layers)).device
    try:
        for layer in layers.values():
            layer.to(device or home).eval()
        yield
    finally:
        for layer in layers.values():
            layer.to(home)
        for part, mode in modes.items():
            part.training = mode
