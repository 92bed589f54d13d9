"""What `fit_tensor_normal` is given, checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.exceptions import UnboundedLikelihoodError
from multirel.tensor_normal._checks import check_finite
from multirel.tensor_normal._covariance import Covariance, ShrinkageTarget, check_shrinkage
from multirel.tensor_normal._dense_covariance import DenseCovariance, as_covariance
from multirel.tensor_normal._existence import is_likelihood_bounded, n_samples_needed

__all__ = ["FitInput", "check_fit_input"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FitInput:
    """Centered samples and settings that are known to make sense."""

    centered: Float[Tensor, "n *modes"]
    mean: Float[Tensor, "*modes"]
    start: tuple[DenseCovariance, ...]
    shrinkage: tuple[float, ...]
    shrinkage_target: ShrinkageTarget
    jitter: float


def check_fit_input(
    samples: Tensor,
    *,
    mean: str | Tensor,
    start: Sequence[Tensor | Covariance] | None,
    shrinkage: float | Sequence[float],
    shrinkage_target: ShrinkageTarget,
    jitter: float,
) -> FitInput:
    """The arguments of `fit_tensor_normal` in the form that it works with, or an error."""
    _check_samples(samples)
    samples = samples.detach()
    shape = tuple(samples.shape[1:])
    weights = _shrinkage_per_mode(shrinkage, len(shape))
    for weight in weights:
        check_shrinkage(weight, shrinkage_target)
    if not (jitter >= 0 and isfinite(jitter)):
        raise ValueError(f"`jitter` must not be negative: got {jitter}.")
    loc = _mean_of(samples, mean)
    centered = samples - loc
    if not any(weights) and jitter == 0:
        n_lost = int(isinstance(mean, str) and mean == "estimate")
        _check_existence(shape, samples.shape[0], n_lost)
    if not centered.any():
        raise UnboundedLikelihoodError(
            "`samples` must differ from their mean: got none that does, so no covariance can be "
            "estimated. Shrinkage does not help either; more samples do."
        )
    return FitInput(
        centered=centered,
        mean=loc,
        start=_start_covariances(start, samples),
        shrinkage=weights,
        shrinkage_target=shrinkage_target,
        jitter=float(jitter),
    )


def _check_samples(samples: Tensor) -> None:
    if not isinstance(samples, Tensor):
        raise TypeError(
            f"`samples` must be a tensor: got {type(samples).__name__}. Use `torch.as_tensor`."
        )
    if not samples.is_floating_point():
        raise TypeError(
            f"`samples` must be of floating type: got {samples.dtype}. Use `.double()`."
        )
    if samples.ndim < 2 or samples.numel() == 0:  # noqa: PLR2004
        raise ValueError(
            f"`samples` must have one axis for the samples and one per mode, none of size 0: "
            f"got shape {tuple(samples.shape)}. A single sample needs `.unsqueeze(0)`."
        )
    check_finite("samples", samples)


def _shrinkage_per_mode(shrinkage: float | Sequence[float], order: int) -> tuple[float, ...]:
    if isinstance(shrinkage, Sequence):
        if len(shrinkage) != order:
            raise ValueError(
                f"`shrinkage` must be one number, or one per mode: expected {order} numbers, "
                f"got {len(shrinkage)}."
            )
        return tuple(float(weight) for weight in shrinkage)
    return (float(shrinkage),) * order


def _mean_of(samples: Tensor, mean: str | Tensor) -> Tensor:
    """The mean to center by: Eq. (4), zero, or the one that was given."""
    if isinstance(mean, Tensor):
        check_finite("mean", mean)
        if tuple(mean.shape) != tuple(samples.shape[1:]):
            raise ValueError(
                f"`mean` must have the shape of one sample: expected {tuple(samples.shape[1:])}, "
                f"got {tuple(mean.shape)}."
            )
        return mean.detach().to(samples)
    if mean == "estimate":
        return samples.mean(0)
    if mean == "zero":
        return torch.zeros_like(samples[0])
    raise ValueError(f"`mean` must be 'estimate', 'zero' or a tensor: got {mean!r}.")


def _check_existence(shape: tuple[int, ...], n_samples: int, n_lost: int) -> None:
    if not is_likelihood_bounded(shape, n_samples - n_lost):
        enough = n_samples_needed(shape, more_than=n_samples - n_lost) + n_lost
        raise UnboundedLikelihoodError(
            f"`samples` must be more: with {n_samples} of shape {shape} the likelihood has no "
            f"maximum; {enough} would do{' while their mean is estimated' if n_lost else ''}. "
            f"Or use `shrinkage` (for example 0.1), which needs no more samples."
        )


def _start_covariances(
    start: Sequence[Tensor | Covariance] | None, samples: Tensor
) -> tuple[DenseCovariance, ...]:
    shape = samples.shape[1:]
    if start is None:
        return tuple(
            DenseCovariance(torch.eye(size, dtype=samples.dtype, device=samples.device))
            for size in shape
        )
    if len(start) != len(shape):
        raise ValueError(
            f"`start` must have one covariance per mode: expected {len(shape)}, got {len(start)}."
        )
    return tuple(
        _start_covariance(f"start[{mode}]", value, shape[mode], samples)
        for mode, value in enumerate(start)
    )


def _start_covariance(
    name: str, value: Tensor | Covariance, size: int, samples: Tensor
) -> DenseCovariance:
    matrix = as_covariance(value).dense().detach().to(samples)
    if tuple(matrix.shape) != (size, size):
        raise ValueError(
            f"`{name}` must be a covariance of its mode: expected shape {(size, size)}, "
            f"got {tuple(matrix.shape)}."
        )
    covariance = DenseCovariance(matrix)
    covariance.check(name)
    return covariance
