"""Mode products and unfolding: small examples, rules and messages."""

import pytest
import torch

from multirel.tensor_normal import (
    TensorNormal,
    fold,
    mode_product,
    multi_mode_product,
    unfold,
)
from tests.environment import array, tensor


def test_unfolding_keeps_the_other_axes_ascending():
    """Row i of W_(k) holds all entries whose k-th index is i, the last other index fastest."""
    weight = torch.arange(24.0).reshape(2, 3, 4)
    assert unfold(weight, 1)[1].tolist() == [4, 5, 6, 7, 16, 17, 18, 19]
    assert unfold(weight, 2)[1].tolist() == [1, 5, 9, 13, 17, 21]


def test_unfolding_counts_modes_from_the_axes_of_the_tensor():
    """With a batch axis in front, mode 1 is the first mode."""
    weight = torch.arange(24.0).reshape(2, 3, 4)
    assert unfold(weight, 1, batch_dims=1).shape == (2, 3, 4)
    assert unfold(weight, -1, batch_dims=1).shape == (2, 4, 3)


@pytest.mark.parametrize("mode", [3, -4])
@pytest.mark.parametrize("function", [unfold, lambda w, m: mode_product(w, torch.eye(2), m)])
def test_mode_out_of_range_is_an_error(function, mode):
    """The message says which axes there are."""
    message = rf"`mode` must be an axis of `weight`: expected -3 to 2 .*\(2, 3, 4\), got {mode}"
    with pytest.raises(ValueError, match=message):
        function(torch.zeros(2, 3, 4), mode)


@pytest.mark.parametrize("mode", [0, -3])
def test_batch_axis_is_no_mode(mode):
    """Unfolding along a batch axis is refused, counted from either end."""
    with pytest.raises(
        ValueError, match="`mode` must not be a batch axis: expected an axis from 1"
    ):
        unfold(torch.zeros(2, 3, 4), mode, batch_dims=1)


def test_folding_another_shape_is_an_error():
    """The message has both shapes."""
    message = r"mode-0 unfolding of shape \(2, 3, 4\): expected \(2, 12\), got \(3, 8\)"
    with pytest.raises(ValueError, match=message):
        fold(torch.zeros(3, 8), 0, (2, 3, 4))


def test_mode_product_of_another_size_is_an_error():
    """The message names the mode and both sizes."""
    message = r"one column per entry of mode 1 of `weight`: expected 3 columns, got 5"
    with pytest.raises(ValueError, match=message):
        mode_product(torch.zeros(2, 3, 4), torch.zeros(6, 5), 1)


def test_more_matrices_than_axes_is_an_error():
    """One matrix per axis at most."""
    with pytest.raises(
        ValueError, match="at most one matrix per axis .* expected at most 1, got 2"
    ):
        multi_mode_product(torch.zeros(3), [None, None])


@pytest.mark.parametrize(
    "shape", [(3, 4, 5), (2, 4, 15), (2, 4, 16), (2, 8, 16), (1, 30, 40), (0, 3, 4)]
)
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_mode_product_is_einsum_for_few_and_many_columns(shape, mode):
    """Small and large products take different paths to the same numbers; so do empty ones."""
    torch.manual_seed(0)
    weight = torch.randn(shape, dtype=torch.float64)
    matrix = torch.randn(6, shape[mode], dtype=torch.float64)
    equation = ["za,abc->zbc", "zb,abc->azc", "zc,abc->abz"][mode]
    expected = torch.einsum(equation, matrix, weight)
    torch.testing.assert_close(mode_product(weight, matrix, mode), expected)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_batched_matrices_multiply_their_own_batch_entry(mode):
    """A matrix per batch entry, along every mode."""
    torch.manual_seed(0)
    weight = torch.randn(5, 2, 3, 4, dtype=torch.float64)
    matrices = torch.randn(5, 6, weight.shape[mode], dtype=torch.float64)
    product = mode_product(weight, matrices, mode)
    for entry in range(5):
        expected = mode_product(weight[entry], matrices[entry], mode - 1)
        torch.testing.assert_close(product[entry], expected)


def test_batch_axes_of_matrices_broadcast():
    """Singleton and missing batch axes of either side."""
    torch.manual_seed(0)
    weight = torch.randn(2, 1, 3, 4, dtype=torch.float64)
    matrices = torch.randn(5, 6, 3, dtype=torch.float64)
    product = mode_product(weight, matrices, 2, batch_dims=2)
    assert product.shape == (2, 5, 6, 4)
    torch.testing.assert_close(product[1, 3], matrices[3] @ weight[1, 0])


def test_batch_axes_that_do_not_fit_are_errors():
    """Too few of the weight named, or of other sizes."""
    with pytest.raises(ValueError, match=r"`batch_dims` must be at least .*expected 1, got 0"):
        mode_product(torch.zeros(2, 3), torch.zeros(5, 4, 3), 1, batch_dims=0)
    eyes = [torch.eye(3).expand(2, 3, 3), torch.eye(4).expand(5, 4, 4)]
    with pytest.raises(ValueError, match=r"batch axes must broadcast: got \(\), \(2,\), \(5,\)"):
        TensorNormal(torch.zeros(3, 4), eyes)


def test_products_and_unfoldings_keep_dtype_and_have_exact_gradients():
    """Linear in both arguments: second-order differentiable."""
    torch.manual_seed(0)
    weight = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    matrix = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, m: mode_product(w, m, 1), (weight, matrix))
    assert torch.autograd.gradgradcheck(lambda w, m: mode_product(w, m, 1), (weight, matrix))
    assert torch.autograd.gradcheck(lambda w: unfold(w, 1), (weight,))
    half = mode_product(weight.detach().bfloat16(), matrix.detach().bfloat16(), 1)
    assert half.dtype == torch.bfloat16


def test_unfolding_of_the_first_mode_is_a_view():
    """No copy where none is needed."""
    weight = tensor(torch.zeros(2, 3, 4))
    unfold(weight, 0)[0, 0] = 1.0
    assert array(weight)[0, 0, 0] == 1.0
