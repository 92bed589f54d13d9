"""What the page about own networks claims is what its tables show, and it leaves nothing out."""

import inspect
import re
from dataclasses import fields

from multirel.priors import SummaryRow, attach_prior
from tests.docs.pages import DOCS

PAGE = (DOCS / "own-network.md").read_text(encoding="utf-8")

PRIOR, POOLED = "prior, strength chosen", "one head, weight decay"


def table(title: str) -> dict[str, float]:
    """Return the accuracies below a title; another test holds them against what the example prints."""
    (rows,) = re.findall(rf"^{title}\n(.*?)\n(?:\n|```)", PAGE, flags=re.DOTALL | re.MULTILINE)
    return {name: float(score) for name, score in re.findall(r"^(\w.+?) +(0\.\d+)", rows, re.M)}


def test_the_prior_is_better_than_every_rival_where_groups_of_tasks_are_related():
    scores = table("Two groups of shops")
    rivals = {name: score for name, score in scores.items() if not name.startswith("prior")}
    assert len(rivals) == 3
    assert scores[PRIOR] > max(rivals.values()) + 0.02


def test_pooled_training_is_best_where_tasks_are_one_and_the_page_says_so():
    scores = table("All shops alike")
    assert max(scores, key=scores.get) == POOLED
    assert scores[PRIOR] > scores["the same, weight decay"]
    assert "one head for all shops finds more" in PAGE


def test_the_prior_does_no_harm_where_there_is_nothing_to_find():
    scores = table("Every shop on its own")
    assert abs(scores[PRIOR] - scores["a head per shop"]) < 0.02
    assert scores[POOLED] < scores[PRIOR] - 0.1


def test_every_column_of_the_summary_is_explained():
    section = PAGE.split("## How to read `summary()`")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    assert explained == [field.name for field in fields(SummaryRow)]


def test_every_setting_of_a_prior_is_explained():
    section = PAGE.split("## How to choose settings")[1].split("\n## ")[0]
    settings = list(inspect.signature(attach_prior).parameters)[2:]
    assert not [name for name in settings if f"`{name}" not in section]
