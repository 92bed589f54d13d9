"""The source files as the architecture tests read them."""

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "multirel"
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks")

MODULES = sorted(PACKAGE.rglob("*.py"))
"""Every module of the package."""

PYTHON_FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
"""Every Python file of the checkout."""

TEXT_FILES = sorted(
    [*PYTHON_FILES, *ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md"))]
)
"""Every Python file and every page."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    """Return the path from the root of the checkout: the name of a test case."""
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def code_lines(path: Path) -> frozenset[int]:
    """Return the numbers of the lines that hold code: neither blank, nor comment, nor docstring."""
    no_code = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    lines: set[int] = set()
    for token in tokens:
        if token.type not in no_code:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parse(path)):
        # A string that stands alone is a docstring, of a definition or of the name above it.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def comments(path: Path) -> Iterator[str]:
    """Yield the comments of a file."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def functions(path: Path) -> Iterator[Function]:
    """Yield every function and method of a file."""
    for node in ast.walk(parse(path)):
        if isinstance(node, Function):
            yield node
