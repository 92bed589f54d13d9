"""The recovery as text, at any width and in any encoding."""

from io import BytesIO, TextIOWrapper

import pytest
from rich.console import Console

from multirel.cli._recovery_text import print_recovery
from multirel.experiments import Recovery, recover_covariances


@pytest.fixture(scope="module")
def recovery() -> Recovery:
    return recover_covariances(n_samples=20, seed=0)


def text_of(recovery: Recovery, *, width: int, encoding: str = "utf-8") -> str:
    buffer = BytesIO()
    file = TextIOWrapper(buffer, encoding=encoding)
    console = Console(file=file, width=width, highlight=False, markup=False)
    print_recovery(console, recovery)
    file.flush()
    return buffer.getvalue().decode(encoding)


def test_true_and_recovered_stand_side_by_side_where_there_is_room(recovery):
    lines = text_of(recovery, width=80).splitlines()

    assert sum(line.split() == ["true", "recovered"] for line in lines) == 2
    assert sum(line.startswith("1 books") for line in lines) == 2


@pytest.mark.parametrize("width", [40, 60])
def test_they_stand_one_below_the_other_where_there_is_none(recovery, width):
    lines = text_of(recovery, width=40).splitlines()

    assert sum(line.startswith("1 books") for line in lines) == 4
    assert max(len(line.rstrip()) for line in lines) <= width


def test_what_is_printed_is_what_was_computed(recovery):
    line = next(line for line in text_of(recovery, width=80).splitlines() if "2 films" in line)

    numbers = [float(word) for word in line.split()[2:]]
    expected = [*recovery.true_correlations[0][1], *recovery.recovered_correlations[0][1]]
    assert numbers == pytest.approx(expected, abs=0.0051)


def test_the_findings_are_those_of_the_recovery(recovery):
    text = text_of(recovery, width=80)

    worst = recovery.furthest_off
    assert f"correlation: {worst.error:.3f} ({worst.first}, {worst.second})." in text
    assert f"Most opposed: {recovery.most_opposed.first} and" in text
    assert f"settled after {recovery.n_iterations} sweeps" in text
    for name, error in zip(recovery.mode_names, recovery.relative_errors, strict=True):
        assert f"{name:<6} {error:.3f}" in text


def test_an_ascii_terminal_gets_ascii(recovery):
    text = text_of(recovery, width=80, encoding="ascii")

    assert text.isascii()
    assert "5 laptops + + + # # =     + + + # # =" in text
