"""Unfolding tensors and multiplying them mode by mode.

A tensor's modes are its trailing axes; axes in front of them are batch axes. Unfolding is row-major:
the axes that are not unfolded keep their order.
"""

from collections.abc import Sequence
from itertools import zip_longest
from math import prod

import torch
from torch import Tensor

from multirel._annotations import Float

__all__ = [
    "broadcast_shapes",
    "fold",
    "mode_product",
    "multi_mode_product",
    "pad_batch",
    "unfold",
]

FEW_COLUMNS = 16
FEW_ENTRIES = 128
"""Matrices with fewer columns, or fewer entries, are too small to be multiplied one by one."""


def broadcast_shapes(*shapes: Sequence[int]) -> torch.Size:
    """The shape that `shapes` broadcast to; `torch.broadcast_shapes` takes 0.4 s to import sympy."""
    reversed_shape = []
    for sizes in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        size = next((size for size in sizes if size != 1), 1)
        if any(other not in (1, size) for other in sizes):
            raise ValueError(
                f"batch axes must broadcast: got {', '.join(str(tuple(s)) for s in shapes)}."
            )
        reversed_shape.append(size)
    return torch.Size(reversed(reversed_shape))


def pad_batch(weight: Tensor, *, order: int, batch_dims: int) -> Tensor:
    """`weight`, whose last `order` axes are modes, with at least `batch_dims` axes in front of them."""
    missing = batch_dims - (weight.ndim - order)
    return weight.reshape((1,) * missing + weight.shape) if missing > 0 else weight


def _axis(weight: Tensor, mode: int, batch_dims: int) -> int:
    """The axis `mode` counted from 0, once it is known to be one of the modes of `weight`."""
    axis = mode + weight.ndim if mode < 0 else mode
    if not 0 <= axis < weight.ndim:
        raise ValueError(
            f"`mode` must be an axis of `weight`: expected {-weight.ndim} to {weight.ndim - 1} "
            f"for shape {tuple(weight.shape)}, got {mode}."
        )
    if axis < batch_dims:
        raise ValueError(
            f"`mode` must not be a batch axis: expected an axis from {batch_dims} to "
            f"{weight.ndim - 1} of shape {tuple(weight.shape)}, got {mode}."
        )
    return axis


def unfold(
    weight: Float[Tensor, "*shape"], mode: int, *, batch_dims: int = 0
) -> Float[Tensor, "*batch modes rest"]:
    """The mode-`mode` unfolding W_(k): one row per entry of the mode, other axes in order.

    Args:
        weight: Tensor to unfold.
        mode: Axis of `weight`, counted from 0. Negative values count from the end.
        batch_dims: Leading axes of `weight` that stay in front.

    Raises:
        ValueError: If `mode` is no axis of `weight`, or one of its batch axes.

    Example:
        >>> unfold(torch.arange(6.0).reshape(1, 2, 3), mode=2)
        tensor([[0., 3.],
                [1., 4.],
                [2., 5.]])
    """
    axis = _axis(weight, mode, batch_dims)
    rows = weight.movedim(axis, batch_dims)
    return rows.reshape(*rows.shape[: batch_dims + 1], prod(rows.shape[batch_dims + 1 :]))


def fold(
    matrix: Float[Tensor, "*batch modes rest"], mode: int, shape: Sequence[int]
) -> Float[Tensor, "*shape"]:
    """The tensor of `shape` whose mode-`mode` unfolding is `matrix`: the inverse of `unfold`.

    Args:
        matrix: The unfolding; axes in front of the last two are batch axes of the result.
        mode: Axis of the result, counted from 0. Negative values count from the end.
        shape: Shape of the result, batch axes included.

    Raises:
        ValueError: If `matrix` is not the unfolding of a tensor of that shape.

    Example:
        >>> weight = torch.arange(6.0).reshape(1, 2, 3)
        >>> torch.equal(fold(unfold(weight, mode=1), mode=1, shape=(1, 2, 3)), weight)
        True
    """
    template = torch.empty(tuple(shape), device="meta")
    batch_dims = matrix.ndim - 2
    axis = _axis(template, mode, batch_dims)
    moved = template.movedim(axis, batch_dims).shape
    expected = (*moved[: batch_dims + 1], prod(moved[batch_dims + 1 :]))
    if tuple(matrix.shape) != expected:
        raise ValueError(
            f"`matrix` must be a mode-{mode} unfolding of shape {tuple(shape)}: "
            f"expected {expected}, got {tuple(matrix.shape)}."
        )
    return matrix.reshape(moved).movedim(batch_dims, axis)


def mode_product(
    weight: Float[Tensor, "*shape"],
    matrix: Float[Tensor, "*batch new old"],
    mode: int,
    *,
    batch_dims: int | None = None,
) -> Float[Tensor, "*new_shape"]:
    """Multiply every mode-`mode` fiber of `weight` by `matrix`: W ×ₖ M.

    Args:
        weight: Tensor whose axis `mode` has size `old`.
        matrix: Matrix applied to that axis, or a batch of matrices.
        mode: Axis of `weight`, counted from 0. Negative values count from the end.
        batch_dims: Leading axes of `weight` that are batch axes, against which those of `matrix`
            broadcast. None means as many as `matrix` has.

    Raises:
        ValueError: If the columns of `matrix` do not match axis `mode`.

    Example:
        >>> mode_product(torch.arange(6.0).reshape(2, 3), torch.ones(1, 2), mode=0)
        tensor([[3., 5., 7.]])
    """
    batch_dims = matrix.ndim - 2 if batch_dims is None else batch_dims
    if matrix.ndim - 2 > batch_dims:
        raise ValueError(
            f"`batch_dims` must be at least the number of batch axes of `matrix`: expected "
            f"{matrix.ndim - 2}, got {batch_dims}."
        )
    axis = _axis(weight, mode, batch_dims)
    if matrix.shape[-1] != weight.shape[axis]:
        raise ValueError(
            f"`matrix` must have one column per entry of mode {mode} of `weight`: "
            f"expected {weight.shape[axis]} columns, got {matrix.shape[-1]}."
        )
    size, right = weight.shape[axis], weight.shape[axis + 1 :]
    if matrix.ndim == 2:  # noqa: PLR2004
        left = weight.shape[:axis]
        if not right:
            return (weight.reshape(prod(left), size) @ matrix.mT).reshape(*left, matrix.shape[-2])
        columns = weight.reshape(prod(left), size, prod(right))
        # A batch of products with few columns each is up to 10 times slower than a single product
        # of rearranged fibers, which is what einsum makes of it.
        n_columns = columns.shape[-1]
        is_small = n_columns < FEW_COLUMNS or size * n_columns < FEW_ENTRIES
        if len(columns) > 1 and is_small:
            product = torch.einsum("ij,ljr->lir", matrix, columns)
        else:
            product = matrix @ columns
        return product.reshape(*left, matrix.shape[-2], *right)
    batch, left = weight.shape[:batch_dims], weight.shape[batch_dims:axis]
    if not right:
        product = weight.reshape(*batch, prod(left), size) @ matrix.mT
        return product.reshape(*product.shape[:-2], *left, matrix.shape[-2])
    product = matrix.unsqueeze(-3) @ weight.reshape(*batch, prod(left), size, prod(right))
    return product.reshape(*product.shape[:-3], *left, matrix.shape[-2], *right)


def multi_mode_product(
    weight: Float[Tensor, "*shape"], matrices: Sequence[Tensor | None]
) -> Float[Tensor, "*new_shape"]:
    """Multiply each trailing mode of `weight` by its matrix: W ×₁ M₁ … ×_K M_K.

    Row-major, this is (M₁ ⊗ … ⊗ M_K) vec(W) folded back.

    Args:
        weight: Tensor with at least one axis per matrix; axes in front are batch axes.
        matrices: One matrix (or batch of matrices) per mode; None leaves that mode alone.

    Raises:
        ValueError: If there are more matrices than axes, or sizes do not match.

    Example:
        >>> multi_mode_product(torch.eye(2), [torch.ones(1, 2), None])
        tensor([[1., 1.]])
    """
    order = len(matrices)
    if order > weight.ndim:
        raise ValueError(
            f"`matrices` must have at most one matrix per axis of `weight`: "
            f"expected at most {weight.ndim}, got {order}."
        )
    batch_dims = max((matrix.ndim - 2 for matrix in matrices if matrix is not None), default=0)
    weight = pad_batch(weight, order=order, batch_dims=batch_dims)
    for mode, matrix in enumerate(matrices):
        if matrix is not None:
            weight = mode_product(weight, matrix, mode - order, batch_dims=weight.ndim - order)
    return weight
