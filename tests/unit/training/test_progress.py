"""Progress on a terminal, and silence elsewhere."""

import io

import pytest
from rich.console import Console

from multirel.training import Recipe, train
from multirel.training._progress import show_progress
from tests.unit.training.builders import make_network, make_rows


def shown(*, is_terminal: bool, wanted: bool | None) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, width=100, force_interactive=True)
    with show_progress(wanted, n_steps=40, console=console) as report:
        report(10, "epoch 1, loss 0.5")
    return stream.getvalue()


def test_a_terminal_shows_steps_and_the_time_left():
    text = shown(is_terminal=True, wanted=None)
    assert "epoch 1, loss 0.5" in text
    assert "10/40 steps" in text
    assert "left" in text


@pytest.mark.parametrize(("is_terminal", "wanted"), [(False, None), (True, False), (False, False)])
def test_there_is_silence_elsewhere(is_terminal, wanted):
    assert shown(is_terminal=is_terminal, wanted=wanted) == ""


def test_training_prints_nothing_without_a_terminal(capfd):
    train(make_network(), make_rows(), recipe=Recipe(max_steps=3))
    assert capfd.readouterr() == ("", "")


def test_training_shows_progress_on_the_error_stream_if_asked(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    train(make_network(), make_rows(), recipe=Recipe(max_steps=3), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "3/3 steps" in err
