"""`hinton_text` and `hinton_legend`."""

import numpy as np
import pytest

from multirel.reports import hinton_legend, hinton_text

LEVELS = [[1.0, 0.3, 0.05, -0.05, -0.3, -1.0]]


def test_squares_grow_with_strength_and_are_hollow_where_negative():
    assert hinton_text(LEVELS) == "■ ▪ · · ▫ □"


def test_ascii_tells_the_same_apart():
    text = hinton_text(LEVELS, ascii_only=True)

    assert text == "# + . . - ="
    assert text.isascii()


def test_strength_is_relative_to_the_largest_entry_unless_a_scale_is_given():
    assert hinton_text([[0.2, 0.1]]) == "■ ■"
    assert hinton_text([[0.2, 0.1]], scale=1.0) == "▪ ·"


def test_labels_stand_before_the_rows_and_line_up():
    assert hinton_text(np.eye(2), labels=["cat", "horse"]) == "cat   ■ ·\nhorse · ■"


def test_unknown_entries_are_question_marks():
    assert hinton_text([[1.0, np.nan]]) == "■ ?"


def test_a_matrix_of_zeros_is_all_dots():
    assert hinton_text(np.zeros((1, 2))) == "· ·"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_legend_explains_every_character(ascii_only):
    squares = set(hinton_text(LEVELS, ascii_only=ascii_only).split())

    assert squares <= set(hinton_legend(ascii_only=ascii_only).replace(",", "").split())


def test_a_vector_is_refused():
    with pytest.raises(ValueError, match="`matrix` must be a matrix: expected 2 dimensions, got 1"):
        hinton_text([1.0])
