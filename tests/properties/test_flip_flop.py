"""What maximum likelihood must satisfy, over shapes, seeds and starting points."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multirel.tensor_normal import fit_tensor_normal, normalize_covariances
from tests.builders import color, positive_definite
from tests.environment import DTYPE, array, tensor
from tests.properties.strategies import seeds, shapes
from tests.reference import flip_flop as reference
from tests.reference.dense import kronecker

N_SAMPLES = 30
SETTLED = {"torch.float64": 1e-4, "torch.float32": 1e-2}[str(DTYPE)]
"""Relative distance of two fits that stopped when the likelihood had settled to its tolerance."""

EXAMPLES = settings(max_examples=25)
FIT = {"tolerance": {"torch.float64": 1e-12, "torch.float32": 1e-7}[str(DTYPE)]}


def draw(shape, seed, n_samples=N_SAMPLES):
    """Samples of a random tensor normal with condition number 4 per mode and a mean that is not zero."""
    rng = np.random.default_rng(seed)
    matrices = [positive_definite(rng, size) for size in shape]
    return 0.5 + color(matrices, rng.standard_normal((n_samples, *shape)))


def product(fit):
    return kronecker([array(covariance.dense()) for covariance in fit.distribution.covariances])


def assert_same_law(fit, expected):
    actual = product(fit)
    assert np.linalg.norm(actual - expected) <= SETTLED * np.linalg.norm(expected)


@EXAMPLES
@given(shapes(max_order=4), seeds(), st.sampled_from(["estimate", "zero"]))
def test_likelihood_never_decreases(shape, seed, mean):
    """One number per sweep, each at least the one before, up to roundoff."""
    fit = fit_tensor_normal(tensor(draw(shape, seed)), mean=mean)
    gains = np.diff(fit.log_likelihoods)
    roundoff = {"torch.float64": 1e-11, "torch.float32": 1e-4}[str(DTYPE)]
    assert (gains >= -roundoff * max(1.0, abs(fit.log_likelihoods[-1]))).all()
    assert len(fit.log_likelihoods) == fit.n_iterations


@EXAMPLES
@given(shapes(max_order=4), seeds())
def test_fit_does_not_depend_on_where_it_starts(shape, seed):
    """From the identity and from random covariances the normalized factors agree."""
    samples = tensor(draw(shape, seed))
    rng = np.random.default_rng(seed + 1)
    start = [tensor(positive_definite(rng, size)) for size in shape]

    one = fit_tensor_normal(samples, **FIT)
    other = fit_tensor_normal(samples, start=start, **FIT)

    factors, scale = normalize_covariances(one.distribution.covariances)
    other_factors, other_scale = normalize_covariances(other.distribution.covariances)
    assert abs(array(scale) / array(other_scale) - 1) <= SETTLED
    for a, b in zip(factors, other_factors, strict=True):
        difference = np.linalg.norm(array(a.dense()) - array(b.dense()))
        assert difference <= SETTLED * a.size


@EXAMPLES
@given(shapes(max_order=4), seeds())
def test_fit_does_not_depend_on_the_order_of_the_samples(shape, seed):
    """Samples are exchangeable."""
    samples = draw(shape, seed)
    shuffled = np.random.default_rng(seed).permutation(samples)
    fit = fit_tensor_normal(tensor(shuffled), **FIT)
    assert_same_law(fit, product(fit_tensor_normal(tensor(samples), **FIT)))


@EXAMPLES
@given(shapes(max_order=3), seeds())
def test_fit_follows_linear_maps_of_the_modes(shape, seed):
    """Samples X ×₁ A₁ … ×_K A_K have mean M ×ₖ A_k and covariances A_k Σ_k A_kᵀ."""
    samples = draw(shape, seed)
    rng = np.random.default_rng(seed + 1)
    maps = [positive_definite(rng, size) for size in shape]
    mapped = samples
    for mode, matrix in enumerate(maps, start=1):
        mapped = np.moveaxis(np.tensordot(matrix, mapped, axes=([1], [mode])), 0, mode)

    fit = fit_tensor_normal(tensor(samples), **FIT)
    mapped_fit = fit_tensor_normal(tensor(mapped), **FIT)

    whole = kronecker(maps)
    assert_same_law(mapped_fit, whole @ product(fit) @ whole.T)
    expected_mean = whole @ array(fit.distribution.mean).ravel()
    np.testing.assert_allclose(
        array(mapped_fit.distribution.mean).ravel(), expected_mean, rtol=1e-3, atol=1e-4
    )


@EXAMPLES
@given(shapes(max_order=3), seeds())
def test_fit_is_the_naive_flip_flop_of_samples_around_a_given_mean(shape, seed):
    """With the mean given, no degree of freedom is lost: centered at that tensor."""
    samples = draw(shape, seed)
    mean = np.full(shape, 0.5)
    fit = fit_tensor_normal(tensor(samples), mean=tensor(mean), **FIT)
    assert_same_law(fit, kronecker(reference.flip_flop(samples, n_sweeps=40, mean=mean)))
    np.testing.assert_array_equal(array(fit.distribution.mean), mean)


@EXAMPLES
@given(shapes(max_order=3), seeds(), st.sampled_from([0.2, 0.7]))
def test_shrinkage_of_everything_is_the_identity_up_to_scale(shape, seed, amount):
    """Full shrinkage leaves one number to estimate; less leaves eigenvalues above their floor."""
    samples = tensor(draw(shape, seed))
    covariances = fit_tensor_normal(samples, shrinkage=1.0, **FIT).distribution.covariances
    for covariance in covariances:
        matrix = array(covariance.dense())
        np.testing.assert_allclose(matrix, matrix[0, 0] * np.eye(len(matrix)), rtol=1e-4, atol=1e-6)

    covariances = fit_tensor_normal(samples, shrinkage=amount, **FIT).distribution.covariances
    for covariance in covariances:
        eigenvalues = np.linalg.eigvalsh(array(covariance.dense()))
        assert eigenvalues[0] >= 0.999 * amount * eigenvalues.mean()
