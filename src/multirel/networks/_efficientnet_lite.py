"""EfficientNet-Lite0: Tan and Le (2019) with ReLU6 and without squeeze-and-excitation."""

from torch import Tensor, nn
from torch.nn import functional as F

from multirel._annotations import Float
from multirel.networks._architecture import N_CLASSES, Architecture, Layers
from multirel.networks._preprocessing import Preprocessing

__all__ = ["EFFICIENTNET_LITE0"]

STAGES = (
    (1, 16, 1, 3, 1),
    (6, 24, 2, 3, 2),
    (6, 40, 2, 5, 2),
    (6, 80, 3, 3, 2),
    (6, 112, 3, 5, 1),
    (6, 192, 4, 5, 2),
    (6, 320, 1, 3, 1),
)
"""Expansion, channels, blocks, kernel size and stride of the first block, stage by stage."""

N_STEM = 32
N_FEATURES = 1280
DROPOUT = 0.2
MEAN_OF_TENSORFLOW = (0.5, 0.5, 0.5)


class StridedConv2d(nn.Conv2d):
    """A convolution padded as in TensorFlow: an odd padding has its larger half below and right."""

    def forward(self, images: Float[Tensor, "n i h w"]) -> Float[Tensor, "n o new_h new_w"]:
        """Maps of ⌈height / stride⌉ × ⌈width / stride⌉."""
        padding: list[int] = []
        # `F.pad` takes the last axis first.
        for axis in (1, 0):
            kernel, stride = self.kernel_size[axis], self.stride[axis]
            side = images.shape[axis - 2]
            total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            padding += [total // 2, total - total // 2]
        return super().forward(F.pad(images, padding))


class DepthwiseSeparable(nn.Module):
    """Filter each channel alone, then mix the channels: the block of the first stage."""

    def __init__(self, n_inputs: int, n_outputs: int, *, kernel_size: int, stride: int) -> None:
        super().__init__()
        self.conv_dw = _convolution(
            n_inputs, n_inputs, kernel_size=kernel_size, stride=stride, groups=n_inputs
        )
        self.bn1 = _norm(n_inputs)
        self.conv_pw = _convolution(n_inputs, n_outputs)
        self.bn2 = _norm(n_outputs)
        self.has_shortcut = stride == 1 and n_inputs == n_outputs

    def forward(self, images: Float[Tensor, "n i h w"]) -> Float[Tensor, "n o new_h new_w"]:
        """The mixed maps, plus the input where the shapes agree."""
        filtered = F.relu6(self.bn1(self.conv_dw(images)))
        maps: Tensor = self.bn2(self.conv_pw(filtered))
        return images + maps if self.has_shortcut else maps


class InvertedResidual(nn.Module):
    """Widen by a 1 × 1 convolution, filter each channel alone, and narrow again without a ReLU."""

    def __init__(
        self, n_inputs: int, n_outputs: int, *, expansion: int, kernel_size: int, stride: int
    ) -> None:
        super().__init__()
        n_hidden = n_inputs * expansion
        self.conv_pw = _convolution(n_inputs, n_hidden)
        self.bn1 = _norm(n_hidden)
        self.conv_dw = _convolution(
            n_hidden, n_hidden, kernel_size=kernel_size, stride=stride, groups=n_hidden
        )
        self.bn2 = _norm(n_hidden)
        self.conv_pwl = _convolution(n_hidden, n_outputs)
        self.bn3 = _norm(n_outputs)
        self.has_shortcut = stride == 1 and n_inputs == n_outputs

    def forward(self, images: Float[Tensor, "n i h w"]) -> Float[Tensor, "n o new_h new_w"]:
        """The narrow maps, plus the input where the shapes agree."""
        wide = F.relu6(self.bn1(self.conv_pw(images)))
        filtered = F.relu6(self.bn2(self.conv_dw(wide)))
        maps: Tensor = self.bn3(self.conv_pwl(filtered))
        return images + maps if self.has_shortcut else maps


def make_efficientnet_lite0(output: str) -> Layers:
    """A convolution, sixteen blocks and a wide convolution, averaged over the image."""
    blocks = nn.Sequential()
    n_inputs = N_STEM
    for expansion, n_outputs, n_blocks, kernel_size, first_stride in STAGES:
        stage = nn.Sequential()
        for stride in (first_stride, *[1] * (n_blocks - 1)):
            stage.append(
                _make_block(
                    n_inputs,
                    n_outputs,
                    expansion=expansion,
                    kernel_size=kernel_size,
                    stride=stride,
                )
            )
            n_inputs = n_outputs
        blocks.append(stage)
    classifier = {"dropout": nn.Dropout(DROPOUT), "classifier": nn.Linear(N_FEATURES, N_CLASSES)}
    return Layers(
        features={
            "conv_stem": _convolution(3, N_STEM, kernel_size=3, stride=2),
            "bn1": _norm(N_STEM),
            "act1": nn.ReLU6(inplace=True),
            "blocks": blocks,
            "conv_head": _convolution(n_inputs, N_FEATURES),
            "bn2": _norm(N_FEATURES),
            "act2": nn.ReLU6(inplace=True),
            "global_pool": nn.AdaptiveAvgPool2d(1),
            "flatten": nn.Flatten(),
        },
        further=classifier if output == "logits" else {},
    )


def _make_block(
    n_inputs: int, n_outputs: int, *, expansion: int, kernel_size: int, stride: int
) -> nn.Module:
    if expansion == 1:
        return DepthwiseSeparable(n_inputs, n_outputs, kernel_size=kernel_size, stride=stride)
    return InvertedResidual(
        n_inputs, n_outputs, expansion=expansion, kernel_size=kernel_size, stride=stride
    )


def _convolution(
    n_inputs: int, n_outputs: int, *, kernel_size: int = 1, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    if stride > 1:
        return StridedConv2d(
            n_inputs, n_outputs, kernel_size, stride=stride, groups=groups, bias=False
        )
    return nn.Conv2d(
        n_inputs, n_outputs, kernel_size, padding=kernel_size // 2, groups=groups, bias=False
    )


def _norm(n_channels: int) -> nn.BatchNorm2d:
    # TensorFlow's ε and its momentum of 0.99, which torch counts from the other end.
    return nn.BatchNorm2d(n_channels, eps=1e-3, momentum=0.01)


EFFICIENTNET_LITE0 = Architecture(
    make_layers=make_efficientnet_lite0,
    n_features={"features": N_FEATURES, "logits": N_CLASSES},
    further_layers={"logits": "classifier."},
    preprocessing=Preprocessing(
        resize=256, crop=224, mean=MEAN_OF_TENSORFLOW, std=MEAN_OF_TENSORFLOW
    ),
    smallest_side=1,
)
"""EfficientNet-Lite0 with timm's key names."""
