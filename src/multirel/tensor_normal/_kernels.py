"""Kernels for passes over large weights; they need Triton, which comes with torch for GPUs.

The compiler reads annotations as values, so only constants have one.
"""

import triton
import triton.language as tl

__all__ = ["correct_and_mix_kernel", "mix_kernel"]


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


@triton.jit  # type: ignore[untyped-decorator]
def _corrected(  # type: ignore[no-untyped-def]
    weight,
    left,
    right,
    first,
    n_rows,
    n_columns,
    rank,
    rows,
    columns,
    is_inside,
    INNER: tl.constexpr,
):
    """A tile of W_t − L_t R_t for the task `first`."""
    start = first * n_rows.to(tl.int64) * n_columns
    places = weight + start + rows[:, None].to(tl.int64) * n_columns + columns[None, :]
    total = tl.load(places, mask=is_inside, other=0.0)
    for begin in range(0, rank, INNER):
        inner = begin + tl.arange(0, INNER)
        in_left = (rows[:, None] < n_rows) & (inner[None, :] < rank)
        in_right = (inner[:, None] < rank) & (columns[None, :] < n_columns)
        a = tl.load(
            left + (first * n_rows + rows[:, None]) * rank + inner[None, :], mask=in_left, other=0.0
        )
        b = tl.load(
            right + (first * rank + inner[:, None]) * n_columns + columns[None, :],
            mask=in_right,
            other=0.0,
        )
        total -= tl.dot(a, b, input_precision="tf32")
    return total


# fmt: off
def _correct_and_mix(  # type: ignore[no-untyped-def]
    weight, left, right, matrix, n, m, rank,
    SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):
    """Each program replaces a tile of all of up to four W_t, each n × m, by Σ_s M_ts (W_s − L_s R_s)."""
    n_across = tl.cdiv(m, COLUMNS)
    rows = tl.program_id(0) // n_across * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) % n_across * COLUMNS + tl.arange(0, COLUMNS)
    is_inside = (rows[:, None] < n) & (columns[None, :] < m)
    # Every tile is complete before the first is written, since each goes into all of them.
    tile0 = _corrected(weight, left, right, 0, n, m, rank, rows, columns, is_inside, INNER)
    tile1, tile2, tile3 = tile0, tile0, tile0
    if SIZE > 1:
        tile1 = _corrected(weight, left, right, 1, n, m, rank, rows, columns, is_inside, INNER)
    if SIZE > 2:  # noqa: PLR2004
        tile2 = _corrected(weight, left, right, 2, n, m, rank, rows, columns, is_inside, INNER)
    if SIZE > 3:  # noqa: PLR2004
        tile3 = _corrected(weight, left, right, 3, n, m, rank, rows, columns, is_inside, INNER)
    for task in tl.static_range(SIZE):
        mixed = tl.load(matrix + task * SIZE) * tile0
        if SIZE > 1:
            mixed += tl.load(matrix + task * SIZE + 1) * tile1
        if SIZE > 2:  # noqa: PLR2004
            mixed += tl.load(matrix + task * SIZE + 2) * tile2
        if SIZE > 3:  # noqa: PLR2004
            mixed += tl.load(matrix + task * SIZE + 3) * tile3
        places = weight + task * n.to(tl.int64) * m + rows[:, None].to(tl.int64) * m + columns[None, :]
        tl.store(places, mixed, mask=is_inside)
# fmt: on


correct_and_mix_kernel = triton.jit(_correct_and_mix)
