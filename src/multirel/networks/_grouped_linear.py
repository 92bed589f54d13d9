r"""A product of every row with the matrix of its task, and its derivatives of every order.

$$y_n = W_{t(n)}\,x_n + b_{t(n)}$$

The gradient in x is the same product with the transposed matrices. The gradient in W is the sum of
outer products per task, whose own gradients are again products of rows with matrices. So two
functions have all derivatives, and none of them copies a matrix per row.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor

from multirel.networks._rows_by_task import MAX_PADDED_SHARE, Block, RowsByTask

__all__ = ["grouped_linear"]

SMALL_PRODUCT = 2**21
"""Products of rows with matrices that have fewer multiplications take less time than starting them."""

MAX_PADDED_SHARE_IF_SMALL = 1.75
"""`MAX_PADDED_SHARE` for them."""


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, rows: RowsByTask) -> Tensor:
    """The rows of `x`, "n *rest I", times the matrices of their tasks, "T O I": "n *rest O".

    Under autocast, all that it multiplies is cast first, as for `torch.nn.functional.linear`.
    """
    device_type = x.device.type
    if torch.is_autocast_enabled(device_type) and x.dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device_type)
        x, weight = x.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    between = x.shape[1:-1]
    flat = x.reshape(len(x), between.numel(), x.shape[-1])
    product = _linear(flat, weight, bias, rows=rows)
    return product.reshape(len(x), *between, weight.shape[-2])


def _without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast; where there is none, entering one would take longer than needed."""
    device_type = x.device.type
    if torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


class _GroupedLinear(torch.autograd.Function):
    """Rows "n s I" times matrices "T O I", plus biases "T O"."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        x, weight, bias, rows = inputs
        with _without_autocast(x):
            return _multiply(x, weight, bias, rows=rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, weight, bias, rows = inputs
        ctx.save_for_backward(x, weight)
        ctx.has_bias, ctx.rows = bias is not None, rows

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (x, weight), (gradient,) = ctx.saved_tensors, gradients
        in_x = in_weight = in_bias = None
        if ctx.needs_input_grad[0]:
            in_x = _linear(gradient, weight.mT, None, rows=ctx.rows)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            in_weight, in_bias = _outer(gradient, x, rows=ctx.rows)
        return in_x, in_weight, in_bias if ctx.has_bias else None, None


class _GroupedOuter(torch.autograd.Function):
    """Sums per task of rows "n s O" times rows "n s I", and of the former alone: "T O I" and "T O"."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        left, right, rows = inputs
        with _without_autocast(left):
            return _outer_products(left, right, rows=rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        left, right, rows = inputs
        ctx.save_for_backward(left, right)
        ctx.rows = rows

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (left, right), (in_products, in_sums) = ctx.saved_tensors, gradients
        in_left = in_right = None
        if ctx.needs_input_grad[0]:
            in_left = _linear(right, in_products, in_sums, rows=ctx.rows)
        if ctx.needs_input_grad[1]:
            in_right = _linear(left, in_products.mT, None, rows=ctx.rows)
        return in_left, in_right, None


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, rows: RowsByTask) -> Tensor:
    return cast(Tensor, _GroupedLinear.apply(x, weight, bias, rows))  # type: ignore[no-untyped-call]


def _outer(left: Tensor, right: Tensor, *, rows: RowsByTask) -> tuple[Tensor, Tensor]:
    return cast(
        tuple[Tensor, Tensor],
        _GroupedOuter.apply(left, right, rows),  # type: ignore[no-untyped-call]
    )


def _blocks(x: Tensor, n_outputs: int, rows: RowsByTask) -> tuple[Block, ...]:
    """Blocks of rows that copy few matrices, and few rows unless products are small."""
    n_rows, n_inputs = x.shape[0] * x.shape[1], x.shape[2]
    is_small = n_rows * n_inputs * n_outputs <= SMALL_PRODUCT
    return rows.blocks(
        x.device,
        max_copied=n_rows * (n_inputs + n_outputs) // (2 * n_inputs * n_outputs),
        max_padded=MAX_PADDED_SHARE_IF_SMALL if is_small else MAX_PADDED_SHARE,
    )


def _multiply(x: Tensor, weight: Tensor, bias: Tensor | None, *, rows: RowsByTask) -> Tensor:
    n_rows, n_between, n_outputs = len(x), x.shape[1], weight.shape[-2]
    # Products of padding go to one row more than there are, which is cut off at the end.
    y = x.new_empty(n_rows + 1, n_between, n_outputs)
    for block in _blocks(x, n_outputs, rows):
        left, right = _take(x, block), weight[block.tasks].mT
        is_range = isinstance(block.targets, slice)
        target = y[block.targets].view(*left.shape[:2], n_outputs) if is_range else None
        if bias is None:
            product = torch.bmm(left, right, out=target)
        else:
            product = torch.baddbmm(bias[block.tasks].unsqueeze(1), left, right, out=target)
        if not isinstance(block.targets, slice):
            by_row = product.view(len(block.targets), n_between, n_outputs)
            y.index_copy_(0, block.targets, by_row)
    return y.resize_(n_rows, n_between, n_outputs)


def _outer_products(left: Tensor, right: Tensor, *, rows: RowsByTask) -> tuple[Tensor, Tensor]:
    shape = (rows.n_tasks, left.shape[-1], right.shape[-1])
    has_all = len(rows.tasks) == rows.n_tasks
    products = left.new_empty(shape) if has_all else left.new_zeros(shape)
    sums = left.new_zeros(shape[:-1])
    for block in _blocks(left, right.shape[-1], rows):
        # Zeros on one side are enough, since padding repeats rows of the same task.
        one, other = _take(left, block, fill=0.0), _take(right, block)
        if isinstance(block.tasks, slice):
            torch.bmm(one.mT, other, out=products[block.tasks])
        else:
            products.index_copy_(0, block.tasks, torch.bmm(one.mT, other))
        sums[block.tasks] = one.sum(1)
    return products, sums


def _take(x: Tensor, block: Block, fill: float | None = None) -> Tensor:
    """The rows of a block, "tasks rows features", with `fill` in place of padding."""
    taken = x[block.rows] if isinstance(block.rows, slice) else x.index_select(0, block.rows)
    if fill is not None and block.is_padding is not None:
        taken.masked_fill_(block.is_padding[:, None, None], fill)
    return taken.reshape(block.n_tasks, block.rows_per_task * x.shape[1], x.shape[2])
