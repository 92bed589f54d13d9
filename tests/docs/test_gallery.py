"""Every example of the gallery prints what the page shows, and the page says no more than that."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.pages import GALLERY, TOLERANCE, assert_prints, blocks, run

SHOWN = {
    code.included: output.text
    for code, output in pairwise(blocks(GALLERY))
    if code.included and output.language == "text"
}
"""What the page shows below every example."""

QUICK = {"relations_with_intervals"}
"""Those that take hardly longer than importing what they need."""

TOLERANCES = {"images": 0.05}
"""Trained networks differ more between machines than solved problems do."""

PICTURES = {"relations_with_intervals": ["relations.png"]}
"""What examples write into the folder that `--output` names."""

MOST_LINES = 70
"""Examples are read, so they are short."""


def numbers(example: str, row: str) -> list[list[float]]:
    """Return the numbers of every row that the page shows with this name, in order."""
    (text,) = [text for path, text in SHOWN.items() if path.stem == example]
    rows = re.findall(rf"^ *{re.escape(row)} +(.*)$", text, flags=re.MULTILINE)
    return [[float(number) for number in re.findall(r"-?\d+\.?\d*", found)] for found in rows]


def marks(path: Path) -> list[pytest.MarkDecorator]:
    return [] if path.stem in QUICK else [pytest.mark.slow]


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=marks(path), id=path.stem) for path in SHOWN]
)
def test_examples_print_what_the_gallery_shows(path: Path, tmp_path: Path):
    stem = path.stem
    output = ["--output", str(tmp_path)] if stem in PICTURES else []
    printed = run(str(path), *output, folder=tmp_path)
    assert_prints(printed, SHOWN[path], tolerance=TOLERANCES.get(stem, TOLERANCE))
    assert [found.name for found in tmp_path.iterdir()] == PICTURES.get(stem, [])


def test_there_are_six_short_examples_and_all_of_them_show_what_they_print():
    included = [block.included for block in blocks(GALLERY) if block.included]
    assert included == [*SHOWN]
    assert len(included) == 6
    for path in included:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, path.name


def test_mrn_is_best_where_hospitals_form_groups_and_pooling_fails():
    (alone,), (pooled,), (mrn,) = (
        numbers("csv_of_hospitals", name) for name in ("single task", "pooled", "MRN")
    )
    assert mrn[0] > alone[0] > pooled[0] + 0.3
    gain, error = mrn[1:]
    assert gain > 2 * error


def test_routing_and_a_column_of_tasks_give_the_same_and_the_scaler_helps():
    example = "pipeline_with_grid_search"
    assert numbers(example, "routed, held-out rows") == numbers(
        example, "with a column, held-out rows"
    )
    ((without,),) = numbers(example, "no scaler, cross-validated")
    ((scaled,),) = numbers(example, "scaler, cross-validated")
    assert scaled > without


def test_mrn_helps_most_where_labels_are_missing():
    assays = ("binding", "uptake", "cell 1", "cell 2")
    shown = [numbers("missing_labels", assay)[0] for assay in assays]
    assert all(mrn > max(alone, pooled) for _, alone, pooled, mrn in shown)
    gains = [mrn - alone for _, alone, _, mrn in shown]
    assert max(gains) == gains[-1]
    n_labels, alone, pooled, mrn = numbers("missing_labels", "in vivo")[0]
    assert n_labels == 0
    assert alone < 0.05
    assert abs(mrn - pooled) < 0.05


def test_an_added_task_gains_where_it_is_like_the_others_and_loses_where_it_is_not():
    alike, unlike = zip(*(numbers("add_a_task", n) for n in ("5", "10", "20")), strict=True)
    assert all(added > alone for alone, added, _ in alike)
    assert alike[0][1] > alike[2][0]
    assert all(added < alone for alone, added, _ in unlike)
    # Nothing is lost by not fitting all tasks again.
    assert all(added > again - 0.02 for _, added, again in alike)


def test_intervals_tell_the_blocks_apart_and_the_page_says_how_many_hold_the_truth():
    (text,) = [text for path, text in SHOWN.items() if path.stem == "relations_with_intervals"]
    assert "21 of 28 intervals hold the truth" in text
    assert "12 of 12 pairs within blocks" in text
    assert "0 of 16 across" in text
    assert "Here they hold fewer" in GALLERY.read_text(encoding="utf-8")


def test_training_together_helps_on_images_and_pooling_is_as_good_as_mrn():
    (alone,), (pooled,), (mrn,) = (
        numbers("images", name) for name in ("single task", "pooled", "MRN")
    )
    assert min(max(pooled), max(mrn)) > max(alone) + 0.05
    assert abs(max(pooled) - max(mrn)) < 0.02
