"""The proximal step in place, by the short way through low ranks and by the general one."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from multirel.tensor_normal import (
    Covariance,
    DenseCovariance,
    IdentityCovariance,
    KroneckerProx,
    LowRankCovariance,
)
from tests.builders import positive_definite, rotation
from tests.environment import DEVICE, DTYPE, assert_close, tensor
from tests.reference import dense

STEPS = [0.0, 1e-3, 0.1, 0.4, 30.0]
"""Short steps are corrections; the last one is a new product."""


def low_rank(rng: np.random.Generator, size: int, rank: int, *, low: float = 1.0) -> Covariance:
    basis = rotation(rng, size)[:, :rank]
    return LowRankCovariance(tensor(basis), tensor(low + 3 * rng.random(rank)), 0.7)


def prox_of(covariances: Sequence[Covariance]) -> KroneckerProx:
    return KroneckerProx([covariance.precision_spectrum() for covariance in covariances])


def first(rng: np.random.Generator, size: int, *, kind: str) -> Covariance:
    if kind == "identity":
        return IdentityCovariance(size, dtype=DTYPE, device=DEVICE)
    return DenseCovariance(tensor(positive_definite(rng, size)))


MIXES = [
    ((5,), "d"),
    ((3, 4), "dd"),
    ((3, 4), "il"),
    ((9, 8), "dd"),
    ((3, 4, 5), "ddd"),
    ((3, 4, 5), "iid"),
    ((3, 4, 5), "dii"),
    ((3, 9, 8), "ddd"),
    ((3, 4, 9), "ddl"),
    ((3, 4, 9), "iil"),
    ((3, 4, 9), "dil"),
    ((9, 8, 7), "ddl"),
    ((3, 9, 4), "dld"),
    ((8, 9, 4), "ldd"),
    ((3, 7, 8), "lll"),
    ((2, 7, 3, 3), "ddid"),
    ((2, 3, 7, 3), "dlld"),
    ((2, 3, 2, 2, 5), "ddddl"),
]
"""Sizes of the modes, and their covariances: dense, low rank or the identity."""


def mixed(rng: np.random.Generator, size: int, letter: str) -> Covariance:
    if letter == "l":
        return low_rank(rng, size, 2)
    return first(rng, size, kind="identity" if letter == "i" else "dense")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("shape", "letters"), MIXES)
def test_any_mix_is_shrunk_as_by_the_dense_solve(shape: tuple[int, ...], letters: str, step: float):
    rng = np.random.default_rng(0)
    covariances = [mixed(rng, *entry) for entry in zip(shape, letters, strict=True)]
    weight = rng.standard_normal(shape)
    matrices = [covariance.dense().cpu().double().numpy() for covariance in covariances]
    prox, shrunk = prox_of(covariances), tensor(weight).clone()
    prox.apply_(shrunk, step)
    assert_close(shrunk, dense.prox(matrices, weight, step), factor=10)
    again = tensor(np.stack([weight, 2 * weight]))
    prox.apply_(again, step)
    assert_close(again[1], 2 * shrunk, factor=10)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["dense", "identity"])
@pytest.mark.parametrize("shape", [(3, 9, 8), (1, 7, 12), (2, 20, 5)])
def test_two_low_ranks_are_shrunk_as_by_the_dense_solve(
    shape: tuple[int, ...], kind: str, step: float
):
    rng = np.random.default_rng(0)
    covariances = [
        first(rng, shape[0], kind=kind),
        low_rank(rng, shape[1], 3),
        low_rank(rng, shape[2], 4, low=0.1),
    ]
    weight = rng.standard_normal(shape)
    matrices = [covariance.dense().cpu().double().numpy() for covariance in covariances]
    shrunk = tensor(weight).clone()
    prox_of(covariances).apply_(shrunk, step)
    assert_close(shrunk, dense.prox(matrices, weight, step), factor=10)


def test_other_covariances_are_shrunk_in_place_too():
    rng = np.random.default_rng(1)
    covariances = [first(rng, 3, kind="dense"), low_rank(rng, 6, 2), first(rng, 4, kind="dense")]
    weight = rng.standard_normal((3, 6, 4))
    matrices = [covariance.dense().cpu().double().numpy() for covariance in covariances]
    shrunk = tensor(weight).clone()
    place = shrunk.data_ptr()
    prox_of(covariances).apply_(shrunk, 0.2)
    assert shrunk.data_ptr() == place
    assert_close(shrunk, dense.prox(matrices, weight, 0.2), factor=10)


def test_weights_that_are_not_contiguous_are_shrunk_too():
    rng = np.random.default_rng(2)
    covariances = [first(rng, 2, kind="dense"), low_rank(rng, 6, 2), low_rank(rng, 5, 2)]
    weight = rng.standard_normal((2, 6, 5))
    matrices = [covariance.dense().cpu().double().numpy() for covariance in covariances]
    shrunk = tensor(weight).mT.contiguous().mT
    assert not shrunk.is_contiguous()
    prox_of(covariances).apply_(shrunk, 0.2)
    assert_close(shrunk, dense.prox(matrices, weight, 0.2), factor=10)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_the_largest_eigenvalue_of_a_precision_is_that_of_its_matrix(batch: tuple[int, ...]):
    rng = np.random.default_rng(3)
    matrix = positive_definite(rng, 5, batch=batch)
    spectrum = DenseCovariance(tensor(matrix)).precision_spectrum()
    assert spectrum.largest == pytest.approx(np.linalg.eigvalsh(np.linalg.inv(matrix)).max(), 1e-4)
    assert low_rank(rng, 5, 2).precision_spectrum().largest == pytest.approx(1 / 0.7, 1e-4)


def test_roundoff_of_a_short_step_is_relative_to_what_it_takes_off():
    """A step of 1e-9 hardly touches single precision, whatever the covariances are."""
    rng = np.random.default_rng(4)
    covariances = [
        DenseCovariance(torch.as_tensor(positive_definite(rng, size), dtype=torch.float32))
        for size in (3, 20, 30)
    ]
    weight = torch.as_tensor(rng.standard_normal((3, 20, 30)), dtype=torch.float32)
    shrunk = weight.clone()
    prox_of(covariances).apply_(shrunk, 1e-9)
    assert float((shrunk - weight).abs().max()) <= 3e-8
