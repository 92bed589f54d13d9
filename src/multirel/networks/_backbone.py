"""The part of a network that all tasks share: images in, features out."""

from typing import Literal

import torch
from torch import Tensor, nn

from multirel._annotations import Float
from multirel.networks._architecture import Layers
from multirel.networks._preprocessing import Images, Preprocessing

__all__ = ["Backbone", "Frozen"]

Frozen = bool | Literal["features"]

IMAGE_AXES = 4


class Backbone(nn.Module):
    """Images to features, with the preprocessing that belongs to the weights.

    `build_backbone` makes one. Its `state_dict` has the keys of the public weight files. What is frozen
    has no gradients and stays in evaluation mode, also after `train()`, so that the statistics of batch
    normalizations stay as they are.

    Attributes:
        name: The architecture.
        output: The output that `forward` returns.
        n_features: Size of that output.
        input_size: Channels, height and width of the images that `preprocess` returns.
        frozen: True, False, or "features" if the layers up to that output are frozen.
        preprocessing: Images to batches on the CPU, as a value; `preprocess` moves them on.
        weights_checksum: SHA-256 of the weight file, or None for random weights. It names what the frozen
            layers compute, as far as a cache is concerned; trained layers have moved away from it.
        new_layers: Names of the layers that the weight file lacks, which are therefore random.
    """

    def __init__(
        self,
        layers: Layers,
        preprocessing: Preprocessing,
        *,
        name: str,
        output: str,
        n_features: int,
        frozen: Frozen = False,
        smallest_side: int = 1,
        weights_checksum: str | None = None,
        new_layers: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        for key, layer in {**layers.features, **layers.further}.items():
            self.add_module(key, layer)
        self.name = name
        self.output = output
        self.n_features = n_features
        self.input_size = (3, preprocessing.crop, preprocessing.crop)
        self.frozen = True if frozen and not layers.further else frozen
        self.preprocessing = preprocessing
        self.weights_checksum = weights_checksum
        self.new_layers = new_layers
        self._smallest_side = smallest_side
        self._prefix = [*layers.features] if frozen else []
        if self.frozen is True:
            self._prefix += layers.further
        self._rest = [key for key in self._modules if key not in self._prefix]
        for key in self._prefix:
            self.get_submodule(key).requires_grad_(False)
        self.train()

    def forward(self, images: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n features"]:
        """The features of a batch of images as `preprocess` returns it.

        Args:
            images: The batch. Sizes other than `input_size` are allowed.

        Raises:
            ValueError: If the batch has another shape, is too small, or holds whole numbers.
        """
        return self.rest(self.prefix(images))

    def prefix(self, images: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n *values"]:
        """What the frozen layers make of `images`: always the same, so it can be cached.

        If nothing is frozen, the images themselves.
        """
        self._check_images(images)
        if images.device.type == "cpu":
            # The faster order there, by 10 to 40 % in every architecture.
            images = images.contiguous(memory_format=torch.channels_last)
        return self._evaluate(self._prefix, images)

    def rest(self, values: Float[Tensor, "n *values"]) -> Float[Tensor, "n *features"]:
        """What the trained layers make of what `prefix` returned: the features."""
        return self._evaluate(self._rest, values)

    def preprocess(self, images: Images) -> Float[Tensor, "n 3 height width"]:
        """The batch of `images`, with the dtype and on the device of the weights.

        Args:
            images: A PIL image, a uint8 array or tensor, or a sequence of them; see `Preprocessing`.
        """
        weight = next(self.parameters())
        return self.preprocessing(images).to(device=weight.device, dtype=weight.dtype)

    def train(self, mode: bool = True) -> "Backbone":
        """Set the layers that are not frozen to training or evaluation mode."""
        super().train(mode and self.frozen is not True)
        for key in self._prefix:
            self.get_submodule(key).eval()
        return self

    def extra_repr(self) -> str:
        """What is not seen in the layers."""
        return (
            f"name={self.name!r}, output={self.output!r}, n_features={self.n_features}, "
            f"frozen={self.frozen!r}"
        )

    def _evaluate(self, keys: list[str], values: Tensor) -> Tensor:
        for key in keys:
            values = self.get_submodule(key)(values)
        return values

    def _check_images(self, images: Tensor) -> None:
        smallest = self._smallest_side
        if images.ndim != IMAGE_AXES or images.shape[1] != 3 or min(images.shape[2:]) < smallest:  # noqa: PLR2004
            raise ValueError(
                f"`images` must be a batch for {self.name}: expected the shape (n, 3, height, width) with "
                f"sides of at least {smallest}, got {tuple(images.shape)}. Use `preprocess`."
            )
        if not images.is_floating_point():
            raise ValueError(
                f"`images` must be standardized: expected floating point numbers, got {images.dtype}. "
                f"Use `preprocess`."
            )
