"""A product along a short first mode, in place: on a GPU in one pass over the entries."""

import warnings
from types import ModuleType

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.exceptions import MultirelWarning

__all__ = ["mix_first_mode_"]

MAX_MIXED = 16
"""Largest first mode that is mixed by the kernel, whose tiles hold the square of it."""

TILE = 2048
"""Entries of a tile times the size of the first mode."""

SMALLEST_TILE = 32

_kernels: ModuleType | None = None
_is_missing = False


def mix_first_mode_(
    weight: Float[Tensor, "first *rest"], matrix: Float[Tensor, "first first"]
) -> None:
    """Replace a contiguous `weight` by W ×₁ M.

    Args:
        weight: The tensor, whose values are replaced.
        matrix: The matrix M.
    """
    flat = weight.view(len(weight), -1)
    if _is_for_kernel(flat) and _launched(flat, matrix.contiguous()):
        return
    # What the identity does needs no product, which may be in reduced precision on a GPU.
    identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    flat.add_((matrix - identity) @ flat)


def _is_for_kernel(flat: Tensor) -> bool:
    is_eager = not torch.compiler.is_compiling()
    is_known = flat.is_cuda and flat.dtype == torch.float32 and len(flat) <= MAX_MIXED
    return is_known and is_eager and not _is_missing


def _launched(flat: Tensor, matrix: Tensor) -> bool:
    """Whether the kernel ran; if it cannot be compiled here, it is not tried again."""
    global _kernels, _is_missing
    size, n_columns = flat.shape
    padded = 1 << (size - 1).bit_length()
    tile = max(SMALLEST_TILE, TILE // padded)
    grid = (-(-n_columns // tile),)
    try:
        if _kernels is None:
            from multirel.tensor_normal import _mix_kernel as found

            _kernels = found
        _kernels.mix_kernel[grid](flat, matrix, n_columns, size, PADDED=padded, TILE=tile)
    except ImportError:
        _is_missing = True
    except Exception as error:
        # Triton has errors of many kinds for machines where it cannot compile; nothing has run then.
        _is_missing = True
        warnings.warn(
            f"The kernel for large weights cannot be compiled here ({type(error).__name__}): the prior "
            f"acts on them by slower operations, with the same results.",
            MultirelWarning,
            stacklevel=2,
        )
    return not _is_missing
