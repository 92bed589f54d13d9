"""SqueezeNet 1.0 of Iandola et al. (2016): AlexNet's accuracy with fifty times fewer parameters."""

import torch
from torch import Tensor, nn

from multirel._annotations import Float
from multirel.networks._architecture import N_CLASSES, Architecture, Layers
from multirel.networks._preprocessing import Preprocessing

__all__ = ["SQUEEZENET1_0"]

N_FEATURES = 512


class Fire(nn.Module):
    """A narrow 1 × 1 convolution, then wide 1 × 1 and 3 × 3 convolutions side by side."""

    def __init__(self, n_inputs: int, n_squeezed: int, n_expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(n_inputs, n_squeezed, kernel_size=1)
        self.expand1x1 = nn.Conv2d(n_squeezed, n_expanded, kernel_size=1)
        self.expand3x3 = nn.Conv2d(n_squeezed, n_expanded, kernel_size=3, padding=1)

    def forward(
        self, images: Float[Tensor, "n i height width"]
    ) -> Float[Tensor, "n o height width"]:
        """Maps with twice `n_expanded` channels."""
        narrow = self.squeeze(images).relu()
        return torch.cat([self.expand1x1(narrow), self.expand3x3(narrow)], dim=1).relu()


def make_squeezenet(output: str) -> Layers:
    """One convolution and eight fire modules; the scores are a convolution too, pooled afterwards."""
    features = nn.Sequential(
        nn.Conv2d(3, 96, kernel_size=7, stride=2),
        nn.ReLU(inplace=True),
        _pool(),
        Fire(96, 16, 64),
        Fire(128, 16, 64),
        Fire(128, 32, 128),
        _pool(),
        Fire(256, 32, 128),
        Fire(256, 48, 192),
        Fire(384, 48, 192),
        Fire(384, 64, 256),
        _pool(),
        Fire(512, 64, 256),
    )
    if output == "features":
        pool = {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
        return Layers(features={"features": features, **pool})
    classifier = nn.Sequential(
        nn.Dropout(),
        nn.Conv2d(N_FEATURES, N_CLASSES, kernel_size=1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
    )
    return Layers(
        features={"features": features},
        further={"classifier": classifier, "flatten": nn.Flatten()},
    )


def _pool() -> nn.MaxPool2d:
    # Caffe's pooling, which the weights were trained with, counts windows that reach over the edge.
    return nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True)


SQUEEZENET1_0 = Architecture(
    make_layers=make_squeezenet,
    n_features={"features": N_FEATURES, "logits": N_CLASSES},
    further_layers={"logits": "classifier.1."},
    preprocessing=Preprocessing(resize=256, crop=224),
    smallest_side=21,
)
"""SqueezeNet 1.0 with torchvision's key names."""
