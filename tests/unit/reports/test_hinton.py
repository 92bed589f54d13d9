"""`hinton_diagram`."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from multirel.reports import hinton_diagram
from multirel.reports._hinton import NEGATIVE_COLOR, POSITIVE_COLOR


@pytest.fixture
def ax():
    return Figure().subplots()


def test_area_is_proportional_to_strength(ax):
    hinton_diagram(ax, [[1.0, 0.5, -0.25]])

    areas = [square.get_width() * square.get_height() for square in ax.patches]
    np.testing.assert_allclose(np.array(areas) / areas[0], [1.0, 0.5, 0.25])


def test_color_is_the_sign(ax):
    hinton_diagram(ax, [[0.3, -0.3]])

    colors = [square.get_facecolor() for square in ax.patches]
    assert colors == [to_rgba(POSITIVE_COLOR), to_rgba(NEGATIVE_COLOR)]


def test_squares_stand_in_the_middle_of_their_cells_with_row_0_on_top(ax):
    hinton_diagram(ax, [[0.0, 0.9], [0.1, 0.0]])

    centers = [square.get_center() for square in ax.patches]
    np.testing.assert_allclose(centers, [(1, 0), (0, 1)], atol=1e-12)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


@pytest.mark.parametrize("empty", [0.0, np.nan])
def test_zero_and_unknown_entries_have_no_square(ax, empty):
    hinton_diagram(ax, [[1.0, empty]])

    assert len(ax.patches) == 1


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.full((2, 2), np.nan)])
def test_a_matrix_without_strength_is_drawn_empty(ax, matrix):
    hinton_diagram(ax, matrix)

    assert not ax.patches


def test_an_entry_beyond_the_scale_fills_its_cell_and_no_more(ax):
    hinton_diagram(ax, [[5.0, 1.0]], scale=1.0)

    assert ax.patches[0].get_width() == ax.patches[1].get_width() < 1


def test_labels_name_rows_and_columns_of_a_square_matrix(ax):
    hinton_diagram(ax, np.eye(2), labels=["cats", "dogs"])

    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["cats", "dogs"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["cats", "dogs"]


def test_labels_name_only_the_rows_of_another_matrix(ax):
    hinton_diagram(ax, np.ones((1, 3)), labels=["cats"], column_labels=["a", "b", "c"])

    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["cats"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]


def test_a_vector_is_refused(ax):
    with pytest.raises(
        ValueError, match=r"`matrix` must be a matrix: expected 2 dimensions, got 1"
    ):
        hinton_diagram(ax, [1.0, 2.0])


def test_labels_for_other_rows_are_refused(ax):
    with pytest.raises(
        ValueError, match=r"`labels` must name every row .* expected 2 names, got 1"
    ):
        hinton_diagram(ax, np.eye(2), labels=["cats"])


def test_labels_for_other_columns_are_refused(ax):
    with pytest.raises(ValueError, match=r"`column_labels` must .* expected 2 names, got 3"):
        hinton_diagram(ax, np.eye(2), column_labels=["a", "b", "c"])


def test_a_scale_of_zero_is_refused(ax):
    with pytest.raises(ValueError, match=r"`scale` must be above 0: got 0.0\. Leave it out"):
        hinton_diagram(ax, np.eye(2), scale=0.0)
