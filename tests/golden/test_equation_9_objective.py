"""Eq. (9): what the prior adds to the objective, with a plus before the log-determinants."""

import numpy as np
import pytest

from tests.environment import DTYPE, array
from tests.reference import prior as reference
from tests.stacks import covariances_of, prior_on, related_weight

SHAPES = [(3, 4), (2, 3, 4), (3, 2, 2, 3), (2, 2, 3, 2, 2)]
RELATIVE = {"torch.float64": 1e-10, "torch.float32": 1e-4}[str(DTYPE)]
STRENGTH, N_SAMPLES = 3.0, 20
SETTINGS = {"strength": STRENGTH, "n_samples": N_SAMPLES}


def objective(weight, covariances, jitter=0.0):
    """(λ/2N)[⟨W, P W⟩ + Σ_k (D/d_k)(ln|Σ_k| + ε tr Σ_k⁻¹)], dense."""
    precisions = [np.linalg.inv(matrix) for matrix in covariances]
    half_logs = reference.log_terms(covariances, jitter) / 2
    return STRENGTH / N_SAMPLES * (reference.half_distance(weight, precisions) + half_logs)


@pytest.mark.parametrize("shape", SHAPES)
def test_objective_of_the_literal_form_has_log_determinants_and_traces(shape):
    """scale="free": with ε tr Σ_k⁻¹, the term whose minimizer has εI in Eq. (11)."""
    weight = related_weight(shape)
    prior, _ = prior_on(weight, scale="free", jitter=0.05, **SETTINGS)
    for _ in range(2):
        expected = objective(weight, covariances_of(prior), jitter=0.05)
        assert array(prior.objective()).item() == pytest.approx(expected, rel=RELATIVE)
        prior.update()


@pytest.mark.parametrize("shape", SHAPES)
def test_objective_of_the_default_has_log_determinants_only(shape):
    """scale="trace": no ε in the objective."""
    weight = related_weight(shape)
    prior, _ = prior_on(weight, **SETTINGS)
    prior.update()
    expected = objective(weight, covariances_of(prior))
    assert array(prior.objective()).item() == pytest.approx(expected, rel=RELATIVE)


@pytest.mark.parametrize("shape", SHAPES)
def test_objective_of_unit_determinants_is_the_penalty(shape):
    """scale="determinant": ln |Σ_k| = 0, and the penalty is ½⟨W, (R_1 ⊗ … ⊗ R_K) W⟩."""
    weight = related_weight(shape)
    shrinkage, jitter = 0.3, 1e-6
    prior, _ = prior_on(weight, scale="determinant", shrinkage=shrinkage, jitter=jitter, **SETTINGS)
    prior.update()
    covariances = covariances_of(prior)
    for matrix in covariances:
        assert np.linalg.slogdet(matrix)[1] == pytest.approx(0, abs=100 * RELATIVE)
    precisions = [
        reference.shrunk_precision(matrix, shrinkage=shrinkage, jitter=jitter)
        for matrix in covariances
    ]
    expected = STRENGTH / N_SAMPLES * reference.half_distance(weight, precisions)
    assert array(prior()).item() == pytest.approx(expected, rel=RELATIVE)
    assert array(prior.objective()).item() == pytest.approx(expected, rel=100 * RELATIVE)


def test_minus_before_the_log_determinants_would_have_no_stationary_point_at_the_update():
    """At Σ_T = S_T + εI the derivative along the identity vanishes with the plus, and not with a minus."""
    weight, jitter, step = related_weight((3, 2, 4)), 0.05, 1e-5
    prior, _ = prior_on(weight, scale="free", jitter=jitter, modes=("task",))
    prior.update()
    covariance, *others = covariances_of(prior)

    def derivative(sign):
        values = []
        for shift in (step, -step):
            matrix = covariance + shift * np.eye(3)
            inverse = np.linalg.inv(matrix)
            distance = reference.half_distance(weight, [inverse, *map(np.linalg.inv, others)])
            logs = np.linalg.slogdet(matrix)[1] * weight.size / 3 / 2
            values.append(distance + sign * logs + jitter * np.trace(inverse) * weight.size / 6)
        return (values[0] - values[1]) / (2 * step)

    assert abs(derivative(+1)) < 1e-3
    assert abs(derivative(-1)) > 1
