"""Tucker, tensor train and LAF as products of small factors, for arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, final

import numpy as np
import torch

from multirel.networks._factorization import (
    FACTOR_NAMES,
    Factorization,
    factorize,
    largest_ranks,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FORMS", "Form", "decompose", "named_factors", "usable_ranks"]

Shape = tuple[int, int, int]


Arrays = Sequence["NDArray[np.float64]"]


@final
@dataclass(frozen=True, kw_only=True)
class Form:
    """A stack "toi" as a chain of products: the first factor times the second, and that times the third.

    All factors but one have orthonormal columns, where columns are the last axis.
    """

    subscripts: tuple[str, ...]
    """The axes of every factor; ranks are a, b and c."""

    products: tuple[str, ...]
    """The axes of what the first factors make: the first alone, with the second, and so on."""

    scaled_by: Mapping[int, tuple[int, ...]]
    """The orthonormal factors in the order of their making, and which factors hold their columns' sizes."""

    def chain(self, factors: Arrays) -> "list[NDArray[np.float64]]":
        """The products of the first factors; the last is the stack, "T C r"."""
        made = [factors[0]]
        for number in range(1, len(factors)):
            made.append(_contract(self._term(number), made[-1], factors[number]))
        return made

    def compose(self, factors: Arrays) -> "NDArray[np.float64]":
        """The stack, "T C r"."""
        return self.chain(factors)[-1]

    def chain_change(
        self, factors: Arrays, made: Arrays, changes: Arrays
    ) -> "list[NDArray[np.float64]]":
        """How the products change with the factors, to first order.

        Args:
            factors: The factors.
            made: Their products.
            changes: Changes of the factors.
        """
        changed = [changes[0]]
        for number in range(1, len(factors)):
            term = self._term(number)
            along = _contract(term, changed[-1], factors[number])
            changed.append(along + _contract(term, made[number - 1], changes[number]))
        return changed

    def pull_back(
        self, gradient: "NDArray[np.float64]", factors: Arrays, made: Arrays
    ) -> "list[NDArray[np.float64]]":
        """The derivatives by the factors, from that by the stack.

        Args:
            gradient: "T C r".
            factors: The factors.
            made: Their products.
        """
        result = []
        for number in range(len(factors) - 1, 0, -1):
            to_factor, to_product = self._terms_back(number)
            result.append(_contract(to_factor, gradient, made[number - 1]))
            gradient = _contract(to_product, gradient, factors[number])
        return [gradient, *reversed(result)]

    def pull_back_change(
        self,
        gradient: "tuple[NDArray[np.float64], NDArray[np.float64]]",
        factors: tuple[Arrays, Arrays],
        made: tuple[Arrays, Arrays],
    ) -> "list[NDArray[np.float64]]":
        """How `pull_back` changes, to first order.

        Args:
            gradient: "T C r", and its change.
            factors: The factors, and their changes.
            made: Their products, and the changes of these.
        """
        (base, along), result = gradient, []
        for number in range(len(factors[0]) - 1, 0, -1):
            to_factor, to_product = self._terms_back(number)
            (before, before_change), (factor, change) = _at(made, number - 1), _at(factors, number)
            result.append(
                _contract(to_factor, along, before) + _contract(to_factor, base, before_change)
            )
            along = _contract(to_product, along, factor) + _contract(to_product, base, change)
            base = _contract(to_product, base, factor)
        return [along, *reversed(result)]

    def orthonormalized(self, factors: Arrays) -> "list[NDArray[np.float64]]":
        """Factors of the same stack, of which all but one have orthonormal columns."""
        result = list(factors)
        for number in self.scaled_by:
            factor = result[number]
            columns, triangle = np.linalg.qr(factor.reshape(-1, factor.shape[-1]))
            result[number] = columns.reshape(factor.shape)
            partner, axis = self._partner(number)
            product = np.tensordot(triangle, result[partner], axes=([1], [axis]))
            result[partner] = np.moveaxis(product, 0, axis)
        return result

    def column_gram(self, factors: Arrays, number: int) -> "NDArray[np.float64]":
        """Inner products of the slices of the stack that the columns of an orthonormal factor stand for."""
        first, *others = self.scaled_by[number]
        axes, slices = self.subscripts[first], factors[first]
        for other in others:
            shared = self.subscripts[first][-1]
            joined = axes.replace(shared, "") + self.subscripts[other].replace(shared, "")
            slices = _contract(f"{axes},{self.subscripts[other]}->{joined}", slices, factors[other])
            axes = joined
        columns = np.moveaxis(slices, axes.index(self.subscripts[number][-1]), 0)
        matrix = columns.reshape(len(columns), -1)
        return matrix @ matrix.T

    def _term(self, number: int) -> str:
        """The product with one factor."""
        before, after = self.products[number - 1 : number + 1]
        return f"{before},{self.subscripts[number]}->{after}"

    def _terms_back(self, number: int) -> tuple[str, str]:
        """The derivatives of the product with one factor, by it and by what it multiplies."""
        before, after = self.products[number - 1 : number + 1]
        factor = self.subscripts[number]
        return f"{after},{before}->{factor}", f"{after},{factor}->{before}"

    def _partner(self, number: int) -> tuple[int, int]:
        """The factor that shares the columns of another, and on which axis."""
        letter = self.subscripts[number][-1]
        partner = self.scaled_by[number][0]
        return partner, self.subscripts[partner].index(letter)


FORMS: Mapping[Factorization, Form] = {
    "tucker": Form(
        subscripts=("abc", "ta", "ob", "ic"),
        products=("abc", "tbc", "toc", "toi"),
        scaled_by={1: (0,), 2: (0,), 3: (0,)},
    ),
    "tt": Form(
        subscripts=("ta", "aob", "bi"),
        products=("ta", "tob", "toi"),
        scaled_by={0: (1, 2), 1: (2,)},
    ),
    "laf": Form(subscripts=("ta", "aoi"), products=("ta", "toi"), scaled_by={0: (1,)}),
}
"""The forms, with their factors in the order of `FACTOR_NAMES`."""


def usable_ranks(
    shape: Shape, factorization: Factorization, ranks: Sequence[int]
) -> tuple[int, ...]:
    """The ranks without what no stack of `shape` uses beside the other ranks."""
    found = [min(*pair) for pair in zip(ranks, largest_ranks(shape, factorization), strict=True)]
    if factorization == "tucker":
        # A slice of the core has at most as many directions as entries, so this settles.
        before: list[int] = []
        while found != before:
            before = list(found)
            for mode, rank in enumerate(found):
                found[mode] = min(rank, int(np.prod(found)) // rank)
    elif factorization == "tt":
        found[1] = min(found[1], found[0] * shape[1])
        found[0] = min(found[0], found[1] * shape[1])
    return tuple(found)


def decompose(
    weights: "NDArray[np.float64]",
    factorization: Factorization,
    *,
    ranks: Sequence[int] | None = None,
    relative_error: float = 0.1,
) -> "list[NDArray[np.float64]]":
    """Factors of a stack by truncated SVDs, as networks have them.

    Args:
        weights: "T C r".
        factorization: The form of the factors.
        ranks: The ranks; None takes the smallest ones that keep within `relative_error`.
        relative_error: The largest ‖W − Ŵ‖ / ‖W‖ where ranks are not given.
    """
    stack = torch.from_numpy(np.ascontiguousarray(weights))
    found = factorize(stack, factorization, ranks=ranks, relative_error=relative_error)
    return [factor.numpy() for factor in found]


def named_factors(
    weights: "NDArray[np.float64]", factorization: Factorization, *, ranks: Sequence[int]
) -> "dict[str, NDArray[np.float64]]":
    """Factors by name of a stack that has such ranks, whatever the units of its inputs are.

    Args:
        weights: "T C F".
        factorization: The form of the factors.
        ranks: The ranks.
    """
    # Inputs in units of their own would hide the small ones behind roundoff.
    scale = np.sqrt(np.square(weights).sum(axis=(0, 1)))
    scale[scale == 0] = 1.0
    factors = decompose(weights / scale, factorization, ranks=ranks)
    if factorization == "tucker":
        factors[-1] = factors[-1] * scale[:, None]
    else:
        factors[-1] = factors[-1] * scale
    return dict(zip(FACTOR_NAMES[factorization], factors, strict=True))


def _at(pair: tuple[Arrays, Arrays], number: int) -> "tuple[NDArray[np.float64], ...]":
    return pair[0][number], pair[1][number]


def _contract(
    term: str, left: "NDArray[np.float64]", right: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """`np.einsum(term, left, right)` of two arrays as one matrix product, without reading the term twice."""
    axes, order = _axes(term)
    return np.tensordot(left, right, axes=axes).transpose(order)


@cache
def _axes(term: str) -> tuple[tuple[list[int], list[int]], list[int]]:
    """The axes that are summed over, and the order of the others in the result."""
    terms, result = term.split("->")
    left, right = terms.split(",")
    shared = [axis for axis in left if axis in right]
    rest = [axis for axis in left + right if axis not in shared]
    sums = [left.index(axis) for axis in shared], [right.index(axis) for axis in shared]
    return sums, [rest.index(axis) for axis in result]
