"""A small convolutional network for small images, such as digits and characters."""

from torch import nn

from multirel.networks._architecture import Architecture, Layers
from multirel.networks._preprocessing import Preprocessing

__all__ = ["SMALL_CNN"]

CHANNELS = (32, 64, 128)
N_GROUPS = 8
SIDE = 32
CENTER = (0.5, 0.5, 0.5)


def make_small_cnn(output: str) -> Layers:
    """Three blocks of convolution, normalization, ReLU and pooling, averaged over the image.

    Group normalization treats every image alone, so that mixed tasks, small batches and several processes
    do not change the result.
    """
    del output  # There is one.
    features = nn.Sequential()
    n_inputs = 3
    for n_outputs in CHANNELS:
        features.append(nn.Conv2d(n_inputs, n_outputs, kernel_size=3, padding=1, bias=False))
        features.append(nn.GroupNorm(N_GROUPS, n_outputs))
        features.append(nn.ReLU(inplace=True))
        features.append(nn.MaxPool2d(kernel_size=2, stride=2))
        n_inputs = n_outputs
    pool = {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    return Layers(features={"features": features, **pool})


SMALL_CNN = Architecture(
    make_layers=make_small_cnn,
    n_features={"features": CHANNELS[-1]},
    further_layers={},
    preprocessing=Preprocessing(resize=SIDE, crop=SIDE, mean=CENTER, std=CENTER),
    smallest_side=8,
)
"""The only architecture without a public weight file: it is small enough to start from nothing."""
