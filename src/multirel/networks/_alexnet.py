"""AlexNet in the form of Krizhevsky (2014), "One weird trick for parallelizing ...", on one device."""

from torch import nn

from multirel.networks._architecture import N_CLASSES, Architecture, Layers
from multirel.networks._preprocessing import Preprocessing

__all__ = ["ALEXNET"]

POOL5 = (256, 6, 6)
"""Channels, height and width after the last pooling."""

N_POOL5 = 256 * 6 * 6
N_HIDDEN = 4096

CLASSIFIER_ENDS = {"features": 0, "fc6": 4, "fc7": 6, "logits": 7}
"""How many layers of the classifier each output needs: up to the next linear layer."""


def make_alexnet(output: str) -> Layers:
    """Five convolutions, three poolings, and the fully connected layers that `output` needs."""
    features = nn.Sequential(
        nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
        nn.Conv2d(64, 192, kernel_size=5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
        nn.Conv2d(192, 384, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(256, POOL5[0], kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
    )
    classifier = nn.Sequential(
        nn.Dropout(),
        nn.Linear(N_POOL5, N_HIDDEN),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(N_HIDDEN, N_HIDDEN),
        nn.ReLU(inplace=True),
        nn.Linear(N_HIDDEN, N_CLASSES),
    )
    end = CLASSIFIER_ENDS[output]
    return Layers(
        features={
            "features": features,
            "avgpool": nn.AdaptiveAvgPool2d(POOL5[1:]),
            "flatten": nn.Flatten(),
        },
        further={"classifier": classifier[:end]} if end else {},
    )


ALEXNET = Architecture(
    make_layers=make_alexnet,
    n_features={"features": N_POOL5, "fc6": N_HIDDEN, "fc7": N_HIDDEN, "logits": N_CLASSES},
    further_layers={"fc6": "classifier.1.", "fc7": "classifier.4.", "logits": "classifier.6."},
    preprocessing=Preprocessing(resize=256, crop=224),
    smallest_side=63,
)
"""Krizhevsky's AlexNet with torchvision's key names."""
