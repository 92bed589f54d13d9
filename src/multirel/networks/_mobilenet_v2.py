"""MobileNetV2 of Sandler et al. (2018), "Inverted residuals and linear bottlenecks", at width 1."""

from torch import Tensor, nn

from multirel._annotations import Float
from multirel.networks._architecture import N_CLASSES, Architecture, Layers
from multirel.networks._preprocessing import Preprocessing

__all__ = ["MOBILENET_V2"]

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and stride of the first block, stage by stage (the paper's Table 2)."""

N_STEM = 32
N_FEATURES = 1280
DROPOUT = 0.2


class InvertedResidual(nn.Module):
    """Widen by a 1 × 1 convolution, filter each channel alone, and narrow again without a ReLU."""

    def __init__(self, n_inputs: int, n_outputs: int, *, expansion: int, stride: int) -> None:
        super().__init__()
        n_hidden = n_inputs * expansion
        layers: list[nn.Module] = []
        if expansion > 1:
            layers.append(_convolution(n_inputs, n_hidden, kernel_size=1))
        layers += [
            _convolution(n_hidden, n_hidden, kernel_size=3, stride=stride, groups=n_hidden),
            nn.Conv2d(n_hidden, n_outputs, kernel_size=1, bias=False),
            nn.BatchNorm2d(n_outputs),
        ]
        self.conv = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and n_inputs == n_outputs

    def forward(self, images: Float[Tensor, "n i h w"]) -> Float[Tensor, "n o new_h new_w"]:
        """The narrow maps, plus the input where the shapes agree."""
        maps: Tensor = self.conv(images)
        return images + maps if self.has_shortcut else maps


def make_mobilenet_v2(output: str) -> Layers:
    """A convolution, seventeen inverted residuals and a wide convolution, averaged over the image."""
    layers: list[nn.Module] = [_convolution(3, N_STEM, kernel_size=3, stride=2)]
    n_inputs = N_STEM
    for expansion, n_outputs, n_blocks, first_stride in STAGES:
        for block in range(n_blocks):
            stride = first_stride if block == 0 else 1
            layers.append(InvertedResidual(n_inputs, n_outputs, expansion=expansion, stride=stride))
            n_inputs = n_outputs
    layers.append(_convolution(n_inputs, N_FEATURES, kernel_size=1))
    classifier = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(N_FEATURES, N_CLASSES))
    return Layers(
        features={
            "features": nn.Sequential(*layers),
            "avgpool": nn.AdaptiveAvgPool2d(1),
            "flatten": nn.Flatten(),
        },
        further={"classifier": classifier} if output == "logits" else {},
    )


def _convolution(
    n_inputs: int, n_outputs: int, *, kernel_size: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(
            n_inputs,
            n_outputs,
            kernel_size,
            stride=stride,
            padding=kernel_size // 2,
            groups=groups,
            bias=False,
        ),
        nn.BatchNorm2d(n_outputs),
        nn.ReLU6(inplace=True),
    )


MOBILENET_V2 = Architecture(
    make_layers=make_mobilenet_v2,
    n_features={"features": N_FEATURES, "logits": N_CLASSES},
    further_layers={"logits": "classifier.1."},
    preprocessing=Preprocessing(resize=256, crop=224),
    smallest_side=1,
)
"""MobileNetV2 with torchvision's key names."""
