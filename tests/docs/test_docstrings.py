"""Examples in docstrings run, and public names have docstrings and a place in the reference."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
import torch

import multirel
from tests.docs.pages import DOCS, ROOT

PACKAGE = ROOT / "src" / "multirel"

PUBLIC_PACKAGES = [
    f"multirel.{module.name}"
    for module in pkgutil.iter_modules(multirel.__path__)
    if not module.name.startswith("_")
]

PUBLIC_NAMES = [
    f"{package}.{name}"
    for package in PUBLIC_PACKAGES
    for name in importlib.import_module(package).__all__
]


def examples() -> dict[str, tuple[Path, str, int]]:
    """Return the docstrings that hold examples, by dotted name, with their file and line.

    They are read from the source: the annotation checks of the tests wrap functions, and doctest's
    own finder passes over what is wrapped.
    """
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parents = [(ast.parse(path.read_text(encoding="utf-8")), path.stem)]
        while parents:
            node, name = parents.pop()
            docstring = ast.get_docstring(node)
            if docstring and ">>>" in docstring:
                found[f"{path.parent.name}.{name}"] = (path, docstring, node.body[0].lineno)
            parents += [
                (child, f"{name}.{child.name}")
                for child in node.body
                if isinstance(child, ast.FunctionDef | ast.ClassDef)
            ]
    return found


EXAMPLES = examples()


def resolve(name: str):
    package, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(package), attribute)


def is_sentence(docstring: str) -> bool:
    """Return whether the first line is a sentence; it may begin with a formula, such as ln x."""
    first = docstring.splitlines()[0]
    return first.endswith(".") and not re.match("[a-z]{3}", first)


def test_there_are_examples_in_every_package_with_functions():
    assert {path.parent.name for path, *_ in EXAMPLES.values()} >= {"tensor_normal", "reports"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_docstrings_run(name: str):
    path, docstring, line = EXAMPLES[name]
    module = ".".join(["multirel", *path.relative_to(PACKAGE).with_suffix("").parts])
    namespace = {
        "torch": torch,
        **vars(importlib.import_module("multirel.tensor_normal")),
        **vars(importlib.import_module(module)),
    }
    test = doctest.DocTestParser().get_doctest(docstring, namespace, name, str(path), line)
    runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    with torch.random.fork_rng(devices=[]):
        runner.run(test)


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_packages_say_what_they_hold(package: str):
    assert is_sentence(inspect.getdoc(importlib.import_module(package)))


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_names_have_docstrings_that_begin_with_a_sentence(name: str):
    found = resolve(name)
    assert found.__doc__ is not None
    assert is_sentence(inspect.getdoc(found))
    if inspect.isclass(found):
        for member in vars(found).values():
            if inspect.isfunction(member) or isinstance(member, property):
                assert not member.__doc__ or is_sentence(inspect.cleandoc(member.__doc__))


def test_the_reference_documents_every_public_name_and_no_other():
    documented = [
        name
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    ]
    assert sorted(documented) == sorted(PUBLIC_NAMES)
