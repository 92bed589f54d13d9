import numpy as np
import pytest

from multirel.estimators._linear._spectral_strengths import check_strength


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "a", None, True])
def test_a_strength_that_is_not_above_zero_is_an_error(value):
    with pytest.raises(ValueError, match="`ridge` must be above 0: expected a finite number, got"):
        check_strength("ridge", value)


def test_zero_may_be_allowed():
    assert check_strength("ridge", 0, may_be_zero=True) == 0.0
    with pytest.raises(ValueError, match="`ridge` must not be negative: expected a finite number"):
        check_strength("ridge", -1, may_be_zero=True)


def test_numbers_of_numpy_are_numbers():
    assert check_strength("strength", np.float32(0.5)) == 0.5
