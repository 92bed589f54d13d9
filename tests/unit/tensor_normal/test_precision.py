"""Products and casts whose precision does not depend on what a training loop has chosen."""

import numpy as np
import pytest
import torch

from multirel.tensor_normal import accurate_product, without_autocast
from tests.environment import DEVICE, DTYPE, array, assert_close, tensor


def test_accurate_products_keep_their_type():
    left, right = np.random.default_rng(0).standard_normal((2, 5, 5))
    product = accurate_product(tensor(left), tensor(right))
    assert product.dtype == DTYPE
    assert_close(product, left @ right)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="products round their factors on GPUs")
def test_accurate_products_do_not_round_their_factors():
    left, right = torch.randn(2, 200, 200, device="cuda")
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    product = accurate_product(left, right)
    torch.backends.cuda.matmul.allow_tf32 = before
    np.testing.assert_allclose(array(product), array(left) @ array(right), rtol=0, atol=1e-5)


def test_without_autocast_products_keep_their_type():
    left = torch.ones(2, 2, device=DEVICE)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        assert (left @ left).dtype == torch.bfloat16
        with without_autocast(DEVICE):
            assert (left @ left).dtype == torch.float32
