"""Six invented tasks, rating reviews of different things, and how their weights are related."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["MODE_NAMES", "REVIEW_LABELS", "review_correlations"]

MODE_NAMES = ("task", "output", "input")

REVIEW_LABELS = (
    ("books", "films", "music", "phones", "laptops", "returns"),
    ("1 star", "2 stars", "3 stars", "4 stars", "5 stars"),
    ("great", "love", "fun", "smart", "slow", "broken", "late", "refund"),
)

# Two groups that are related to each other a little, and the opposite of both: what makes a
# review good makes the article less likely to be returned.
_TASKS = (
    (1.0, 0.8, 0.8, 0.3, 0.3, -0.3),
    (0.8, 1.0, 0.8, 0.3, 0.3, -0.3),
    (0.8, 0.8, 1.0, 0.3, 0.3, -0.3),
    (0.3, 0.3, 0.3, 1.0, 0.7, -0.6),
    (0.3, 0.3, 0.3, 0.7, 1.0, -0.6),
    (-0.3, -0.3, -0.3, -0.6, -0.6, 1.0),
)

# Neighboring ratings have similar weights.
_OUTPUT_DECAY = 0.6

# Words of praise, words of complaint, and between the two.
_PRAISE, _COMPLAINT, _BETWEEN = 0.6, 0.5, -0.4


def review_correlations() -> tuple[NDArray[np.float64], ...]:
    """Return the correlation matrices of the tasks, the outputs and the inputs."""
    n_outputs, n_inputs = (len(labels) for labels in REVIEW_LABELS[1:])
    position = np.arange(n_outputs)
    outputs = _OUTPUT_DECAY ** np.abs(position[:, None] - position[None, :])

    half = n_inputs // 2
    inputs = np.full((n_inputs, n_inputs), _BETWEEN)
    inputs[:half, :half] = _PRAISE
    inputs[half:, half:] = _COMPLAINT
    np.fill_diagonal(inputs, 1.0)
    return np.array(_TASKS), outputs, inputs
