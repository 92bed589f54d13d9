"""Suggestions."""

import pytest

from multirel.cli._layout import suggestion


@pytest.mark.parametrize("typed", ["--sampels", "--SAMPLES", "-samples", "--sample"])
def test_the_nearest_name_is_suggested(typed):
    assert suggestion(typed, ["--seed", "--samples"], "Known:") == "Did you mean '--samples'?"


def test_all_names_are_listed_where_none_is_near():
    assert suggestion("xyz", ["demo", "fit"], "Known commands:") == "Known commands: demo, fit."
