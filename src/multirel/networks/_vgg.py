"""VGG-16: configuration D of Simonyan and Zisserman (2015), "Very deep convolutional networks ..."."""

from torch import nn

from multirel.networks._architecture import N_CLASSES, Architecture, Layers
from multirel.networks._preprocessing import Preprocessing

__all__ = ["VGG16"]

CHANNELS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Output channels of the convolutions, block by block; a pooling ends each block."""

POOL5_SIDE = 7
N_POOL5 = 512 * POOL5_SIDE * POOL5_SIDE
N_HIDDEN = 4096

CLASSIFIER_ENDS = {"features": 0, "fc6": 3, "fc7": 6, "logits": 7}
"""How many layers of the classifier each output needs: up to the next linear layer."""


def make_vgg16(output: str) -> Layers:
    """Thirteen convolutions, five poolings, and the fully connected layers that `output` needs."""
    classifier = nn.Sequential(
        nn.Linear(N_POOL5, N_HIDDEN),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(N_HIDDEN, N_HIDDEN),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(N_HIDDEN, N_CLASSES),
    )
    end = CLASSIFIER_ENDS[output]
    return Layers(
        features={
            "features": _make_convolutions(),
            "avgpool": nn.AdaptiveAvgPool2d(POOL5_SIDE),
            "flatten": nn.Flatten(),
        },
        further={"classifier": classifier[:end]} if end else {},
    )


def _make_convolutions() -> nn.Sequential:
    layers: list[nn.Module] = []
    n_inputs = 3
    for block in CHANNELS:
        for n_outputs in block:
            layers += [nn.Conv2d(n_inputs, n_outputs, 3, padding=1), nn.ReLU(inplace=True)]
            n_inputs = n_outputs
        layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
    return nn.Sequential(*layers)


VGG16 = Architecture(
    make_layers=make_vgg16,
    n_features={"features": N_POOL5, "fc6": N_HIDDEN, "fc7": N_HIDDEN, "logits": N_CLASSES},
    further_layers={"fc6": "classifier.0.", "fc7": "classifier.3.", "logits": "classifier.6."},
    preprocessing=Preprocessing(resize=256, crop=224),
    smallest_side=32,
)
"""VGG-16 without batch normalization, with torchvision's key names."""
