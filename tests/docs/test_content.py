"""What the pages promise is there: words, equations, and a prior that helps."""

import re

import pytest

from tests.architecture.test_house_style import SAY_INSTEAD
from tests.docs.pages import DOCS, ROOT

WORDS = [
    "task",
    "mode",
    "order",
    "stack",
    "covariance",
    "factor",
    "precision",
    "prior",
    "penalty",
    "strength",
    "loss",
    "objective",
    "score",
    "jitter",
    "shrinkage",
    "apply",
    "update",
    "network",
    "backbone",
    "head",
    "estimator",
    "method",
    "protocol",
    "split",
    "fold",
    "seed",
    "trial",
    "record",
    "store",
    "report",
]

N_EQUATIONS = 12


@pytest.mark.parametrize("word", sorted({*WORDS, *SAY_INSTEAD.values()}))
def test_the_glossary_explains(word: str):
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [^|]+", glossary, flags=re.MULTILINE)
    assert word in {entry.strip(" `") for row in rows for entry in row.split(",")}


@pytest.mark.parametrize("number", range(1, N_EQUATIONS + 1))
def test_theory_links_every_equation_to_tested_code_or_says_that_there_is_none(number: int):
    sections = re.split(r"^##+ ", (DOCS / "theory.md").read_text("utf-8"), flags=re.MULTILINE)
    (section,) = [text for text in sections if text.startswith(f"({number}) ")]
    is_tested = any((ROOT / "tests" / "golden").glob(f"test_equation_{number}_*.py"))
    assert "$$" in section
    assert is_tested == ("**Code:**" in section)
    assert is_tested != ("**Not in code yet" in section)


def test_the_learned_prior_helps_related_tasks_as_its_page_shows():
    """Another test runs the example and holds what it prints against the page."""
    page = (DOCS / "prior-in-a-torch-model.md").read_text(encoding="utf-8")
    related, unrelated = page.split("true correlation 0.8\n")[1].split("true correlation 0.0\n")
    accuracy = [dict(re.findall(r"^(\w.+?) +(0\.\d+)", t, re.M)) for t in (related, unrelated)]
    assert float(accuracy[0]["learned task covariance"]) > float(accuracy[0]["no prior"]) + 0.1
    assert float(accuracy[1]["learned task covariance"]) > float(accuracy[1]["no prior"]) - 0.02
