"""Quadratic penalties agree with dense Kronecker products."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from multirel.estimators._linear._quadratic_penalty import ModeSpectrum, QuadraticPenalty
from multirel.tensor_normal import Spectrum
from tests.unit.estimators.linear.quadratic_oracle import random_precision


def modes():
    """One of each kind: a multiple of I, a few eigenvectors, all of them, and a singular one."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 2)))[0]
    center = np.eye(4) - 0.25
    return {
        "identity": (ModeSpectrum.identity(3.0), 3 * np.eye(4)),
        "partial": (
            ModeSpectrum(basis=basis, inside=np.array([2.0, 5.0]), outside=0.5),
            0.5 * np.eye(4) + (basis * [1.5, 4.5]) @ basis.T,
        ),
        "complete": (
            ModeSpectrum.from_precision(random_precision(4, 1)),
            random_precision(4, 1),
        ),
        "singular": (ModeSpectrum.from_precision(center), center),
        "covariance": (
            ModeSpectrum.from_covariance(random_precision(4, 2)),
            np.linalg.inv(random_precision(4, 2)),
        ),
    }


@pytest.mark.parametrize("name", modes())
def test_a_mode_is_its_dense_matrix(name):
    mode, dense = modes()[name]
    assert_allclose(mode.dense(4), dense, atol=1e-12)
    values = np.linalg.eigvalsh(dense)
    assert_allclose([mode.smallest, mode.largest], [values[0], values[-1]], atol=1e-12)
    assert mode.is_multiple_of_identity == (name == "identity")


@pytest.mark.parametrize("name", modes())
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_powers_are_those_of_the_matrix_on_its_range(name, axis):
    mode, dense = modes()[name]
    values, vectors = np.linalg.eigh(dense)
    x = np.random.default_rng(1).normal(size=(4, 4, 4))
    for power in (1.0, 0.5, -0.5, -1.0):
        positive = values > 1e-9
        powers = np.where(positive, np.where(positive, values, 1) ** power, 0)
        expected = np.moveaxis(np.tensordot((vectors * powers) @ vectors.T, x, (1, axis)), 0, axis)
        assert_allclose(mode.product(x, axis, power=power), expected, atol=1e-10)


def test_a_spectrum_of_tensors_is_the_same_precision():
    basis = torch.linalg.qr(torch.randn(5, 2, generator=torch.Generator().manual_seed(0)))[0]
    spectrum = Spectrum(basis=basis, inside=torch.tensor([0.5, 2.0]), outside=torch.tensor(4.0))
    mode = ModeSpectrum.from_spectrum(spectrum)
    x = torch.randn(5, 3)

    expected = spectrum.power_product(x, 1.0, 0, batch_dims=0).numpy()
    assert_allclose(mode.product(x.double().numpy(), 0), expected, atol=1e-5)
    assert mode.inside.dtype == np.float64


@pytest.mark.parametrize("name", modes())
def test_the_penalty_is_a_kronecker_product(name):
    task, dense_task = modes()[name]
    inner, dense_inner = modes()["partial"]
    output = random_precision(2, 5)
    penalty = QuadraticPenalty(
        strength=0.7, task=task, output=ModeSpectrum.from_precision(output), input=inner
    )
    dense = 0.7 * np.kron(np.kron(dense_task, output), dense_inner)
    weights = np.random.default_rng(0).normal(size=(4, 2, 4))

    assert_allclose(penalty.product(weights).ravel(), dense @ weights.ravel(), atol=1e-12)
    assert penalty.value(weights) == pytest.approx(weights.ravel() @ dense @ weights.ravel() / 2)
    assert penalty.is_singular == (name == "singular")
    white = penalty.power_product(weights, 0.5)
    assert 0.7 * np.vdot(white, white) / 2 == pytest.approx(penalty.value(weights))


def test_no_strength_penalizes_nothing():
    assert QuadraticPenalty.ridge(0.0).is_singular
    assert not QuadraticPenalty.ridge(0.1).is_singular
