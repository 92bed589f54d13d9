"""The distribution against the normal distribution of vec(X), over shapes, dtypes, batches and types."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multirel.tensor_normal import TensorNormal
from tests.builders import positive_definite
from tests.environment import array, assert_close, tensor
from tests.properties.strategies import KINDS, shapes, subsets, tensor_normals
from tests.reference import dense

FACTOR = 100.0
"""Room for five modes, each with condition number up to 5."""

REGULAR = ("dense", "identity", "low-rank")


@given(tensor_normals(kinds=REGULAR))
def test_log_density_is_the_dense_one(case):
    """Eq. (2), one number per batch entry."""
    actual = case.distribution().log_prob(case.tensor(case.weight))
    expected = case.over_batch(
        lambda matrices, x, mean: dense.log_density(x, mean, matrices), case.weight, case.loc
    )
    assert_close(actual, expected, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=KINDS, min_size=2, batched=False))
def test_log_density_on_the_support_is_the_dense_one(case):
    """With singular covariances, the density on the subspace where samples lie."""
    projection = dense.kronecker(case.matrices) @ dense.precision(case.matrices)
    x = case.loc + (projection @ dense.vec(case.weight)).reshape(case.shape)
    actual = case.distribution().log_prob(case.tensor(x))
    expected = dense.log_density(x, case.loc, case.matrices)
    assert_close(actual, expected, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR))
def test_entropy_is_the_dense_one(case):
    """½ ln|2πe Σ| = −E ln p."""
    expected = case.over_batch(dense.entropy)
    actual = case.distribution().entropy()
    assert_close(actual, expected, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR, batched=False))
def test_entropy_is_minus_the_mean_log_density(case):
    """−E ln p, the mean taken exactly over the points loc ± √D F e_i, whose second moments are Σ."""
    distribution = case.distribution()
    factor = np.linalg.cholesky(dense.kronecker(case.matrices))
    size = len(factor)
    points = case.loc + np.sqrt(size) * factor.T.reshape(size, *case.shape)
    mean = array(distribution.log_prob(case.tensor(points))).mean()
    assert_close(distribution.entropy(), -mean, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=KINDS))
def test_variance_is_the_diagonal_of_the_dense_covariance(case):
    """Of every type, with batches; `stddev` is its root and `mean` is loc."""

    def expected(matrices):
        return np.diag(dense.kronecker(matrices)).reshape(case.shape)

    distribution = case.distribution()
    variance = case.over_batch(expected)
    assert_close(distribution.variance, variance, dtype=case.dtype, factor=FACTOR)
    assert_close(distribution.mean, case.loc, dtype=case.dtype)
    assert_close(distribution.mode, case.loc, dtype=case.dtype)


@given(tensor_normals(kinds=KINDS), st.data())
def test_marginal_is_that_of_the_dense_normal(case, data):
    """Slices of several modes at once, in any order."""
    modes = data.draw(st.lists(st.integers(0, len(case.shape) - 1), min_size=1, unique=True))
    indices = {mode: data.draw(subsets(case.shape[mode])) for mode in modes}

    marginal = case.distribution().marginal(indices)

    assert isinstance(marginal, TensorNormal)
    for index in np.ndindex(*case.batch):
        matrices = [m[index] if m.ndim > 2 else m for m in case.matrices]
        mean, covariance = dense.marginal(case.loc[index], matrices, indices)
        assert_close(marginal.mean[index].flatten(), mean, dtype=case.dtype)
        kept = [array(c.dense()) for c in marginal.covariances]
        kept = dense.kronecker([k[index] if k.ndim > 2 else k for k in kept])
        assert_close(kept, covariance, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR, min_size=2), st.data())
def test_condition_is_that_of_the_dense_normal(case, data):
    """Mean and covariance of the slices that are not observed, in their own order."""
    mode = data.draw(st.integers(0, len(case.shape) - 1))
    observed = data.draw(subsets(case.shape[mode], proper=True))
    axis = len(case.batch) + mode
    value = np.take(case.weight, observed, axis=axis)

    conditional = case.distribution().condition(mode, observed, case.tensor(value))

    assert isinstance(conditional, TensorNormal)
    for index in np.ndindex(*case.batch):
        matrices = [m[index] if m.ndim > 2 else m for m in case.matrices]
        mean, covariance = dense.condition(case.loc[index], matrices, mode, observed, value[index])
        assert_close(conditional.mean[index].flatten(), mean, dtype=case.dtype, factor=FACTOR)
        left = [array(c.dense()) for c in conditional.covariances]
        left = dense.kronecker([k[index] if k.ndim > 2 else k for k in left])
        assert_close(left, covariance, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR, min_size=2), st.data())
def test_density_is_marginal_times_conditional(case, data):
    """Chain rule: ln p(X) = ln p(X_b) + ln p(X_a | X_b) for the slices of any mode."""
    mode = data.draw(st.integers(0, len(case.shape) - 1))
    observed = data.draw(subsets(case.shape[mode], proper=True))
    others = [index for index in range(case.shape[mode]) if index not in observed]
    axis = len(case.batch) + mode
    distribution = case.distribution()
    seen = case.tensor(np.take(case.weight, observed, axis=axis))
    rest = case.tensor(np.take(case.weight, others, axis=axis))

    total = array(distribution.marginal({mode: observed}).log_prob(seen)) + array(
        distribution.condition(mode, observed, seen).log_prob(rest)
    )

    joint = distribution.log_prob(case.tensor(case.weight))
    assert_close(total, joint, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR), st.integers(0, 2**16))
def test_kl_divergence_is_the_dense_one_and_never_negative(case, seed):
    """KL(p ‖ q) for two distributions of one shape, each with its own mean and covariances."""
    rng = np.random.default_rng(seed)
    other = [positive_definite(rng, size) for size in case.shape]
    mean = rng.standard_normal(case.shape)
    p = case.distribution()
    q = TensorNormal(case.tensor(mean), [case.tensor(matrix) for matrix in other])

    expected = case.over_batch(lambda m, loc: dense.kl_divergence(loc, m, mean, other), case.loc)
    backwards = case.over_batch(lambda m, loc: dense.kl_divergence(mean, other, loc, m), case.loc)

    forward = torch.distributions.kl_divergence(p, q)
    assert_close(forward, expected, dtype=case.dtype, factor=FACTOR)
    assert (array(forward) >= 0).all()
    reverse = torch.distributions.kl_divergence(q, p)
    assert_close(reverse, backwards, dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR))
def test_kl_divergence_from_itself_is_zero(case):
    """KL(p ‖ p) = 0, also to a p written with its scale in other factors."""
    p = case.distribution()
    divergence = torch.distributions.kl_divergence(p, p)
    assert_close(divergence, np.zeros(case.batch), dtype=case.dtype, factor=FACTOR)


@given(tensor_normals(kinds=REGULAR, min_order=2), st.floats(0.1, 10.0))
def test_scale_moves_between_factors_and_nothing_changes(case, scale):
    """c Σ₁ and Σ₂ / c are the same distribution: density, variance, divergence 0, same samples' law."""
    first, second, *others = case.covariances
    moved = TensorNormal(
        case.tensor(case.loc), [first.scaled(scale), second.scaled(1 / scale), *others]
    )
    same = case.distribution()
    x = case.tensor(case.weight)
    close = {"dtype": case.dtype, "factor": FACTOR}
    assert_close(moved.log_prob(x), same.log_prob(x), **close)
    assert_close(moved.entropy(), same.entropy(), **close)
    assert_close(moved.variance, same.variance, **close)
    divergence = torch.distributions.kl_divergence(moved, same)
    assert_close(divergence, np.zeros(case.batch), **close)


@given(shapes(max_order=3), st.integers(0, 2**16))
def test_expanded_distribution_has_the_same_density_everywhere(shape, seed):
    """`expand` repeats one distribution along new batch axes."""
    rng = np.random.default_rng(seed)
    matrices = [tensor(positive_definite(rng, size)) for size in shape]
    one = TensorNormal(tensor(rng.standard_normal(shape)), matrices)
    many = one.expand((3, 2))
    x = tensor(rng.standard_normal((3, 2, *shape)))
    assert tuple(many.batch_shape) == (3, 2)
    assert tuple(many.rsample((5,)).shape) == (5, 3, 2, *shape)
    assert_close(many.log_prob(x), one.log_prob(x))


@given(tensor_normals(kinds=REGULAR), st.sampled_from([(), (1,), (4,), (2, 3)]))
def test_density_broadcasts_over_samples(case, sample_shape):
    """`log_prob` of "*sample *batch *event" is "*sample *batch", entry by entry."""
    rng = np.random.default_rng(case.seed)
    x = rng.standard_normal((*sample_shape, *case.batch, *case.shape))
    distribution = case.distribution()
    values = distribution.log_prob(case.tensor(x))
    assert tuple(values.shape) == (*sample_shape, *case.batch)
    for index in np.ndindex(*sample_shape):
        one = distribution.log_prob(case.tensor(x[index]))
        assert_close(values[index], one, dtype=case.dtype, factor=FACTOR)


@pytest.mark.parametrize("mode", [0, 1, -1])
def test_conditioning_on_one_slice_drops_nothing_but_that_slice(mode):
    """An int index observes one slice; `value` then has no axis for the mode."""
    rng = np.random.default_rng(0)
    shape = (3, 4)
    matrices = [positive_definite(rng, size) for size in shape]
    mean = rng.standard_normal(shape)
    distribution = TensorNormal(tensor(mean), [tensor(m) for m in matrices])
    axis = mode % 2
    value = rng.standard_normal(shape[1 - axis])

    conditional = distribution.condition(mode, 1, tensor(value))

    expected_mean, expected_covariance = dense.condition(mean, matrices, axis, [1], value)
    assert_close(conditional.mean.flatten(), expected_mean, factor=FACTOR)
    left = dense.kronecker([array(c.dense()) for c in conditional.covariances])
    assert_close(left, expected_covariance, factor=FACTOR)
