"""Passes over large weights, in place: on a GPU each reads and writes every entry once."""

import warnings
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.exceptions import MultirelWarning

__all__ = ["correct_and_mix_", "mix_first_mode_"]

MAX_MIXED = 16
"""Largest first mode that is mixed by a kernel, whose tiles hold the square of it."""

MIXED_TILE = 2048
"""Entries of a tile times the size of the first mode."""

MAX_CORRECTED = 4
"""Largest first mode that is corrected and mixed by one kernel, which holds a tile of every entry."""

TILE_ROWS, TILE_COLUMNS, TILE_INNER, N_WARPS = 64, 128, 32, 8

_kernels: ModuleType | None = None
_are_missing = False


def mix_first_mode_(
    weight: Float[Tensor, "first *rest"], matrix: Float[Tensor, "first first"]
) -> None:
    """Replace a contiguous `weight` by W ×₁ M.

    Args:
        weight: The tensor, whose values are replaced.
        matrix: The matrix M.
    """
    flat = weight.view(len(weight), -1)
    size, n_columns = flat.shape
    if _is_for_kernels(weight) and size <= MAX_MIXED:
        padded = 1 << (size - 1).bit_length()
        tile = max(TILE_INNER, MIXED_TILE // padded)
        grid = (-(-n_columns // tile),)

        def launch(kernels: ModuleType) -> None:
            kernels.mix_kernel[grid](
                flat, matrix.contiguous(), n_columns, size, PADDED=padded, TILE=tile
            )

        if _launched(launch):
            return
    # What the identity does needs no product, which may be in reduced precision on a GPU.
    identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    flat.add_((matrix - identity) @ flat)


def correct_and_mix_(
    weight: Float[Tensor, "first n m"],
    left: Float[Tensor, "first n r"],
    right: Float[Tensor, "first r m"],
    *,
    matrix: Float[Tensor, "first first"],
) -> None:
    """Replace a contiguous `weight` by (W − L R) ×₁ M.

    Args:
        weight: The tensor, whose values are replaced.
        left: The factors L, one for each entry of the first mode.
        right: The factors R.
        matrix: The matrix M.
    """
    size, n_rows, n_columns = weight.shape
    if _is_for_kernels(weight) and size <= MAX_CORRECTED and _rounds_factors():
        grid = (-(-n_rows // TILE_ROWS) * -(-n_columns // TILE_COLUMNS),)

        def launch(kernels: ModuleType) -> None:
            kernels.correct_and_mix_kernel[grid](
                weight,
                left.contiguous(),
                right.contiguous(),
                matrix.contiguous(),
                n_rows,
                n_columns,
                left.shape[-1],
                SIZE=size,
                ROWS=TILE_ROWS,
                COLUMNS=TILE_COLUMNS,
                INNER=TILE_INNER,
                num_warps=N_WARPS,
            )

        if _launched(launch):
            return
    weight.baddbmm_(left, right, alpha=-1)
    mix_first_mode_(weight, matrix)


def _is_for_kernels(weight: Tensor) -> bool:
    is_eager = not torch.compiler.is_compiling()
    return weight.is_cuda and weight.dtype == torch.float32 and is_eager and not _are_missing


def _rounds_factors() -> bool:
    """Whether products of float32 matrices may round their factors to 10 bits, as the kernel does."""
    matmul = torch.backends.cuda.matmul
    try:
        return bool(matmul.allow_tf32)
    except RuntimeError:
        # Set by the names that later versions of torch have, which do not mix with the former.
        return getattr(matmul, "fp32_precision", "ieee") == "tf32"


def _launched(launch: Callable[[ModuleType], None]) -> bool:
    """Whether a kernel ran; if it cannot be compiled here, none is tried again."""
    global _kernels, _are_missing
    try:
        if _kernels is None:
            from multirel.tensor_normal import _kernels as found

            _kernels = found
        launch(_kernels)
    except ImportError:
        _are_missing = True
    except Exception as error:
        # Triton has errors of many kinds for machines where it cannot compile; nothing has run then.
        _are_missing = True
        warnings.warn(
            f"The kernels for large weights cannot be compiled here ({type(error).__name__}): the prior "
            f"acts on them by slower operations, with the same results.",
            MultirelWarning,
            stacklevel=2,
        )
    return not _are_missing
