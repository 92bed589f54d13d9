import numpy as np

from multirel.estimators._linear import Coordinates
from multirel.estimators._linear._robust_blocks import BlockWeights


def test_blocks_come_in_the_users_units():
    weights = np.random.default_rng(0).normal(size=(2, 1, 3))
    scale = np.array([1.0, 2.0, 4.0])
    coordinates = Coordinates(center=np.ones(3), scale=scale)
    np.testing.assert_allclose(
        BlockWeights(weights=weights).in_features(coordinates), weights / scale
    )
