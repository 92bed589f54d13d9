"""`multirel demo` from start to end."""

import re
import subprocess

import pytest
from PIL import Image

from multirel.experiments import Recovery, recover_covariances
from tests.integration.command_line import COMMAND, environment, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def result(folder):
    return run("demo", "--samples", "30", "--seed", "4", folder=folder)


@pytest.fixture(scope="module")
def recovery() -> Recovery:
    return recover_covariances(n_samples=30, seed=4)


def test_it_succeeds_without_a_word_on_stderr(result):
    assert (result.returncode, result.stderr) == (0, "")


def test_it_writes_a_picture_that_opens_and_says_where(result, folder):
    path = re.search(r"^Picture: (.*)$", result.stdout, flags=re.MULTILINE)[1]

    assert path == "multirel-demo/recovery.png"
    with Image.open(folder / path) as image:
        image.load()
        assert image.format == "PNG"
        assert min(image.size) > 1000
        # A drawing, not an empty page.
        assert len(image.convert("RGB").getcolors(maxcolors=2**24)) > 10
    assert [file.name for file in (folder / "multirel-demo").iterdir()] == ["recovery.png"]


def test_it_prints_the_true_and_the_recovered_task_correlations(result, recovery):
    rows = re.findall(r"^\d \w+ ((?: *-?[\d.]+){12})$", result.stdout, flags=re.MULTILINE)

    assert len(rows) == 6
    for row, true, recovered in zip(
        rows, recovery.true_correlations[0], recovery.recovered_correlations[0], strict=True
    ):
        numbers = [float(number) for number in row.split()]
        assert numbers == pytest.approx([*true, *recovered], abs=0.0051)


def test_it_prints_how_far_off_the_recovery_is(result, recovery):
    printed = dict(re.findall(r"^  (task|output|input) +(\d\.\d+)$", result.stdout, re.MULTILINE))

    assert [float(number) for number in printed.values()] == pytest.approx(
        recovery.relative_errors, abs=0.00051
    )
    assert (
        f"Largest error of a task correlation: {recovery.furthest_off.error:.3f}" in result.stdout
    )


def test_it_names_the_tasks_and_the_number_of_draws(result, recovery):
    introduction = " ".join(result.stdout.partition("Correlations")[0].split())

    assert "from 30 draws" in introduction
    assert all(label in introduction for label in recovery.labels[0][:-1])


def test_a_narrow_ascii_terminal_gets_all_of_it(tmp_path):
    result = run("demo", "-o", "réseau", folder=tmp_path, COLUMNS="40", PYTHONIOENCODING="ascii")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.isascii()
    assert "6 returns - - - = = #" in result.stdout
    lines = result.stdout.splitlines()
    assert max(len(line.rstrip()) for line in lines if not line.startswith("Picture")) <= 40
    assert (tmp_path / "réseau" / "recovery.png").is_file()


def test_a_reader_who_leaves_is_no_error(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "demo", "-o", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(PYTHONUNBUFFERED="1"),
    )
    with process:
        assert process.stdout.readline() == "Which tasks are related?\n"
        process.stdout.close()
        errors = process.stderr.read()

    assert process.returncode == 1
    assert errors == ""
