"""Maximum likelihood of the tensor normal distribution by the flip-flop algorithm."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Literal

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.exceptions import (
    ConvergenceWarning,
    NotPositiveDefiniteError,
    UnboundedLikelihoodError,
)
from multirel.tensor_normal._covariance import Covariance, ShrinkageTarget
from multirel.tensor_normal._dense_covariance import DenseCovariance
from multirel.tensor_normal._distribution import TensorNormal
from multirel.tensor_normal._fit_input import FitInput, check_fit_input
from multirel.tensor_normal._kronecker import kronecker_log_determinant
from multirel.tensor_normal._matrix_shrinkage import shrink_matrix, symmetrize
from multirel.tensor_normal._modes import unfold

__all__ = ["TensorNormalFit", "fit_tensor_normal"]

LARGEST_CONDITION = 1e12
"""A covariance with a larger condition number counts as singular."""

PATIENCE = 50
"""Sweeps over which the gain in likelihood has to decay."""

DECAY = 0.5
"""The share of the gain `PATIENCE` sweeps ago that counts as no decay."""

Update = Callable[[int, Tensor], DenseCovariance]


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorNormalFit:
    """What `fit_tensor_normal` found."""

    distribution: TensorNormal
    """The fitted distribution; tr Σₖ = dₖ for every mode but the last, which carries the scale."""

    log_likelihoods: tuple[float, ...]
    """Log-likelihood of the samples after each sweep; non-decreasing without shrinkage and jitter."""

    converged: bool
    """Whether the covariances settled to the tolerance."""

    n_iterations: int
    """Number of sweeps over all modes."""


def fit_tensor_normal(
    samples: Float[Tensor, "n *modes"],
    *,
    mean: Literal["estimate", "zero"] | Float[Tensor, "*modes"] = "estimate",
    start: Sequence[Tensor | Covariance] | None = None,
    shrinkage: float | Sequence[float] = 0.0,
    shrinkage_target: ShrinkageTarget = "identity",
    jitter: float = 0.0,
    max_iterations: int = 100,
    tolerance: float = 1e-8,
) -> TensorNormalFit:
    r"""The tensor normal distribution that makes the samples most likely, Eqs. (4) and (5).

    Each sweep updates one mode after the other, with the covariances of the others held:

    $$S_k = \frac{d_k}{nD}\sum_i (X_i - M)_{(k)}
    \Big(\bigotimes_{j \ne k} \Sigma_j\Big)^{-1} (X_i - M)_{(k)}^T$$

    Without shrinkage and jitter Σₖ = Sₖ, the likelihood never decreases (up to roundoff), and its maximum
    does not depend on the starting point. With them the sweeps settle at a fixed point that is no maximum.

    Args:
        samples: The samples, one per entry of the first axis.
        mean: "estimate" (the average of the samples, Eq. (4)), "zero", or the mean itself.
        start: Covariances to start from, one per mode; None means identities.
        shrinkage: Weight α of the target in each update, (1 − α) Sₖ + α (tr Sₖ / dₖ) T; one for all
            modes, or one per mode.
        shrinkage_target: "identity" or "constant-correlation", as in `Covariance.shrink`.
        jitter: Added to the diagonal, relative to the mean eigenvalue of Sₖ.
        max_iterations: Most sweeps to make.
        tolerance: Largest relative change of a covariance in one sweep that counts as settled; not
            below ten times the machine epsilon.

    Raises:
        UnboundedLikelihoodError: If the likelihood has no maximum.
        NotFiniteError: If the samples or the start hold NaN or infinity.
        NotPositiveDefiniteError: If a covariance of `start` is not positive definite.
        ValueError: If an argument has the wrong shape or is out of range.

    Warns:
        ConvergenceWarning: If the covariances did not settle.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> tasks = torch.tensor([[1.0, 0.8], [0.8, 1.0]])
        >>> truth = TensorNormal(torch.zeros(2, 3), [tasks, torch.eye(3)])
        >>> fit = fit_tensor_normal(truth.sample((2000,)))
        >>> correlation_matrix(fit.distribution.covariances[0])[0, 1].round(decimals=1)
        tensor(0.8000)
    """
    given = check_fit_input(
        samples,
        mean=mean,
        start=start,
        shrinkage=shrinkage,
        shrinkage_target=shrinkage_target,
        jitter=jitter,
    )
    _check_schedule(max_iterations, tolerance)
    tolerance = max(tolerance, 10 * torch.finfo(samples.dtype).eps)
    covariances = [*given.start]
    with torch.no_grad():
        log_likelihoods, change = _iterate(
            given, covariances, max_iterations=max_iterations, tolerance=tolerance
        )
    if change > tolerance:
        _warn_unsettled(log_likelihoods, change, tolerance)
    return TensorNormalFit(
        distribution=TensorNormal(given.mean, covariances),
        log_likelihoods=tuple(log_likelihoods),
        converged=change <= tolerance,
        n_iterations=len(log_likelihoods),
    )


def _iterate(
    given: FitInput, covariances: list[DenseCovariance], *, max_iterations: int, tolerance: float
) -> tuple[list[float], float]:
    """Sweep until `covariances` settle in place; the log-likelihoods, and the last relative change."""
    update = _make_update(given)
    log_likelihoods: list[float] = []
    change = float("inf")
    while len(log_likelihoods) < max_iterations and change > tolerance:
        previous = [covariance.matrix for covariance in covariances]
        last_scatter = _sweep(given.centered, covariances, range(len(covariances)), update)
        _check_condition(covariances, len(log_likelihoods) + 1)
        n_samples = given.centered.shape[0]
        log_likelihoods.append(_log_likelihood(covariances, last_scatter, n_samples))
        change = _largest_change(covariances, previous)
    return log_likelihoods, change


def _largest_change(covariances: Sequence[DenseCovariance], previous: Sequence[Tensor]) -> float:
    """Relative change of the covariance that changed most."""
    return max(
        float(torch.linalg.norm(new.matrix - old) / torch.linalg.norm(new.matrix))
        for new, old in zip(covariances, previous, strict=True)
    )


def _make_update(given: FitInput) -> Update:
    """The covariance step of one mode: shrink, add jitter, and leave the scale to the last mode."""
    last = len(given.start) - 1

    def update(mode: int, scatter: Tensor) -> DenseCovariance:
        size = scatter.shape[-1]
        shrunk = shrink_matrix(scatter, given.shrinkage[mode], given.shrinkage_target)
        variance = scatter.trace() / size
        matrix = shrunk + given.jitter * variance * torch.eye(
            size, dtype=scatter.dtype, device=scatter.device
        )
        return DenseCovariance(matrix if mode == last else matrix * (size / matrix.trace()))

    return update


def _sweep(
    white: Tensor, covariances: list[DenseCovariance], modes: range, update: Update
) -> Tensor:
    """Update the covariances of `modes` in order; returns the scatter Sₖ of the last one.

    `white` holds the samples whitened in all other modes. Halving the modes shares the whitening between
    them: K log K mode products in place of K (K − 1).
    """
    if len(modes) == 1:
        mode = modes[0]
        rows = unfold(white, mode + 1)
        scatter = symmetrize(rows @ rows.mT) / rows.shape[1]
        covariances[mode] = update(mode, scatter)
        return scatter
    half = len(modes) // 2
    first, second = modes[:half], modes[half:]
    _sweep(_whiten(white, covariances, second), covariances, first, update)
    return _sweep(_whiten(white, covariances, first), covariances, second, update)


def _whiten(samples: Tensor, covariances: Sequence[DenseCovariance], modes: range) -> Tensor:
    for mode in modes:
        try:
            samples = covariances[mode].whiten(samples, mode + 1)
        except NotPositiveDefiniteError:
            raise _degenerate_error(mode, covariances[mode].size, "is singular") from None
    return samples


def _check_condition(covariances: Sequence[DenseCovariance], sweep: int) -> None:
    """Raise if a covariance has become singular: then the likelihood grows without limit."""
    for mode, covariance in enumerate(covariances):
        epsilon = torch.finfo(covariance.dtype).eps
        limit = min(LARGEST_CONDITION, 0.1 / epsilon)
        values = torch.linalg.eigvalsh(covariance.matrix)
        if not float(values[0]) * limit > float(values[-1]):
            problem = f"has a condition number above {limit:.0e} after {sweep} sweeps"
            raise _degenerate_error(mode, covariance.size, problem)


def _degenerate_error(mode: int, size: int, problem: str) -> UnboundedLikelihoodError:
    return UnboundedLikelihoodError(
        f"`samples` must determine every covariance: that of mode {mode} (size {size}) {problem}, "
        f"so the likelihood has no maximum. Use `shrinkage` (for example 0.1), or more samples."
    )


def _log_likelihood(
    covariances: Sequence[DenseCovariance], last_scatter: Tensor, n_samples: int
) -> float:
    """Log-likelihood of the samples, from the scatter of the last mode that was updated."""
    n_entries = 1
    for covariance in covariances:
        n_entries *= covariance.size
    last = covariances[-1]
    distance = last.solve(last_scatter, mode=0).trace() * (n_entries / last.size)
    log_determinant = kronecker_log_determinant(covariances)
    constant = n_entries * log(2 * pi)
    return -0.5 * n_samples * (constant + float(log_determinant) + float(distance))


def _check_schedule(max_iterations: int, tolerance: float) -> None:
    if max_iterations < 1:
        raise ValueError(f"`max_iterations` must be at least 1: got {max_iterations}.")
    if not tolerance >= 0:
        raise ValueError(f"`tolerance` must not be negative: got {tolerance}.")


def _warn_unsettled(log_likelihoods: Sequence[float], change: float, tolerance: float) -> None:
    n_sweeps = len(log_likelihoods)
    gains = [after - before for before, after in zip(log_likelihoods, log_likelihoods[1:])]  # noqa: B905, RUF007
    message = (
        f"`fit_tensor_normal` stopped after {n_sweeps} sweeps with a relative change of {change:.2g}, "
        f"above the tolerance of {tolerance:.2g}."
    )
    if len(gains) > PATIENCE and gains[-1] > DECAY * gains[-1 - PATIENCE] > 0:
        message += (
            f" The gain per sweep, {gains[-1]:.3g}, does not decay: the likelihood may have no "
            f"maximum. Use `shrinkage`, or more samples."
        )
    else:
        message += " Raise `max_iterations`, or `tolerance`."
    warnings.warn(message, ConvergenceWarning, stacklevel=3)
