"""Estimation: results, settings, and what is said when there is nothing to estimate."""

import warnings
from math import prod

import numpy as np
import pytest
import torch

from multirel.exceptions import (
    ConvergenceWarning,
    MultirelError,
    NotFiniteError,
    NotPositiveDefiniteError,
    UnboundedLikelihoodError,
)
from multirel.tensor_normal import (
    IdentityCovariance,
    LowRankCovariance,
    TensorNormal,
    fit_tensor_normal,
)
from tests.builders import color, positive_definite
from tests.environment import DEVICE, DTYPE, array, assert_close, run_python, tensor
from tests.reference import dense, flip_flop

SHAPE = (2, 3, 4)
SETTLED = {torch.float64: 1e-6, torch.float32: 1e-3}[DTYPE]


def draw(shape=SHAPE, n_samples=30, seed=0):
    """Samples with condition number 4 per mode."""
    rng = np.random.default_rng(seed)
    matrices = [positive_definite(rng, size) for size in shape]
    return tensor(color(matrices, rng.standard_normal((n_samples, *shape))))


def product(fit):
    return dense.kronecker([array(c.dense()) for c in fit.distribution.covariances])


def assert_same_law(one, other, *, tolerance=SETTLED):
    one, other = product(one), product(other)
    assert np.linalg.norm(one - other) <= tolerance * np.linalg.norm(other)


def assert_proportional(matrix, expected):
    matrix, expected = array(matrix), array(expected)
    matrix, expected = matrix / np.trace(matrix), expected / np.trace(expected)
    assert np.linalg.norm(matrix - expected) <= SETTLED


def test_fit_says_what_it_did():
    """A distribution of the samples' dtype, one likelihood per sweep, convergence and count."""
    fit = fit_tensor_normal(draw())
    assert isinstance(fit.distribution, TensorNormal)
    assert fit.distribution.event_shape == SHAPE
    assert fit.distribution.batch_shape == ()
    assert fit.distribution.loc.dtype == DTYPE
    assert fit.distribution.loc.device.type == DEVICE.type
    assert fit.converged
    assert fit.n_iterations == len(fit.log_likelihoods) < 100
    assert all(isinstance(value, float) for value in fit.log_likelihoods)


def test_last_likelihood_is_that_of_the_fitted_distribution():
    """Σ_i ln p(X_i)."""
    samples = draw()
    for shrinkage in (0.0, 0.3):
        fit = fit_tensor_normal(samples, shrinkage=shrinkage)
        total = float(fit.distribution.log_prob(samples).sum())
        assert fit.log_likelihoods[-1] == pytest.approx(
            total, rel=1e-9 if DTYPE == torch.float64 else 1e-5
        )


def test_no_other_covariance_is_more_likely():
    """Perturbing any fitted covariance lowers the likelihood."""
    samples = draw().double()
    fit = fit_tensor_normal(samples)
    best = float(fit.distribution.log_prob(samples).sum())
    generator = torch.Generator().manual_seed(0)
    for mode, size in enumerate(SHAPE):
        for _ in range(5):
            noise = torch.randn(size, size, generator=generator, dtype=torch.float64).to(DEVICE)
            covariances = [c.dense() for c in fit.distribution.covariances]
            step = torch.linalg.matrix_exp(0.05 * (noise + noise.mT))
            covariances[mode] = step @ covariances[mode] @ step.mT
            covariances[mode] = (covariances[mode] + covariances[mode].mT) / 2
            other = TensorNormal(fit.distribution.loc, covariances)
            assert float(other.log_prob(samples).sum()) < best


@pytest.mark.parametrize("mean", ["estimate", "zero", "given"])
def test_mean_is_estimated_zero_or_given(mean):
    """And the covariances are about that mean."""
    samples = draw() + 0.5
    given = torch.full(SHAPE, 0.4, dtype=DTYPE, device=DEVICE)
    fit = fit_tensor_normal(samples, mean=given if mean == "given" else mean)
    expected = {"estimate": samples.mean(0), "zero": torch.zeros(SHAPE), "given": given}[mean]
    assert_close(fit.distribution.mean, expected)
    reference = flip_flop.flip_flop(array(samples), n_sweeps=60, mean=array(expected))
    difference = product(fit) - dense.kronecker(reference)
    assert np.linalg.norm(difference) <= SETTLED * np.linalg.norm(product(fit))


def test_start_may_be_any_covariances():
    """Tensors and objects, dense or not; the result is the same."""
    samples = draw()
    rng = np.random.default_rng(1)
    start = [
        tensor(positive_definite(rng, 2)),
        IdentityCovariance(3, dtype=DTYPE, device=DEVICE),
        LowRankCovariance.from_matrix(tensor(positive_definite(rng, 4)), 2),
    ]
    assert_same_law(fit_tensor_normal(samples, start=start), fit_tensor_normal(samples))


def test_samples_are_not_changed_and_gradients_not_recorded():
    """Estimation is no layer."""
    samples = draw()
    before = samples.clone()
    fit = fit_tensor_normal(samples.requires_grad_())
    assert torch.equal(samples.detach(), before)
    assert not fit.distribution.loc.requires_grad
    assert not any(c.dense().requires_grad for c in fit.distribution.covariances)


def test_scaling_samples_scales_only_the_last_covariance():
    """Also where squares would overflow or vanish in single precision."""
    samples = draw()
    base = fit_tensor_normal(samples)
    for scale in (1e-9, 1e9):
        fit = fit_tensor_normal(samples * scale)
        *first, last = (array(c.dense()) for c in fit.distribution.covariances)
        *expected, expected_last = (array(c.dense()) for c in base.distribution.covariances)
        for one, other in zip(first, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=SETTLED)
        np.testing.assert_allclose(last / scale**2, expected_last, atol=SETTLED)


@pytest.mark.parametrize("target", ["identity", "constant-correlation"])
def test_shrunk_fit_is_a_fixed_point_of_its_own_update(target):
    """Σ_k ∝ (1 − α) S_k + α T_k with S_k from the other fitted covariances."""
    samples = draw(n_samples=5)
    amounts = (0.1, 0.5, 0.9)
    fit = fit_tensor_normal(samples, shrinkage=amounts, shrinkage_target=target, tolerance=1e-12)
    centered = array(samples - samples.mean(0))
    covariances = [array(c.dense()) for c in fit.distribution.covariances]
    for mode, amount in enumerate(amounts):
        scatter = flip_flop.update(centered, covariances, mode)
        goal = np.trace(scatter) / len(scatter) * np.eye(len(scatter))
        if target == "constant-correlation":
            goal = dense.constant_correlation_target(scatter)
        assert_proportional(covariances[mode], (1 - amount) * scatter + amount * goal)


def test_shrinkage_of_one_switches_a_mode_off():
    """That covariance stays the identity; the others are estimated."""
    fit = fit_tensor_normal(draw(), shrinkage=[0.0, 1.0, 0.0])
    assert_close(fit.distribution.covariances[1].dense(), np.eye(3))
    first = array(fit.distribution.covariances[0].dense())
    assert np.abs(first - np.eye(2)).max() > 0.05


def test_jitter_is_relative_to_the_mean_eigenvalue():
    """Σ_k ∝ S_k + ε (tr S_k / d_k) I, at any scale of the samples."""
    samples = draw(n_samples=5)
    fit = fit_tensor_normal(samples * 100, jitter=0.2, tolerance=1e-12)
    centered = array(samples - samples.mean(0)) * 100
    covariances = [array(c.dense()) for c in fit.distribution.covariances]
    for mode, matrix in enumerate(covariances):
        scatter = flip_flop.update(centered, covariances, mode)
        jitter = 0.2 * np.trace(scatter) / len(scatter)
        assert_proportional(matrix, scatter + jitter * np.eye(len(scatter)))


def test_fit_is_repeatable_to_the_bit():
    """No randomness anywhere."""
    one, other = fit_tensor_normal(draw()), fit_tensor_normal(draw())
    assert one.log_likelihoods == other.log_likelihoods
    np.testing.assert_array_equal(product(one), product(other))


def test_more_sweeps_than_allowed_is_a_warning():
    """With what is left to settle, and what to raise; the result is returned."""
    with pytest.warns(ConvergenceWarning, match=r"stopped after 1 sweeps .*Raise `max_iterations`"):
        fit = fit_tensor_normal(draw(), max_iterations=1)
    assert not fit.converged
    assert fit.n_iterations == 1


def test_warning_points_at_the_line_that_called():
    """Not at a line of torch's or ours; seen where no decorators check annotations."""
    code = """
import warnings
import torch
from multirel.tensor_normal import fit_tensor_normal

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fit_tensor_normal(torch.randn(9, 2, 3), max_iterations=1)
print(caught[0].filename)
"""
    assert run_python(code).strip() == "<string>"


def test_gain_that_does_not_decay_is_said_to_have_no_maximum():
    """The samples I and [[0, 1], [0, 0]]: bounded, but the bound is approached like 1 / sweeps."""
    samples = tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]])
    with pytest.warns(
        ConvergenceWarning, match="does not decay: the likelihood may have no maximum"
    ):
        fit_tensor_normal(samples, mean="zero", max_iterations=300)


UNBOUNDED = [((4,), 3, 4), ((2, 3), 1, 2), ((3, 5), 2, 3), ((2, 3, 5), 1, 2), ((4, 11), 3, 4)]


@pytest.mark.parametrize(("shape", "n_samples", "enough"), UNBOUNDED)
def test_too_few_samples_is_an_error_that_says_how_many_would_do(shape, n_samples, enough):
    """The mean given; the message names `shrinkage`, which then works."""
    samples = draw(shape, n_samples)
    message = rf"with {n_samples} of shape .* no maximum; {enough} would do\. .*`shrinkage`"
    with pytest.raises(UnboundedLikelihoodError, match=message):
        fit_tensor_normal(samples, mean="zero")
    fit = fit_tensor_normal(samples, mean="zero", shrinkage=0.1, max_iterations=1000)
    assert fit.converged
    assert np.isfinite(product(fit)).all()


@pytest.mark.parametrize(("shape", "n_samples", "enough"), UNBOUNDED)
def test_estimating_the_mean_takes_one_more_sample(shape, n_samples, enough):
    """n − 1 samples count, and the message counts them all."""
    samples = draw(shape, n_samples + 1)
    message = rf"with {n_samples + 1} of .*; {enough + 1} would do while their mean is estimated"
    with pytest.raises(UnboundedLikelihoodError, match=message):
        fit_tensor_normal(samples)
    fit_tensor_normal(samples, shrinkage=0.1, max_iterations=1000)


@pytest.mark.parametrize(("shape", "n_samples", "enough"), UNBOUNDED)
def test_as_many_samples_as_would_do_are_enough(shape, n_samples, enough):
    """The number in the message is honest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = fit_tensor_normal(draw(shape, enough).double(), mean="zero", max_iterations=300)
    assert np.isfinite(product(fit)).all()


@pytest.mark.parametrize("mode", range(3))
def test_samples_in_a_subspace_are_an_error(mode):
    """Enough samples, but a slice repeats another: the covariance of that mode becomes singular."""
    samples = draw(n_samples=50)
    slices = samples.movedim(1 + mode, 0)
    slices[1] = slices[0]
    problem = r"(is singular|has a condition number above .* after \d+ sweeps)"
    message = rf"mode {mode} \(size {SHAPE[mode]}\) {problem}, .*`shrinkage`"
    with pytest.raises(UnboundedLikelihoodError, match=message):
        fit_tensor_normal(samples)
    assert fit_tensor_normal(samples, shrinkage=0.1).converged


def test_samples_that_do_not_differ_are_an_error():
    """There is no covariance to estimate, and shrinkage has nothing to shrink."""
    samples = torch.ones(10, 2, 3, dtype=DTYPE, device=DEVICE)
    with pytest.raises(UnboundedLikelihoodError, match="must differ from their mean"):
        fit_tensor_normal(samples, shrinkage=0.5)


def test_samples_that_are_not_finite_are_an_error():
    """With how many entries."""
    samples = draw()
    samples[0, 0, 0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match="`samples` must be finite: .* 1 of 720 entries"):
        fit_tensor_normal(samples)


def test_start_that_is_not_positive_definite_is_an_error():
    """It names the mode, its size and its smallest eigenvalue."""
    start = [torch.eye(size, dtype=DTYPE, device=DEVICE) for size in SHAPE]
    start[1] = -start[1]
    message = r"`start\[1\]` of size 3 must be positive definite: .*eigenvalue of -1\."
    with pytest.raises(NotPositiveDefiniteError, match=message):
        fit_tensor_normal(draw(), start=start)


def test_start_that_is_not_symmetric_or_finite_is_an_error():
    """Each named."""
    start = [torch.eye(size, dtype=DTYPE, device=DEVICE) for size in SHAPE]
    start[0][0, 1] = 0.5
    with pytest.raises(ValueError, match=r"`start\[0\]` must be symmetric"):
        fit_tensor_normal(draw(), start=start)
    start[0][0, 1] = torch.inf
    with pytest.raises(NotFiniteError, match=r"`start\[0\]` must be finite"):
        fit_tensor_normal(draw(), start=start)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mean": "median"}, "`mean` must be 'estimate', 'zero' or a tensor: got 'median'"),
        ({"mean": torch.zeros(2, 3)}, r"shape of one sample: expected \(2, 3, 4\), got \(2, 3\)"),
        ({"shrinkage": 1.5}, "`shrinkage` must be a weight: expected 0 to 1, got 1.5"),
        ({"shrinkage": -0.1}, "`shrinkage` must be a weight: expected 0 to 1, got -0.1"),
        ({"shrinkage": [0.1, 0.2]}, "one per mode: expected 3 numbers, got 2"),
        ({"shrinkage": 0.1, "shrinkage_target": "ones"}, "'constant-correlation': got 'ones'"),
        ({"jitter": -1e-3}, "`jitter` must not be negative: got -0.001"),
        ({"jitter": float("nan")}, "`jitter` must"),
        ({"start": [torch.eye(2)]}, "one covariance per mode: expected 3, got 1"),
        ({"start": [torch.eye(2)] * 3}, r"`start\[1\]` must be .*expected shape \(3, 3\)"),
        ({"max_iterations": 0}, "`max_iterations` must be at least 1: got 0"),
        ({"tolerance": -1.0}, "`tolerance` must not be negative: got -1.0"),
    ],
)
def test_arguments_out_of_range_are_errors(arguments, message):
    """Real values in full sentences."""
    with pytest.raises(ValueError, match=message):
        fit_tensor_normal(draw(), **arguments)


def test_samples_of_another_kind_are_errors():
    """Not a tensor, not floating, no mode, no entry."""
    with pytest.raises(TypeError, match="`samples` must be a tensor: got list"):
        fit_tensor_normal([[1.0, 2.0]])
    with pytest.raises(TypeError, match=r"floating type: got torch.int64. Use `.double\(\)`"):
        fit_tensor_normal(torch.ones(5, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"one axis for the samples .*got shape \(5,\)"):
        fit_tensor_normal(torch.ones(5))
    with pytest.raises(ValueError, match=r"none of size 0: got shape \(0, 3\)"):
        fit_tensor_normal(torch.ones(0, 3))


def test_errors_can_be_caught_together():
    """As `MultirelError`, and as `ValueError`."""
    for kind in (MultirelError, ValueError):
        with pytest.raises(kind):
            fit_tensor_normal(draw((2, 3), 1))


def test_large_modes_are_fitted_without_the_kronecker_product():
    """D = 30 × 40 × 50: the product would take 29 GB."""
    samples = torch.randn(
        3, 30, 40, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float32
    ).to(DEVICE)
    fit = fit_tensor_normal(samples, tolerance=1e-4)
    assert fit.converged
    assert prod(SHAPE) < fit.distribution.event_shape.numel()
