"""The numbers that `multirel demo` is given."""

import pytest

from multirel.cli._demo import whole_number


def test_a_whole_number_is_returned():
    assert whole_number("12", "--samples", low=1, high=12) == 12


@pytest.mark.parametrize("typed", ["0", "13", "-3", "2.5", "many", "", "²"])
def test_anything_else_is_refused(typed):
    with pytest.raises(
        ValueError,
        match=rf"`--samples` must be a whole number: expected 1 to 12, got {typed}\. Leave",
    ):
        whole_number(typed, "--samples", low=1, high=12)
