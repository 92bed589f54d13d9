"""`save_figure`."""

import pytest
from matplotlib.figure import Figure
from PIL import Image

from multirel.reports import save_figure


def test_the_ending_of_the_name_says_the_format(tmp_path):
    save_figure(Figure(), tmp_path / "figure.svg")

    assert "<svg" in (tmp_path / "figure.svg").read_text(encoding="utf-8")


def test_an_existing_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "figure.png"
    path.write_text("something else", encoding="utf-8")

    save_figure(Figure(), path)

    with Image.open(path) as image:
        assert image.format == "PNG"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path):
    path = tmp_path / "figure.png"
    path.mkdir()

    with pytest.raises(OSError, match="directory"):
        save_figure(Figure(), path)
    assert list(tmp_path.iterdir()) == [path]
