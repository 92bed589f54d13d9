"""Help, versions, suggestions, errors and exit codes of the command `multirel`."""

import os
import re
import subprocess
import sys
from time import perf_counter

import pytest
import typer

from multirel import __version__
from multirel.cli._app import app
from tests.integration.command_line import COMMAND, environment, run

COMMANDS = sorted(typer.main.get_command(app).commands)
HELP = [("--help",), *((command, "--help") for command in COMMANDS)]
HEAVY = ("torch", "numpy", "scipy", "sklearn", "matplotlib", "pandas", "PIL", "jaxtyping")

LONGEST_HELP = 1.5
"""Time of any help relative to importing typer and rich."""

FEWEST_ROUNDS, MOST_ROUNDS = 8, 60
"""How often the times are taken before the best of them count."""


def test_the_version_is_the_package_version():
    result = run("--version")

    assert (result.returncode, result.stdout, result.stderr) == (0, f"multirel {__version__}\n", "")


@pytest.mark.parametrize("arguments", [("--version",), *HELP], ids=" ".join)
def test_help_and_version_import_nothing_heavy(arguments):
    script = (
        "import sys; from multirel.cli import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        timeout=60,
    )

    assert result.returncode == 0
    imported = {name.partition(".")[0] for name in result.stderr.split()}
    assert "typer" in imported
    assert imported.isdisjoint(HEAVY)


def test_help_takes_hardly_longer_than_importing_typer_and_rich():
    commands = {
        "imports": [sys.executable, "-c", "import typer, rich"],
        **{" ".join(arguments): [*COMMAND, *arguments] for arguments in HELP},
    }
    best = dict.fromkeys(commands, float("inf"))
    # Interleaved, so that whatever else the machine does strikes all of them alike; where it does much,
    # the best of each takes more rounds to show.
    for round_ in range(MOST_ROUNDS):
        for name, command in commands.items():
            start = perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment())
            best[name] = min(best[name], perf_counter() - start)
        ratios = {name: round(best[name] / best["imports"], 2) for name in commands}
        if round_ >= FEWEST_ROUNDS and max(ratios.values()) <= LONGEST_HELP:
            break

    assert max(ratios.values()) <= LONGEST_HELP, ratios


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_ends_with_examples_that_run(arguments):
    lines = run(*arguments).stdout.splitlines()

    examples = lines[lines.index("Examples:") + 1 :]
    assert examples
    for example in examples:
        name, *words = example.split()
        assert name == "multirel"
        # `--help` keeps the command from working, but not from refusing what it does not know.
        assert run(*words, "--help").returncode == 0


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_fits_a_narrow_terminal(arguments):
    lines = run(*arguments, COLUMNS="40").stdout.splitlines()

    assert max(len(line) for line in lines[: lines.index("Examples:")]) <= 40


def test_no_arguments_show_the_help():
    result = run()

    assert result.returncode == 2
    assert "Examples:" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dmeo",), "No such command 'dmeo'. Did you mean 'demo'?"),
        (("Demo",), "No such command 'Demo'. Did you mean 'demo'?"),
        (("frobnicate",), "No such command 'frobnicate'. Known commands: demo."),
        (("--versoin",), "No such option '--versoin'. Did you mean '--version'?"),
        (("demo", "--sampels", "3"), "No such option '--sampels'. Did you mean '--samples'?"),
        (("demo", "--outptu=x"), "No such option '--outptu'. Did you mean '--output'?"),
        (
            ("demo", "--xyz"),
            "No such option '--xyz'. Known options: --output, -o, --samples, --seed,",
        ),
        (("demo", "extra"), "unexpected extra argument"),
        (("demo", "--seed"), "'--seed' requires an argument"),
        (
            ("demo", "--samples", "0"),
            "`--samples` must be a whole number: expected 1 to 10000, got 0.",
        ),
        (
            ("demo", "--seed", "x"),
            "`--seed` must be a whole number: expected 0 to 4294967295, got x.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_use_exits_with_2_and_says_what_would_be_right(arguments, message, tmp_path):
    result = run(*arguments, folder=tmp_path)

    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_of_the_folder_is_said_in_one_sentence_before_any_work(tmp_path):
    (tmp_path / "run").touch()
    result = run("demo", "-o", "run", folder=tmp_path)

    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        "Error: `--output` must be a folder: got `run`, where a file is in the way. "
        "Choose another folder with `-o RUN`.\n"
    )


@pytest.mark.parametrize("arguments", [("--debug", "demo"), ("demo", "--debug")], ids=" ".join)
def test_debug_shows_the_traceback_of_the_same_error(arguments, tmp_path):
    (tmp_path / "run").touch()
    result = run(*arguments, "-o", "run", folder=tmp_path)

    assert result.returncode == 2
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert re.search(r"ValueError: `--output` must be a folder: .*\n$", result.stderr)


def test_output_that_cannot_be_written_is_a_failure():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run(
            [*COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, env=environment()
        )

    assert result.returncode == 1
    assert result.stderr == b"Error: No space left on device.\n"


def test_a_closed_pipe_is_no_error_message():
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [*COMMAND, "--help"], stdout=writer, stderr=subprocess.PIPE, env=environment()
    )
    os.close(writer)

    assert (result.returncode, result.stderr) == (1, b"")
