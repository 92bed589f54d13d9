"""The parts of the house style that a program can check."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.source import (
    MODULES,
    PACKAGE,
    PYTHON_FILES,
    ROOT,
    TEXT_FILES,
    Function,
    code_lines,
    comments,
    functions,
    name_of,
    parse,
)

MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 40
MAX_POSITIONAL_PARAMETERS = 3

NAMES_THAT_SAY_NOTHING = {"utils", "helpers", "common", "misc"}

SAY_INSTEAD = {
    "alpha": "shrinkage",
    "cov": "covariance",
    "domain": "task",
    "eps": "jitter",
    "lambda_": "strength",
    "learner": "estimator",
    "omega": "precision",
    "regularization": "shrinkage",
    "regularizer": "penalty",
    "sigma": "covariance",
    "task_ids": "tasks",
    "tower": "head",
    "trade_off": "strength",
    "trunk": "backbone",
}
"""Words that names do not use, and the word for the same thing in docs/glossary.md."""

BRITISH = ("behavio" + "ur", "colo" + "ur", "normali" + "se", "regulari" + "se", "optimi" + "se")

FRAGMENT = re.compile(r"(\d+|\+[a-z0-9-]+)\.(added|changed|removed|fixed)\.md")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_small(path: Path):
    assert len(code_lines(path)) <= MAX_MODULE_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_are_small(path: Path):
    lines = code_lines(path)
    for function in functions(path):
        size = len(lines.intersection(range(function.lineno, (function.end_lineno or 0) + 1)))
        assert size <= MAX_FUNCTION_LINES, f"{function.name} has {size} lines of code"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if PACKAGE / "cli" not in path.parents], ids=name_of
)
def test_functions_take_few_positional_parameters(path: Path):
    """Commands are free of this: typer reads their parameters by name."""
    for function in functions(path):
        if function.name.startswith("_"):
            continue
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        assert len(names) <= MAX_POSITIONAL_PARAMETERS, f"{function.name} takes {names}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_names_say_what_is_inside(path: Path):
    assert NAMES_THAT_SAY_NOTHING.isdisjoint(part.strip("_") for part in path.with_suffix("").parts)


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent != PACKAGE], ids=name_of)
def test_modules_are_private_and_packages_are_the_public_names(path: Path):
    assert path.stem.startswith("_")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_names_use_the_words_of_the_glossary(path: Path):
    for node in ast.walk(parse(path)):
        if isinstance(node, Function | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        words = {name, *re.findall(r"[A-Z]?[a-z]+", name)}
        for word, instead in SAY_INSTEAD.items():
            assert word not in {w.lower() for w in words}, f"{name}: say {instead}, not {word}"


@pytest.mark.parametrize("path", TEXT_FILES, ids=name_of)
def test_spelling_is_american(path: Path):
    text = path.read_text(encoding="utf-8").lower()
    assert not [word for word in BRITISH if word in text]


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_every_todo_names_an_issue(path: Path):
    for comment in comments(path):
        assert not re.search(r"\b(TODO(?!\(#\d+\):)|FIXME|XXX)", comment), comment


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_errors_are_raised_and_not_asserted(path: Path):
    assert not [node for node in ast.walk(parse(path)) if isinstance(node, ast.Assert)]


def test_changelog_fragments_are_named_so_that_they_are_found():
    for path in (ROOT / "changelog.d").iterdir():
        assert path.name == "README.md" or FRAGMENT.fullmatch(path.name), path.name


def test_no_constraint_names_a_place():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", line), line
