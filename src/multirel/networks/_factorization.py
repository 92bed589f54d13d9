r"""Stacks of weights "T O I" as products of small factors: Tucker, tensor train, and LAF.

$$W = S \times_1 U_T \times_2 U_O \times_3 U_I, \qquad
W_{toi} = \sum_{ab} G^T_{ta}\, G^{\phantom{T}}_{aob}\, G^I_{bi}, \qquad W_{(T)} = V U$$

The last, unfolded to (O·I) × T in the literature, is a combination of r shared layers per task.
"""

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.tensor_normal import mode_product, unfold

__all__ = [
    "FACTOR_NAMES",
    "Factorization",
    "Ranks",
    "check_factorization",
    "compose",
    "factorize",
    "input_basis",
    "random_factors",
    "resolve_ranks",
]

Factorization = Literal["tucker", "tt", "laf"]

Ranks = int | Sequence[int] | None

FACTOR_NAMES = {
    "tucker": ("core", "task", "output", "input"),
    "tt": ("task", "output", "input"),
    "laf": ("task", "layers"),
}
"""What the factors of each factorization are called, in their order."""

Shape = tuple[int, int, int]


def check_factorization(factorization: str) -> None:
    """Raise unless there is such a factorization."""
    if factorization not in get_args(Factorization):
        raise ValueError(
            f"`factorization` must be one of {', '.join(map(repr, get_args(Factorization)))}: "
            f"got {factorization!r}."
        )


def largest_ranks(shape: Shape, factorization: Factorization) -> tuple[int, ...]:
    """The ranks with which a factorization holds any stack of `shape`."""
    n_tasks, n_outputs, n_inputs = shape
    if factorization == "tucker":
        # The vectors along a mode are no more than the other modes have entries.
        return tuple(min(size, prod(shape) // size) for size in shape)
    if factorization == "tt":
        return (min(n_tasks, n_outputs * n_inputs), min(n_tasks * n_outputs, n_inputs))
    return (min(n_tasks, n_outputs * n_inputs),)


def resolve_ranks(shape: Shape, factorization: Factorization, ranks: Ranks) -> tuple[int, ...]:
    """The ranks as one number each: None are the largest, an int is every rank where it fits.

    Raises:
        TypeError: If a rank is no whole number.
        ValueError: If the number of ranks is another, or one is below 1 or too large.
    """
    largest = largest_ranks(shape, factorization)
    if ranks is None:
        return largest
    _check_whole(ranks)
    if isinstance(ranks, int):
        ranks = [min(ranks, most) for most in largest]
    if len(ranks) != len(largest):
        raise ValueError(
            f"`ranks` must have {len(largest)} entries for {factorization!r}: got {tuple(ranks)}."
        )
    if any(not 1 <= rank <= most for rank, most in zip(ranks, largest, strict=True)):
        raise ValueError(
            f"`ranks` must lie between 1 and {largest} for a stack of shape {shape} and "
            f"{factorization!r}: got {tuple(ranks)}."
        )
    return tuple(ranks)


def _check_whole(ranks: Any) -> None:
    """Raise unless `ranks` is a whole number or a sequence of them."""
    for rank in ranks if isinstance(ranks, Sequence) else (ranks,):
        if not isinstance(rank, int) or isinstance(rank, bool):
            raise TypeError(
                f"`ranks` must be a whole number, several or None: got {ranks!r}. Use `int`."
            )


def compose(factors: Sequence[Tensor], factorization: Factorization) -> Float[Tensor, "T O I"]:
    """The stack that `factors` stand for; without the last factor, in the basis of `input_basis`."""
    if factorization == "laf":
        tasks, layers = factors
        stack: Tensor = torch.tensordot(tasks, layers, dims=1)
        return stack
    if factorization == "tucker":
        core, tasks, outputs, *inputs = factors
        stack = mode_product(mode_product(core, tasks, 0), outputs, 1)
        return mode_product(stack, inputs[0], 2) if inputs else stack
    tasks, outputs, *inputs = factors
    stack = mode_product(outputs, tasks, 0)
    return mode_product(stack, inputs[0].mT, 2) if inputs else stack


def input_basis(
    factors: Sequence[Tensor], factorization: Factorization
) -> Float[Tensor, "I rank"] | None:
    """The basis in which inputs can be written before they meet any task, if there is one."""
    if factorization == "laf":
        return None
    return factors[-1] if factorization == "tucker" else factors[-1].mT


def factorize(
    weight: Float[Tensor, "T O I"],
    factorization: Factorization,
    *,
    ranks: Ranks = None,
    relative_error: float = 0.1,
) -> list[Tensor]:
    """The factors of a stack: truncated higher-order SVD, TT-SVD, or SVD.

    Args:
        weight: The stack.
        factorization: The form of the factors.
        ranks: The ranks; None takes the smallest ones that keep within `relative_error`.
        relative_error: The largest ‖W − Ŵ‖ / ‖W‖ where ranks are not given.

    Raises:
        ValueError: If `ranks` do not fit.
    """
    shape: Shape = (weight.shape[0], weight.shape[1], weight.shape[2])
    largest = resolve_ranks(shape, factorization, ranks)
    # Every truncation adds what it drops, squared, to the squared error: each may drop its share.
    budget = 0.0 if ranks is not None else (relative_error**2) / len(largest)
    dropped = budget * float(weight.double().square().sum())
    if factorization == "tucker":
        bases = [_split(unfold(weight, k), rank, dropped)[0] for k, rank in enumerate(largest)]
        core = weight
        for mode, basis in enumerate(bases):
            core = mode_product(core, basis.mT, mode)
        return [core, *bases]
    tasks, rest = _split(unfold(weight, 0), largest[0], dropped)
    if factorization == "laf":
        return [tasks, rest.reshape(-1, *shape[1:])]
    outputs, inputs = _split(rest.reshape(-1, shape[2]), largest[1], dropped)
    return [tasks, outputs.reshape(-1, shape[1], outputs.shape[1]), inputs]


def _split(matrix: Tensor, rank: int, dropped: float) -> tuple[Tensor, Tensor]:
    """Two factors of a matrix, which has at most `rank` and loses at most `dropped`, squared.

    The columns of the first are orthonormal, so that what a later split drops of the second is what the
    product loses. The singular vectors are those of the smaller Gram matrix: a stack of wide layers has
    unfoldings with many more columns than rows.
    """
    exact = matrix.double()
    is_wide = matrix.shape[0] <= matrix.shape[1]
    gram = exact @ exact.mT if is_wide else exact.mT @ exact
    eigenvalues, vectors = torch.linalg.eigh(gram)
    losses = eigenvalues.clamp(min=0).cumsum(0)
    needed = len(losses) - int((losses <= dropped).sum()) if dropped > 0 else len(losses)
    basis = vectors[:, len(losses) - max(1, min(rank, needed)) :].flip(-1)
    if is_wide:
        basis = basis.to(matrix.dtype)
        return basis, basis.mT @ matrix
    left, right = torch.linalg.qr(exact @ basis)
    return left.to(matrix.dtype), (right @ basis.mT).to(matrix.dtype)


def random_factors(
    shape: Shape,
    factorization: Factorization,
    *,
    ranks: Ranks = None,
    equal_start: bool = False,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> list[Tensor]:
    """Random factors whose stack has the variance of `torch.nn.Linear`, 1/(3 I).

    Raises:
        ValueError: If `ranks` do not fit.
    """
    resolved = resolve_ranks(shape, factorization, ranks)
    n_tasks, n_outputs, n_inputs = shape
    variance = 1 / (3 * n_inputs)
    if factorization == "tucker":
        parts = [(resolved, variance)]
        parts += [((size, rank), 1 / rank) for size, rank in zip(shape, resolved, strict=True)]
    elif factorization == "tt":
        first, second = resolved
        parts = [
            ((n_tasks, first), 1 / first),
            ((first, n_outputs, second), variance),
            ((second, n_inputs), 1 / second),
        ]
    else:
        parts = [
            ((n_tasks, *resolved), 1 / resolved[0]),
            ((*resolved, n_outputs, n_inputs), variance),
        ]
    factors = [torch.randn(size, device=device, dtype=dtype) * sqrt(v) for size, v in parts]
    if equal_start:
        tasks = factors[1 if factorization == "tucker" else 0]
        tasks.copy_(tasks[:1].clone().expand_as(tasks))
    return factors
