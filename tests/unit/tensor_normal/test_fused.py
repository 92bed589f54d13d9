"""Passes over weights in place, with kernels where there is a GPU."""

import numpy as np
import pytest
import torch

from multirel.tensor_normal._fused import correct_and_mix_, mix_first_mode_
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


SHAPES = [(1, 70, 90, 20), (2, 100, 64, 16), (3, 64, 300, 33), (4, 130, 90, 128), (6, 20, 30, 5)]


def corrected(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    size, n, m, r = shape
    rng = np.random.default_rng(0)
    weight, left = rng.standard_normal((size, n, m)), rng.standard_normal((size, n, r))
    right, matrix = rng.standard_normal((size, r, m)), rng.standard_normal((size, size))
    return weight, left, right, matrix


@pytest.mark.parametrize("shape", SHAPES)
def test_correcting_and_mixing_is_one_after_the_other(shape: tuple[int, ...]):
    weight, left, right, matrix = corrected(shape)
    mixed = tensor(weight).clone()
    correct_and_mix_(mixed, tensor(left), tensor(right), matrix=tensor(matrix))
    assert_close(mixed, np.tensordot(matrix, weight - left @ right, axes=1), factor=20)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel runs on GPUs")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_rounds_corrections_and_not_weights(shape: tuple[int, ...]):
    """With factors rounded to 10 bits, small corrections leave the digits of the weights."""
    weight, left, right, matrix = (
        torch.as_tensor(value, dtype=torch.float32, device="cuda") for value in corrected(shape)
    )
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    mixed = weight.clone()
    correct_and_mix_(mixed, 1e-3 * left, right, matrix=matrix)
    torch.backends.cuda.matmul.allow_tf32 = before
    expected = torch.tensordot(
        matrix.double(), weight.double() - 1e-3 * left.double() @ right.double(), dims=1
    )
    assert float((mixed - expected).abs().max()) < 2e-4
