"""The identity: nothing is stored, nothing is multiplied."""

import pytest
import torch

from multirel.tensor_normal import IdentityCovariance


def test_products_return_their_argument():
    """The tensor itself, not a copy."""
    x = torch.randn(4, 3)
    covariance = IdentityCovariance(3)
    assert covariance.matvec(x) is covariance.solve(x) is covariance.color(x) is x


def test_dtype_follows_torch_unless_given():
    """torch's default dtype, as for any tensor."""
    assert IdentityCovariance(3).dtype == torch.get_default_dtype()
    assert IdentityCovariance(3, dtype=torch.float64).dense().dtype == torch.float64


@pytest.mark.parametrize("scale", [2.0, torch.tensor(2.0), torch.tensor([1.0, 2.0])])
def test_scaled_keeps_the_dtype(scale):
    """A double-precision factor does not make a single-precision covariance double."""
    factor = scale.double() if isinstance(scale, torch.Tensor) else scale
    assert IdentityCovariance(3, dtype=torch.float32).scaled(factor).dtype == torch.float32


def test_size_below_one_is_an_error():
    """A mode has at least one entry."""
    with pytest.raises(ValueError, match="`size` must be at least 1: got 0"):
        IdentityCovariance(0)
