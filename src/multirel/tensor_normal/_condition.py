"""The law of some slices of a mode, given the others."""

from collections.abc import Sequence

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal._covariance import Covariance
from multirel.tensor_normal._modes import mode_product
from multirel.tensor_normal._slices import slice_indices

__all__ = ["condition_on_slices"]


def condition_on_slices(
    loc: Float[Tensor, "*shape"],
    covariances: Sequence[Covariance],
    *,
    mode: int,
    index: int | Sequence[int],
    value: Float[Tensor, "*slices"],
) -> tuple[Float[Tensor, "*rest"], list[Covariance]]:
    """Mean and covariances of the slices of `mode` that `index` does not name, given those it does.

    With O the observed slices and R the rest, only this mode changes: the mean becomes
    M_R + Σ_RO Σ_OO⁻¹ (X_O − M_O) along it, and its covariance Σ_RR − Σ_RO Σ_OO⁻¹ Σ_OR.
    """
    order = len(covariances)
    shape = loc.shape[loc.ndim - order :]
    axis, observed = slice_indices(shape, mode, index)
    rest = [row for row in range(shape[axis]) if row not in set(observed)]
    if not rest:
        raise ValueError(
            f"`index` must leave at least one slice of mode {mode}: got all {shape[axis]}."
        )
    given = tuple(value.shape)
    if not hasattr(index, "__iter__") and value.ndim >= order - 1:
        value = value.unsqueeze(axis - order)
    expected = (*shape[:axis], len(observed), *shape[axis + 1 :])
    if tuple(value.shape[max(value.ndim - order, 0) :]) != expected:
        raise ValueError(
            f"`value` must hold the observed slices of mode {mode}: expected shape "
            f"{_shape_of_value(expected, axis, index)}, got {given}."
        )
    gain, conditional = covariances[axis].condition(observed, rest)
    at = axis - order
    loc_observed = loc.index_select(at, torch.as_tensor(observed, device=loc.device))
    loc_rest = loc.index_select(at, torch.as_tensor(rest, device=loc.device))
    surprise = value - loc_observed
    shift = mode_product(surprise, gain, at, batch_dims=surprise.ndim - order)
    changed = [*covariances]
    changed[axis] = conditional
    return loc_rest + shift, changed


def _shape_of_value(expected: tuple[int, ...], axis: int, index: int | Sequence[int]) -> str:
    """How `value` should have looked; a single slice comes without its mode."""
    sizes = expected if hasattr(index, "__iter__") else expected[:axis] + expected[axis + 1 :]
    return f"({', '.join(['…', *map(str, sizes)])})"
