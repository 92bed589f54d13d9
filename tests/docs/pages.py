"""The pages as the tests read them: fenced blocks, and what they print."""

import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
"""Everything that a person reads."""

GALLERY = DOCS / "gallery.md"
"""Its examples run one by one, in a file of tests of their own."""

TOLERANCE = 0.011
"""Numbers on pages are rounded, and differ a little between machines."""

_BLOCK = re.compile(r"^```(?:\{\.)?(\w+)\}?\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_SNIPPET = re.compile(r'--8<-- "([^"]+)"\s*')
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d*\.?\d+(?:e[-+]?\d+)?(?![\w])")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    """Number of the first line of the text, counted from 1."""

    included: Path | None
    """The file that the page shows in this place, if the text is not its own."""


def name_of(path: Path) -> str:
    """Return the path from the root of the checkout: the name of a test case."""
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that name a language."""
    content = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(content):
        snippet = _SNIPPET.fullmatch(match[2])
        included = ROOT / snippet[1] if snippet else None
        found.append(
            Block(
                language=match[1],
                text=included.read_text(encoding="utf-8") if included else match[2],
                line=content.count("\n", 0, match.start(2)) + 1,
                included=included,
            )
        )
    return found


def run(*arguments: str, folder: Path) -> str:
    """Return what a new interpreter prints, as on a terminal of 80 columns without colors.

    Annotations are not checked there, which would take long in a training loop.
    """
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    terminal = {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1"}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | terminal | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def assert_prints(actual: str, expected: str, *, tolerance: float = TOLERANCE) -> None:
    """Assert the same words line by line, and numbers that differ by no more than rounding."""
    actual_lines, expected_lines = _lines(actual), _lines(expected)
    assert [_words(line) for line in actual_lines] == [_words(line) for line in expected_lines]
    for given, shown in zip(actual_lines, expected_lines, strict=True):
        for one, other in zip(_NUMBER.findall(given), _NUMBER.findall(shown), strict=True):
            close = math.isclose(float(one), float(other), rel_tol=tolerance, abs_tol=tolerance)
            assert one == other or ("." in one and close), f"{given!r} is shown as {shown!r}"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def _words(line: str) -> list[str]:
    """Return the words of a line, with every number replaced by the same sign."""
    return re.sub(r"([\[(])\s+", r"\1", _NUMBER.sub("#", line)).split()
