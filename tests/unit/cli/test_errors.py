"""What is said about errors, and the exit code."""

import pytest

from multirel.cli._errors import report_error
from multirel.exceptions import UnboundedLikelihoodError


def report(error: Exception, capsys, *, debug: bool = False) -> tuple[int, str]:
    try:
        raise error
    except Exception as raised:
        code = report_error(raised, debug=debug)
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


def test_a_wrong_value_is_wrong_use(capsys):
    assert report(ValueError("`x` must be 1."), capsys) == (2, "Error: `x` must be 1.\n")


def test_an_exception_of_multirel_is_a_failure(capsys):
    error = UnboundedLikelihoodError("Too few\nsamples.")

    assert report(error, capsys) == (1, "Error: Too few samples.\n")


def test_an_error_of_the_system_names_the_file(capsys):
    error = FileNotFoundError(2, "No such file or directory", "data.csv")

    assert report(error, capsys) == (1, "Error: `data.csv`: No such file or directory.\n")


def test_an_error_of_the_system_without_a_file_is_said_too(capsys):
    assert report(OSError(28, "No space left"), capsys) == (1, "Error: No space left.\n")


def test_an_unexpected_error_points_to_debug(capsys):
    code, text = report(KeyError("x"), capsys)

    assert code == 1
    assert text.count("\n") == 1
    assert "KeyError: 'x'. Add --debug to the same command to see where." in text


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyError("x")])
def test_debug_shows_the_traceback(error, capsys):
    _, text = report(error, capsys, debug=True)

    assert text.startswith("Traceback (most recent call last):")
    assert "raise error" in text
