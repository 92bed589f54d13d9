"""What the pages show runs, and prints what they say."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

from tests.docs.pages import (
    DOCS,
    GALLERY,
    PAGES,
    ROOT,
    assert_prints,
    blocks,
    name_of,
    run,
)

MAX_DECISION_LINES = 40

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def pages_with(language: str) -> list[Path]:
    """Return the pages with blocks of a language, without the gallery, which has its own tests."""
    others = [page for page in PAGES if page != GALLERY]
    return [page for page in others if any(block.language == language for block in blocks(page))]


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_python_blocks_run_in_order_and_print_what_follows_them(page: Path, tmp_path: Path):
    found = blocks(page)
    namespace = {"__name__": "page"}
    with torch.random.fork_rng(devices=[]):
        for block, following in zip(found, [*found[1:], None], strict=True):
            if block.language != "python":
                continue
            if block.included:
                printed = run(str(block.included), folder=tmp_path)
            else:
                code = compile("\n" * (block.line - 1) + block.text, name_of(page), "exec")
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    exec(code, namespace)
                printed = output.getvalue()
            has_output = following is not None and following.language == "text"
            assert_prints(printed, following.text if has_output else "")


@pytest.mark.parametrize("page", pages_with("console"), ids=name_of)
def test_commands_print_what_pages_show(page: Path, tmp_path: Path):
    for block in blocks(page):
        if block.language == "console":
            command, _, shown = block.text.partition("\n")
            prompt, name, *arguments = command.split()
            assert (prompt, name) == ("$", "multirel")
            assert_prints(run("-m", "multirel", *arguments, folder=tmp_path), shown)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_make_exist(page: Path):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, flags=re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z0-9-]+)", page.read_text("utf-8"), flags=re.MULTILINE)
    assert set(named) <= targets


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path):
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).is_file(), target


def test_the_menu_lists_every_page_once():
    menu = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(menu) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_decisions_are_numbered_and_short():
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    for number, page in enumerate(decisions, start=1):
        lines = page.read_text(encoding="utf-8").splitlines()
        assert page.name.startswith(f"{number:04d}-")
        assert lines[0].startswith(f"# {number:04d}: ")
        assert len(lines) <= MAX_DECISION_LINES


def test_every_example_is_shown_on_a_page_and_so_runs():
    shown = {block.included for page in PAGES for block in blocks(page)}
    assert set((ROOT / "examples").glob("*.py")) <= shown
