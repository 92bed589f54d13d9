"""What the properties run over: shapes, batch shapes, dtypes and covariances of every type.

Entries come from a seeded generator, so hypothesis searches over structure and shrinks to small shapes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from multirel.tensor_normal import (
    Covariance,
    DenseCovariance,
    IdentityCovariance,
    LowRankCovariance,
    PseudoInverseCovariance,
    TensorNormal,
)
from tests.builders import positive_definite, rotation, singular, spectrum
from tests.environment import DEVICE, DTYPES, tensor

MAX_ORDER = 5
MAX_SIZE = 4
MAX_ENTRIES = 96
COMPLEMENT = 0.4

KINDS = ("dense", "identity", "low-rank", "pseudo-inverse")


def shapes(*, min_order: int = 1, max_order: int = MAX_ORDER, min_size: int = 1):
    """Shapes of up to five modes with few entries, so that the dense oracle is quick."""
    sizes = st.lists(st.integers(min_size, MAX_SIZE), min_size=min_order, max_size=max_order)
    return sizes.map(tuple).filter(lambda shape: prod(shape) <= MAX_ENTRIES)


def batch_shapes():
    """No, one or two batch axes, singletons among them."""
    return st.sampled_from([(), (), (1,), (3,), (2, 2), (2, 1)])


def seeds():
    return st.integers(0, 2**16)


def dtypes():
    return st.sampled_from(DTYPES)


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a covariance is made from: the type's own parts, and the dense matrices "*batch d d"."""

    kind: str
    arguments: tuple[np.ndarray, ...]
    matrix: np.ndarray

    def covariance(self, dtype: torch.dtype) -> Covariance:
        arguments = [tensor(values, dtype=dtype) for values in self.arguments]
        if self.kind == "identity":
            return IdentityCovariance(len(self.matrix), dtype=dtype, device=DEVICE)
        if self.kind == "dense":
            return DenseCovariance(*arguments)
        if self.kind == "pseudo-inverse":
            return PseudoInverseCovariance(*arguments)
        return LowRankCovariance(*arguments)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A weight with one covariance per mode; everything of the library is made when first asked for."""

    weight: np.ndarray
    loc: np.ndarray
    parts: list[Part]
    shape: tuple[int, ...]
    batch: tuple[int, ...]
    dtype: torch.dtype
    seed: int

    @property
    def matrices(self) -> list[np.ndarray]:
        return [part.matrix for part in self.parts]

    @cached_property
    def covariances(self) -> list[Covariance]:
        return [part.covariance(self.dtype) for part in self.parts]

    def tensor(self, values: np.ndarray) -> Tensor:
        return tensor(values, dtype=self.dtype)

    def distribution(self) -> TensorNormal:
        return TensorNormal(self.tensor(self.loc), self.covariances)

    def over_batch(self, function: Callable[..., object], *arrays: np.ndarray) -> np.ndarray:
        """`function(covariances, *arrays)` for every batch index, as one array."""
        results = []
        for index in np.ndindex(*self.batch):
            matrices = [matrix[index] if matrix.ndim > 2 else matrix for matrix in self.matrices]
            results.append(function(matrices, *(values[index] for values in arrays)))
        return np.reshape(np.array(results), (*self.batch, *np.shape(results[0])))


def _part(kind: str, rng: np.random.Generator, size: int, batch: tuple[int, ...]) -> Part:
    """A random covariance of type `kind`."""
    if kind == "identity":
        return Part(kind=kind, arguments=(), matrix=np.eye(size))
    if kind == "dense":
        matrix = positive_definite(rng, size, batch=batch)
        return Part(kind=kind, arguments=(matrix,), matrix=matrix)
    rank = int(rng.integers(1, size + 1))
    if kind == "pseudo-inverse":
        matrix = singular(rng, size, rank, batch=batch)
        return Part(kind=kind, arguments=(matrix,), matrix=matrix)
    bases = np.empty((*batch, size, rank))
    for index in np.ndindex(*batch):
        bases[index] = rotation(rng, size)[:, :rank]
    eigenvalues = np.broadcast_to(spectrum(rank, 4.0), (*batch, rank)).copy()
    complement = np.full(batch, COMPLEMENT)
    projection = bases @ np.swapaxes(bases, -1, -2)
    matrix = (bases * eigenvalues[..., None, :]) @ np.swapaxes(bases, -1, -2)
    matrix = matrix + COMPLEMENT * (np.eye(size) - projection)
    return Part(kind=kind, arguments=(bases, eigenvalues, complement), matrix=matrix)


@st.composite
def tensor_normals(
    draw,
    *,
    kinds: Sequence[str] = ("dense",),
    min_order: int = 1,
    max_order: int = MAX_ORDER,
    min_size: int = 1,
    batched: bool = True,
) -> Case:
    """A weight, a mean and covariances of the given types, batched or not, one dtype throughout."""
    shape = draw(shapes(min_order=min_order, max_order=max_order, min_size=min_size))
    batch = draw(batch_shapes()) if batched else ()
    dtype = draw(dtypes())
    seed = draw(seeds())
    rng = np.random.default_rng(seed)
    parts = []
    for size in shape:
        kind = draw(st.sampled_from(kinds))
        parts.append(_part(kind, rng, size, batch if draw(st.booleans()) else ()))
    return Case(
        weight=rng.standard_normal((*batch, *shape)),
        loc=rng.standard_normal((*batch, *shape)),
        parts=parts,
        shape=shape,
        batch=batch,
        dtype=dtype,
        seed=seed,
    )


@st.composite
def subsets(draw, size: int, *, proper: bool = False) -> list[int]:
    """Distinct indices of a mode in any order; not all of them if `proper`."""
    count = draw(st.integers(1, size - 1 if proper else size))
    return draw(st.permutations(range(size)))[:count]
