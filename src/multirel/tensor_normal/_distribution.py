"""The tensor normal distribution."""

from collections.abc import Mapping, Sequence
from math import log, pi, prod
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.kl import register_kl

from multirel._annotations import Float
from multirel.tensor_normal._checks import check_finite
from multirel.tensor_normal._condition import condition_on_slices
from multirel.tensor_normal._covariance import Covariance
from multirel.tensor_normal._dense_covariance import as_covariance
from multirel.tensor_normal._kronecker import (
    kronecker_color,
    kronecker_log_determinant,
    kronecker_project,
    kronecker_quadratic_form,
    sum_of_squares,
)
from multirel.tensor_normal._modes import broadcast_shapes, pad_batch
from multirel.tensor_normal._slices import slice_indices
from multirel.tensor_normal._spectrum import along_modes

__all__ = ["TensorNormal"]

SUPPORT_TOLERANCE = 1e3
"""Distance from the support of a singular distribution, in units of roundoff, that counts as on it."""


class TensorNormal(Distribution):
    """Normal distribution of an order-K tensor with one covariance per mode, Eqs. (1) to (3).

    vec(X) ~ N(vec(loc), Σ₁ ⊗ … ⊗ Σ_K) with the row-major vec. Only the Kronecker product is identifiable:
    c Σ₁ and Σ₂ / c are the same distribution (see `normalize_covariances`).

    A `PseudoInverseCovariance` makes the distribution singular: its density is the one on its support,
    and zero elsewhere.

    Args:
        loc: Mean, shape (*batch, d₁, …, d_K).
        covariances: One per mode: tensors (*batch, dₖ, dₖ), or covariance objects.
        validate_args: Whether to check the arguments, and later the values, for what they mean
            (finite, symmetric, positive definite). None means torch's default. Shapes are always
            checked.

    Raises:
        ValueError: If the sizes of `loc` and `covariances` differ, or a covariance is not symmetric.
        NotFiniteError: If an argument has NaN or infinity.
        NotPositiveDefiniteError: If a covariance is not positive definite; names the mode.

    Example:
        >>> weights = TensorNormal(torch.zeros(2, 3), [torch.eye(2), torch.eye(3)])
        >>> weights.log_prob(torch.zeros(2, 3))
        tensor(-5.5136)
        >>> weights.event_shape
        torch.Size([2, 3])
    """

    has_rsample = True
    _computed_log_normalizer: Tensor | None = None
    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012  (torch's own protocol)

    def __init__(
        self,
        loc: Float[Tensor, "*shape"],
        covariances: Sequence[Tensor | Covariance],
        validate_args: bool | None = None,
    ) -> None:
        self.covariances: tuple[Covariance, ...] = tuple(map(as_covariance, covariances))
        _check_shapes(loc, self.covariances)
        order = len(self.covariances)
        batch_shape = broadcast_shapes(
            loc.shape[: loc.ndim - order], *(c.batch_shape for c in self.covariances)
        )
        event_shape = loc.shape[loc.ndim - order :]
        self.loc = loc.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if self._validate_args:
            _check_values(loc, self.covariances)

    @property
    def order(self) -> int:
        """Number of modes K."""
        return len(self.covariances)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        """All real tensors of the event shape."""
        return constraints.independent(constraints.real, self.order)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "TensorNormal":
        """The same distribution with another batch shape."""
        new: TensorNormal = self._get_checked_instance(TensorNormal, _instance)  # type: ignore[no-untyped-call]
        new.covariances = self.covariances
        new.loc = self.loc.expand(torch.Size(batch_shape) + self.event_shape)
        super(TensorNormal, new).__init__(
            torch.Size(batch_shape), self.event_shape, validate_args=False
        )
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Float[Tensor, "*shape"]:
        """The mean, `loc`."""
        return self.loc

    @property
    def mode(self) -> Float[Tensor, "*shape"]:
        """The value of the largest density, `loc`."""
        return self.loc

    @property
    def variance(self) -> Float[Tensor, "*shape"]:
        """The variance of each entry: the product of those of its modes."""
        product = self.loc.new_ones(())
        for mode, covariance in enumerate(self.covariances):
            product = product * along_modes(covariance.diagonal(), mode=mode, order=self.order)
        return product.expand(self.loc.shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Float[Tensor, "*shape"]:
        """Samples, differentiable in `loc` and the covariances.

        Args:
            sample_shape: Shape of what is drawn, in front of the batch and the modes.
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        noise = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + kronecker_color(self.covariances, noise)

    def log_prob(self, value: Float[Tensor, "*shape"]) -> Float[Tensor, "*batch"]:
        r"""Logarithm of the density, Eq. (2).

        $$-\tfrac12\Big[D\ln 2\pi + \sum_k \tfrac{D}{d_k}\ln|\Sigma_k| + \langle X-M, P(X-M)\rangle\Big]$$
        """
        if self._validate_args and value.numel() > 0:
            self._validate_sample(value)
        centered = value - self.loc
        distance = kronecker_quadratic_form(self.covariances, centered)
        log_density = -0.5 * (self._log_normalizer() + distance)
        if not self._is_singular:
            return log_density
        residual = sum_of_squares(
            centered - kronecker_project(self.covariances, centered), self.order
        )
        roundoff = SUPPORT_TOLERANCE * torch.finfo(value.dtype).eps
        is_on_support = residual <= roundoff**2 * sum_of_squares(centered, self.order)
        return log_density.masked_fill(~is_on_support, -torch.inf)

    def entropy(self) -> Float[Tensor, "*batch"]:
        """Differential entropy in nats."""
        entropy = 0.5 * (self._log_normalizer() + self._rank)
        return entropy.expand(self.batch_shape)

    @property
    def _rank(self) -> int:
        return prod([covariance.rank for covariance in self.covariances])

    @property
    def _is_singular(self) -> bool:
        return self._rank < self.event_shape.numel()

    def _log_normalizer(self) -> Tensor:
        if self._computed_log_normalizer is None:
            constant = self._rank * log(2 * pi)
            self._computed_log_normalizer = constant + kronecker_log_determinant(self.covariances)
        return self._computed_log_normalizer

    def marginal(self, indices: Mapping[int, Sequence[int] | int]) -> "TensorNormal":
        """The law of some slices: a tensor normal over the slices that are kept.

        Args:
            indices: For each mode that is cut down (counted from 0), the slices to keep. A single
                number keeps the mode, with size 1.

        Raises:
            ValueError: If a mode or a slice does not exist, or a slice is named twice.

        Example:
            >>> weights = TensorNormal(torch.zeros(2, 3), [torch.eye(2), torch.eye(3)])
            >>> weights.marginal({1: [0, 2]}).event_shape
            torch.Size([2, 2])
        """
        loc, covariances = self.loc, list(self.covariances)
        for mode, kept in indices.items():
            axis, rows = slice_indices(self.event_shape, mode, kept)
            loc = loc.index_select(axis - self.order, torch.as_tensor(rows, device=loc.device))
            covariances[axis] = covariances[axis].select(rows)
        return TensorNormal(loc, covariances, validate_args=False)._validating_as(self)

    def condition(
        self, mode: int, index: int | Sequence[int], value: Float[Tensor, "*slices"]
    ) -> "TensorNormal":
        """The law of the other slices of `mode`, given some: again a tensor normal.

        Args:
            mode: The mode whose slices were observed, counted from 0.
            index: The observed slice, or a list of them.
            value: What was observed. For a list, its `mode` has one entry per observed slice; for a
                single number it has no such mode, as `X.select` gives it. Axes in front become batch
                axes of the result.

        Raises:
            ValueError: If the mode or a slice does not exist, a slice is named twice, no slice is left,
                or `value` has another shape.

        Example:
            >>> tasks = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
            >>> weights = TensorNormal(torch.zeros(2, 3), [tasks, torch.eye(3)])
            >>> weights.condition(0, 0, torch.ones(3)).mean
            tensor([[0.5000, 0.5000, 0.5000]])
        """
        loc, covariances = condition_on_slices(
            self.loc, self.covariances, mode=mode, index=index, value=value
        )
        return TensorNormal(loc, covariances, validate_args=False)._validating_as(self)

    def _validating_as(self, other: "TensorNormal") -> "TensorNormal":
        self._validate_args = other._validate_args
        return self

    def __repr__(self) -> str:
        batch = f", batch_shape={tuple(self.batch_shape)}" if self.batch_shape else ""
        return f"TensorNormal(event_shape={tuple(self.event_shape)}{batch})"


def _check_shapes(loc: Tensor, covariances: Sequence[Covariance]) -> None:
    """Raise unless `loc` ends in one axis per covariance, with its size, dtype and device."""
    if not covariances:
        raise ValueError("`covariances` must have one covariance per mode: got none.")
    if not loc.is_floating_point():
        raise TypeError(f"`loc` must be of floating type: got {loc.dtype}. Use `.double()`.")
    sizes = tuple(covariance.size for covariance in covariances)
    if tuple(loc.shape[max(loc.ndim - len(sizes), 0) :]) != sizes:
        raise ValueError(
            f"`loc` must end in the sizes of `covariances`: expected "
            f"(…, {', '.join(map(str, sizes))}), got {tuple(loc.shape)}."
        )
    for mode, covariance in enumerate(covariances):
        if covariance.dtype != loc.dtype or covariance.device != loc.device:
            raise ValueError(
                f"`covariances[{mode}]` must have the dtype and device of `loc`: expected "
                f"{loc.dtype} on {loc.device}, got {covariance.dtype} on {covariance.device}."
            )


def _check_values(loc: Tensor, covariances: Sequence[Covariance]) -> None:
    """Raise unless `loc` is finite and every covariance is one."""
    check_finite("loc", loc)
    for mode, covariance in enumerate(covariances):
        covariance.check(f"covariances[{mode}]")


@register_kl(TensorNormal, TensorNormal)  # type: ignore[untyped-decorator]
def _kl_tensor_normal(p: TensorNormal, q: TensorNormal) -> Tensor:
    """KL(p ‖ q) = ½ [∏ tr(Σ_qk⁻¹ Σ_pk) + ⟨Δ, P_q Δ⟩ − D + ln|Σ_q| − ln|Σ_p|]."""
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"`p` and `q` must have one event shape: got {tuple(p.event_shape)} and "
            f"{tuple(q.event_shape)}."
        )
    if p._is_singular or q._is_singular:
        raise NotImplementedError(
            "The KL divergence of singular tensor normals is not defined here."
        )
    product = p.loc.new_ones(())
    for before, after in zip(p.covariances, q.covariances, strict=True):
        matrix = pad_batch(before.dense(), order=2, batch_dims=len(after.batch_shape))
        ratio = after.solve(matrix, mode=-2, batch_dims=matrix.ndim - 2)
        product = product * ratio.diagonal(dim1=-2, dim2=-1).sum(-1)
    distance = kronecker_quadratic_form(q.covariances, q.loc - p.loc)
    log_ratio = kronecker_log_determinant(q.covariances) - kronecker_log_determinant(p.covariances)
    return 0.5 * (product + distance - p.event_shape.numel() + log_ratio)
