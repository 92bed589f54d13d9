"""Mode products and unfolding over random shapes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from multirel.tensor_normal import fold, mode_product, multi_mode_product, unfold
from tests.environment import array, assert_close, tensor
from tests.properties.strategies import batch_shapes, dtypes, seeds, shapes, tensor_normals
from tests.reference import dense, flip_flop

FACTOR = 10.0


@given(tensor_normals(batched=False))
def test_mode_products_are_the_kronecker_product(case):
    """(Σ₁ ⊗ … ⊗ Σ_K) vec(W) = vec(W ×₁ Σ₁ … ×_K Σ_K), row-major, first axis first."""
    product = case.tensor(case.weight)
    for mode, matrix in enumerate(case.matrices):
        product = mode_product(product, case.tensor(matrix), mode)

    expected = dense.kronecker(case.matrices) @ dense.vec(case.weight)
    assert_close(product.flatten(), expected, dtype=case.dtype, factor=FACTOR)


@given(shapes(), batch_shapes(), dtypes(), seeds(), st.data())
def test_multi_mode_product_is_one_mode_product_after_the_other(shape, batch, dtype, seed, data):
    """Rectangular matrices, `None` for a mode left alone, batch axes in front untouched."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((*batch, *shape))
    matrices, expected = [], weight
    for mode, size in enumerate(shape):
        new = data.draw(st.sampled_from([None, 1, 2, 5]))
        if new is None:
            matrices.append(None)
            continue
        matrix = rng.standard_normal((new, size))
        matrices.append(tensor(matrix, dtype=dtype))
        axis = len(batch) + mode
        expected = np.moveaxis(np.tensordot(matrix, expected, axes=([1], [axis])), 0, axis)

    product = multi_mode_product(tensor(weight, dtype=dtype), matrices)

    assert_close(product, expected, dtype=dtype, factor=FACTOR)


@given(shapes(), seeds(), st.data())
def test_mode_products_along_different_modes_commute(shape, seed, data):
    """W ×ⱼ A ×ₖ B = W ×ₖ B ×ⱼ A for j ≠ k, and along one mode they compose: W ×ₖ A ×ₖ B = W ×ₖ BA."""
    rng = np.random.default_rng(seed)
    j = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(0, len(shape) - 1))
    weight = tensor(rng.standard_normal(shape))
    a = tensor(rng.standard_normal((3, shape[j])))
    b = tensor(rng.standard_normal((2, 3 if j == k else shape[k])))

    product = mode_product(mode_product(weight, a, j), b, k)

    expected = (
        mode_product(weight, b @ a, k) if j == k else mode_product(mode_product(weight, b, k), a, j)
    )
    assert_close(product, expected, factor=FACTOR)


@given(shapes(), dtypes(), seeds(), st.data())
def test_negative_modes_count_from_the_end(shape, dtype, seed, data):
    """Mode −1 is the last axis, in products and unfoldings alike."""
    rng = np.random.default_rng(seed)
    mode = data.draw(st.integers(0, len(shape) - 1))
    weight = tensor(rng.standard_normal(shape), dtype=dtype)
    matrix = tensor(rng.standard_normal((2, shape[mode])), dtype=dtype)
    negative = mode - len(shape)
    assert_close(mode_product(weight, matrix, negative), mode_product(weight, matrix, mode))
    assert_close(unfold(weight, negative), unfold(weight, mode))


@given(shapes(), batch_shapes(), dtypes(), seeds(), st.data())
def test_fold_undoes_unfold(shape, batch, dtype, seed, data):
    """Exactly, with batch axes in front, for every mode."""
    weight = np.random.default_rng(seed).standard_normal((*batch, *shape))
    mode = len(batch) + data.draw(st.integers(0, len(shape) - 1))
    values = tensor(weight, dtype=dtype)

    unfolded = unfold(values, mode, batch_dims=len(batch))

    for index in np.ndindex(*batch):
        expected = flip_flop.unfold(array(values)[index], mode - len(batch))
        np.testing.assert_array_equal(array(unfolded)[index], expected)
    np.testing.assert_array_equal(array(fold(unfolded, mode, values.shape)), array(values))


@given(shapes(), seeds(), st.data())
def test_unfolding_a_mode_product_multiplies_the_unfolding(shape, seed, data):
    """(W ×ₖ M)_(k) = M W_(k)."""
    rng = np.random.default_rng(seed)
    mode = data.draw(st.integers(0, len(shape) - 1))
    weight = tensor(rng.standard_normal(shape))
    matrix = tensor(rng.standard_normal((3, shape[mode])))
    product = unfold(mode_product(weight, matrix, mode), mode)
    assert_close(product, matrix @ unfold(weight, mode), factor=FACTOR)
