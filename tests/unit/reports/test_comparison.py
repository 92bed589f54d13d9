"""`comparison_figure`."""

import numpy as np
import pytest

from multirel.reports import comparison_figure


def draw(**changes):
    arguments = {
        "names": ("task", "input"),
        "labels": (("cats", "dogs"), ("a", "b", "c")),
        "title": "How they compare",
    }
    matrices = (np.eye(2), np.eye(3))
    return comparison_figure(matrices, matrices, **(arguments | changes))


def test_every_mode_is_drawn_true_and_recovered():
    titles = [ax.get_title() for ax in draw().axes]

    assert titles[:4] == ["tasks, true", "inputs, true", "tasks, recovered", "inputs, recovered"]


def test_the_figure_says_what_it_shows_and_how_to_read_it():
    figure = draw()

    assert figure.get_suptitle() == "How they compare"
    assert figure.axes[-1].get_title() == "size = strength of the correlation, color = its sign"


def test_sequences_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="one entry per mode: got 2, 2, 1 and 2 entries"):
        draw(names=("task",))
