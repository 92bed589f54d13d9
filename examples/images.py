"""Digits from four scanners, each with 30 labeled images: a network for all, one for each, or in between.

The images are scikit-learn's. One scanner is fine, one turns the page, one inverts it, and one is noisy.
Every method trains the same small convolutional network from random weights, at several strengths of its
penalty. In MRN the scanners share the convolutions, and a prior relates their last layers.
"""

import numpy as np
from sklearn.datasets import load_digits

from multirel.estimators import MRNClassifier, PooledClassifier, SingleTaskClassifier

SCANNERS = ["fine", "turned", "inverted", "noisy"]
N_LABELED, N_HELD_OUT = 30, 300
METHODS = {
    "single task": SingleTaskClassifier,
    "pooled": PooledClassifier,
    "MRN": MRNClassifier,
}
STRENGTHS = (1.0, 10.0, 30.0)
TRAINING = {
    "backbone": "small-cnn",
    "learning_rate": 0.003,
    "batch_size": 20,
    "max_epochs": 30,
    "random_state": 0,
}


def scan(seed):
    """Return images (n, 3, 8, 8), their digits and scanners, and which are labeled."""
    rng = np.random.default_rng(seed)
    digits = load_digits()
    n_each = N_LABELED + N_HELD_OUT
    order = rng.permutation(len(digits.target))[: 4 * n_each]
    pixels = digits.images[order].reshape(4, n_each, 8, 8) / 8 - 1
    pixels[1] = np.rot90(pixels[1], axes=(1, 2))
    pixels[2] = -pixels[2]
    pixels[3] += rng.normal(0, 0.6, pixels[3].shape)
    images = np.repeat(pixels.reshape(-1, 1, 8, 8), 3, axis=1)
    is_labeled = np.tile(np.arange(n_each) < N_LABELED, 4)
    return images, digits.target[order], np.repeat(SCANNERS, n_each), is_labeled


if __name__ == "__main__":
    images, digit, scanner, labeled = scan(seed=0)
    print("Accuracy on held-out images\nstrength     " + "".join(f"{s:6.0f}" for s in STRENGTHS))
    for name, method in METHODS.items():
        scores = []
        for strength in STRENGTHS:
            model = method(strength=strength, **TRAINING)
            model.fit(images[labeled], digit[labeled], tasks=scanner[labeled])
            scores.append(model.score(images[~labeled], digit[~labeled], tasks=scanner[~labeled]))
        print(f"{name:<13}" + "".join(f"{score:6.2f}" for score in scores))
