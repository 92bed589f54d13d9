"""Imports point down, and some packages stay away from torch."""

import ast
from pathlib import Path

import grimp
import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from tests.architecture.source import MODULES, PACKAGE, ROOT, name_of, parse
from tests.environment import run_python


def test_contracts_are_kept(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS


@pytest.mark.parametrize("package", ["results", "reports"])
def test_records_and_reports_need_no_torch(package: str):
    graph = grimp.build_graph("multirel", include_external_packages=True, cache_dir=None)
    name = f"multirel.{package}"
    if name in graph.modules:
        assert not graph.chain_exists(name, "torch", as_packages=True)


@pytest.mark.parametrize("path", sorted((PACKAGE / "tensor_normal").glob("**/*.py")), ids=name_of)
def test_mathematics_needs_no_networks(path: Path):
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        else:
            continue
        assert not [name for name in names if name == "torch.nn" or name.startswith("torch.nn.")]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_siblings_are_imported_by_their_whole_name(path: Path):
    """Relative imports hide which layer an import reaches."""
    relative = [n for n in ast.walk(parse(path)) if isinstance(n, ast.ImportFrom) and n.level]
    assert not relative


def test_importing_multirel_brings_its_version_and_nothing_heavy():
    code = (
        "import sys, multirel\n"
        "assert multirel.__all__ == ['__version__'], multirel.__all__\n"
        "heavy = {'torch', 'numpy', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    run_python(code)
