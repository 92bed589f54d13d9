"""Eq. (4): M̂ = (1/n) Σ X_i."""

import numpy as np
import pytest

from multirel.tensor_normal import fit_tensor_normal
from tests.builders import color, positive_definite
from tests.environment import assert_close, tensor


@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 2, 4), (2, 2, 3, 2)])
def test_fitted_mean_is_the_average_of_the_samples(shape):
    """Whatever the covariances are."""
    rng = np.random.default_rng(0)
    matrices = [positive_definite(rng, size) for size in shape]
    samples = 1.5 + color(matrices, rng.standard_normal((20, *shape)))

    fit = fit_tensor_normal(tensor(samples))

    assert_close(fit.distribution.mean, samples.mean(axis=0))
