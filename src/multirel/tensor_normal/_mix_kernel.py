"""The kernel of `mix_first_mode_`; needs Triton, which comes with torch for GPUs.

Its compiler reads annotations as values, so only constants have one.
"""

import triton
import triton.language as tl

__all__ = ["mix_kernel"]


def _mix(weight, matrix, n_columns, size, PADDED: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Each program replaces TILE columns of `weight` (size × n_columns) by `matrix` times them."""
    columns = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    rows = tl.arange(0, PADDED)
    inner = tl.arange(0, PADDED)
    is_inside = (inner[:, None] < size) & (columns[None, :] < n_columns)
    places = weight + inner[:, None].to(tl.int64) * n_columns + columns[None, :]
    values = tl.load(places, mask=is_inside, other=0.0)
    is_entry = (rows[:, None] < size) & (inner[None, :] < size)
    factors = tl.load(matrix + rows[:, None] * size + inner[None, :], mask=is_entry, other=0.0)
    product = tl.sum(factors[:, :, None] * values[None, :, :], axis=1)
    tl.store(places, product, mask=is_inside)


mix_kernel = triton.jit(_mix)
