"""One row per stack: what is learned, how strongly it acts, what it costs."""

import numpy as np
import pytest
import torch

from multirel.priors import PriorSummary
from tests.stacks import covariances_of, prior_on, related_weight

SHAPE = (3, 4, 5)


def row_of(prior, index=0):
    return prior.summary().rows[index]


def test_rows_describe_the_stacks_in_order():
    """Layer, shape, modes with their shrinkage, rank, updates."""
    prior, _ = prior_on(related_weight(SHAPE), related_weight((3, 2, 9)), rank=5)
    summary = prior.summary()
    assert isinstance(summary, PriorSummary)
    assert [row.layer for row in summary.rows] == ["a", "b"]
    assert [row.shape for row in summary.rows] == ["3 × 4 × 5", "3 × 2 × 9"]
    assert [row.rank for row in summary.rows] == ["full, full, full", "full, full, 5"]
    assert [row.updates for row in summary.rows] == ["0 of 1", "0 of 1"]
    prior.update()
    assert row_of(prior).updates == "1 of 1"


@pytest.mark.parametrize("rank", [None, 2])
def test_condition_and_strength_are_those_of_the_dense_precision(rank):
    """The largest eigenvalue over the smallest, and λ/N times the mean one."""
    prior, _ = prior_on(related_weight(SHAPE), rank=rank, strength=3.0, n_samples=20, shrinkage=0.3)
    prior.update()
    eigenvalues = np.ones(1)
    for matrix in covariances_of(prior):
        eigenvalues = np.kron(eigenvalues, 1 / np.linalg.eigvalsh(matrix))
    row = row_of(prior)
    assert row.condition == pytest.approx(eigenvalues.max() / eigenvalues.min(), rel=1e-3)
    assert row.strength == pytest.approx(3.0 / 20 * eigenvalues.mean(), rel=1e-3)


def test_strength_is_the_plain_one_where_nothing_is_learned():
    """All modes off: λ/N."""
    prior, _ = prior_on(related_weight(SHAPE), shrinkage=1.0, strength=3.0, n_samples=20)
    row = row_of(prior)
    assert (row.condition, row.modes, row.rank) == (1.0, "", "")
    assert row.strength == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "every step"),
        ({"apply_every": 7}, "every 7 steps"),
        ({"application": "gradient"}, "per gradient"),
    ],
)
def test_costs_say_how_often(settings, expected):
    """Of an application, or of a gradient."""
    prior, _ = prior_on(related_weight(SHAPE), **settings)
    prior.update()
    assert row_of(prior).cost.endswith(f"FLOP {expected}")


def test_costs_grow_with_the_rank():
    """4 D Σ r_k operations: two products per mode with r_k columns."""
    costs = []
    for rank in (None, 2):
        prior, _ = prior_on(related_weight((4, 30, 40)), rank=rank)
        prior.update()
        costs.append(float(row_of(prior).cost.split(" ")[0]))
    assert costs[0] == pytest.approx(4 * 4800 * (4 + 30 + 40), rel=0.05)
    assert costs[1] == pytest.approx(4 * 4800 * (2 + 2 + 2), rel=0.05)


def test_summaries_print_as_tables():
    """A line of names and one per stack, aligned; no end is "no end"."""
    prior, _ = prior_on(related_weight(SHAPE), related_weight((3, 2, 9)), n_updates=None)
    text = str(prior.summary())
    lines = text.splitlines()
    assert len(lines) == 3
    assert lines[0].split() == [
        *("layer", "shape", "modes", "rank", "condition", "strength", "cost", "updates"),
        "correlations",
    ]
    for name in ("shape", "modes", "condition", "cost"):
        column = lines[0].index(name)
        assert all(line[column - 1] == " " and line[column] != " " for line in lines)
    assert "0 of no end" in lines[1]
    assert repr(prior.summary()) == text


def test_summaries_of_large_stacks_are_quick():
    """A mode of 4096 is summed on its device."""
    weight = torch.randn(2, 4, 4096, generator=torch.Generator().manual_seed(0))
    prior, _ = prior_on(weight, dtype=torch.float32)
    prior.update()
    assert row_of(prior).rank.endswith("64")
