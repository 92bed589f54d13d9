"""The command `multirel` in a terminal: colors, and Ctrl-C at any moment."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.command_line import COMMAND, environment

if sys.platform == "win32":
    pytest.skip("Windows has no pseudo-terminals", allow_module_level=True)

import pty


def output_in_terminal(*arguments: str, **variables: str) -> str:
    """Return what `multirel` writes to a terminal."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=terminal, stderr=terminal, env=environment(**variables)
    )
    os.close(terminal)
    chunks = []
    try:
        while chunk := os.read(controller, 1024):
            chunks.append(chunk)
    except OSError:
        pass  # Linux says so when the other end of a terminal is closed.
    finally:
        os.close(controller)
    assert process.wait(timeout=60) == 0
    return b"".join(chunks).decode()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let child processes answer Ctrl-C, also if the tests themselves run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_help_is_marked_in_a_terminal_only():
    text = output_in_terminal("--help")

    assert "\x1b[1mOptions\x1b[0m:" in text
    assert "\x1b[36mdemo\x1b[0m" in text


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_help_has_no_escape_codes_where_they_are_not_wanted(variables):
    text = output_in_terminal("--help", **variables)

    assert "Options:" in text
    assert "\x1b" not in text


MOMENTS = (
    "typer.models",
    "rich.text",
    "torch.autograd",
    "multirel.tensor_normal",
    "matplotlib.text",
)
"""Modules after whose import Ctrl-C strikes: while typer, rich, torch, … are being imported."""


@pytest.mark.parametrize("module", MOMENTS)
def test_ctrl_c_exits_with_130_and_no_traceback(module, interruptible, tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "multirel", "demo"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(),
    )
    with process:
        for line in process.stderr:
            if line.rpartition("|")[2].strip() == module:
                break
        else:
            pytest.fail(f"{module} was never imported")
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()

    assert process.returncode == 130
    assert "Traceback" not in rest
    assert rest.endswith("\nInterrupted.\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_ctrl_c_while_the_work_is_done_exits_with_130_too(interruptible, tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "demo", "--samples", "10000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(PYTHONUNBUFFERED="1"),
    )
    with process:
        for line in process.stdout:
            if "How far off" in line:
                break
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()

    assert process.returncode == 130
    assert errors == "\nInterrupted.\n"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_process_told_to_ignore_ctrl_c_ignores_it(tmp_path):
    """Shells start background jobs of scripts this way."""
    script = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"os.execv({COMMAND[0]!r}, {[*COMMAND, '--version']!r})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment()
    )
    with process:
        process.stdout.peek(1)
        process.send_signal(signal.SIGINT)

    assert process.returncode == 0
