"""Images, the backbones that turn them into features, and features that are evaluated once."""

from copy import deepcopy
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from multirel.estimators._model import Model
from multirel.estimators._task_rows import TaskRows
from multirel.networks import Backbone, build_backbone
from multirel.training import cached_features
from multirel.training._surroundings import evaluating

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BackboneFeatures",
    "BackboneModel",
    "count_features",
    "evaluate_backbone",
    "is_frozen",
    "make_backbone",
    "to_images",
    "with_features",
]

IMAGES_PER_BATCH = 64
GRAY_AXES = 3
WHITE = 255.0


@dataclass(frozen=True, kw_only=True, eq=False)
class BackboneFeatures:
    """Features of images in their place, so that several fits need not evaluate a backbone again."""

    values: "NDArray[np.float32]"
    """A row of features per image."""

    backbone: nn.Module
    """The frozen backbone that has evaluated them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of images, and of features."""
        return self.values.shape

    def __getitem__(self, index: Any) -> "BackboneFeatures":
        return replace(self, values=self.values[index])


class BackboneModel(Model):
    """A model of features, behind the frozen backbone that evaluates them.

    Args:
        backbone: The backbone.
        inner: The model of its features.
        device: Where the backbone runs.
    """

    def __init__(self, backbone: nn.Module, inner: Model, *, device: torch.device | str) -> None:
        self.backbone = backbone
        self.inner = inner
        self.device = str(device)
        self.is_one_vs_rest = inner.is_one_vs_rest

    def scores(self, x: Any, task: "NDArray[np.int64]") -> "NDArray[np.float64]":
        if isinstance(x, BackboneFeatures):
            return self.inner.scores(x.values, task)
        return self.inner.scores(evaluate_backbone(self.backbone, x, device=self.device), task)


def make_backbone(estimator: Any, *, seed: int) -> nn.Module:
    """The backbone of an estimator: a copy of the user's module, or one by its name.

    A named one is frozen where there is a file with its weights, and else trains from random ones.

    Raises:
        TypeError: If `backbone` is neither a name nor a module.
        ValueError: If `weights` are given for a module.
    """
    backbone, weights = estimator.backbone, estimator.weights
    if isinstance(backbone, str):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return build_backbone(backbone, weights=weights, frozen=weights is not None)
    if not isinstance(backbone, nn.Module):
        raise TypeError(
            f"`backbone` must be a module, or the name of a backbone: got {type(backbone).__name__}. "
            f"See `build_backbone` for the names."
        )
    if weights is not None:
        raise ValueError(
            f"`weights` must be None where `backbone` is a module: got {weights!r}. Load them into the "
            f"module first."
        )
    return deepcopy(backbone)


def is_frozen(backbone: nn.Module) -> bool:
    """Whether no weight of a backbone trains."""
    return not any(parameter.requires_grad for parameter in backbone.parameters())


def to_images(backbone: nn.Module, x: "NDArray[Any]") -> Tensor:
    """Images as a backbone takes them, in single precision on the CPU.

    Pixels of uint8 are preprocessed by a backbone that has its own preprocessing, and scaled to 0 … 1 for
    any other. Floating numbers stay as they are.

    Args:
        backbone: The backbone.
        x: Images (n, C, H, W), or (n, H, W) for gray ones of uint8.
    """
    if x.dtype != np.uint8:
        return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    images = torch.from_numpy(np.array(x))
    if images.ndim == GRAY_AXES:
        images = images.unsqueeze(1)
    if isinstance(backbone, Backbone):
        return backbone.preprocessing(images)
    return images.float() / WHITE


def evaluate_backbone(
    backbone: nn.Module, x: "NDArray[Any]", *, device: torch.device | str
) -> "NDArray[np.float32]":
    """What a frozen backbone makes of images, "n F".

    Args:
        backbone: The backbone; it is moved to `device`.
        x: Images.
        device: Where to evaluate.
    """
    backbone.to(device)
    parts = []
    with evaluating(backbone), torch.no_grad():
        for start in range(0, len(x), IMAGES_PER_BATCH):
            images = to_images(backbone, x[start : start + IMAGES_PER_BATCH])
            features = backbone(images.to(device))
            _check_features(features)
            parts.append(features.float().cpu())
    values: NDArray[np.float32] = torch.cat(parts).numpy()
    return values


def with_features(rows: TaskRows, backbone: nn.Module, *, device: torch.device | str) -> TaskRows:
    """The rows with features in the place of images, each image evaluated once.

    Args:
        rows: Rows whose `x` are images, or features that have been evaluated before.
        backbone: A frozen backbone.
        device: Where to evaluate.
    """
    if isinstance(rows.x, BackboneFeatures):
        return rows
    some, source = np.unique(rows.source, return_inverse=True)
    images = rows.x[some]
    if isinstance(backbone, Backbone) and backbone.weights_checksum is not None:
        # Equal images are found by their content, as in any cache.
        pictures = torch.from_numpy(images) if images.dtype == np.uint8 else None
        with TemporaryDirectory(prefix="multirel-") as folder:
            values = cached_features(
                backbone,
                to_images(backbone, images) if pictures is None else _pictures(pictures),
                folder=folder,
                batch_size=IMAGES_PER_BATCH,
                device=device,
            ).numpy()
    else:
        values = evaluate_backbone(backbone, images, device=device)
    return replace(rows, x=BackboneFeatures(values=values, backbone=backbone), source=source)


def _pictures(images: Tensor) -> list[Tensor]:
    return list(images.unsqueeze(1) if images.ndim == GRAY_AXES else images)


def count_features(backbone: nn.Module, image: "NDArray[Any]") -> int:
    """How many features a backbone gives, by what it says or else by what it makes of one image.

    Args:
        backbone: The backbone.
        image: One image, as a batch.

    Raises:
        ValueError: If it gives no row of features.
    """
    known = getattr(backbone, "n_features", None)
    if isinstance(known, int):
        return known
    device = next((value.device for value in backbone.parameters()), torch.device("cpu"))
    with evaluating(backbone), torch.no_grad():
        features = backbone(to_images(backbone, image).to(device))
    _check_features(features)
    return int(features.shape[1])


def _check_features(features: Any) -> None:
    if not isinstance(features, Tensor) or features.ndim != 2:  # noqa: PLR2004
        got = (
            tuple(features.shape) if isinstance(features, Tensor) else f"{type(features).__name__}"
        )
        raise ValueError(
            f"`backbone` must give a row of features per image: expected shape (n, features), got {got}. "
            f"Let it end with `torch.nn.Flatten()`."
        )
