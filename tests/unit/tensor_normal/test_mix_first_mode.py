"""Products along the first mode in place, with the kernel where there is a GPU."""

import numpy as np
import pytest

from multirel.tensor_normal._mix_first_mode import mix_first_mode_
from tests.environment import assert_close, tensor


@pytest.mark.parametrize(
    "shape", [(1, 5), (3, 777), (4, 10, 100), (5, 2, 3, 4), (16, 300), (40, 9)]
)
def test_mixing_is_the_mode_product(shape: tuple[int, ...]):
    rng = np.random.default_rng(0)
    weight, matrix = rng.standard_normal(shape), rng.standard_normal((shape[0], shape[0]))
    mixed = tensor(weight).clone()
    mix_first_mode_(mixed, tensor(matrix))
    assert_close(mixed, np.tensordot(matrix, weight, axes=1), factor=10)
