"""Products with the rows of tasks are those of one matrix product per task."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from multirel.estimators._linear import Design
from multirel.estimators._linear._row_groups import RowGroups

COUNTS = {
    "many small": [3, 0, 5, 4, 17, 1, 9, 30, 8],
    "small and large": [5, 400, 7, 6, 0, 300],
    "large": [300, 280],
    "one": [40],
    "none": [0, 0],
}
KINDS = ("dense", "converted by chunks", "sparse")


@pytest.fixture(params=COUNTS)
def counts(request):
    return COUNTS[request.param]


@pytest.fixture(params=KINDS)
def design(request, counts, monkeypatch):
    x = np.random.default_rng(0).normal(size=(sum(counts), 6))
    starts = np.concatenate([[0], np.cumsum(counts)])
    if request.param == "sparse":
        return Design(sparse.csr_array(x * (x > 0)), starts)
    if request.param == "dense":
        return Design(x, starts)
    monkeypatch.setattr("multirel.estimators._linear._design.MOST_CONVERTED_ENTRIES", 50)
    return Design(x.astype(np.float32), starts)


def rows_by_task(design):
    x = design.x.toarray() if design.is_sparse else design.x.astype(float)
    return np.split(x, design.starts[1:-1])


def test_products_are_those_of_each_task(design):
    weights = np.random.default_rng(1).normal(size=(design.n_tasks, 2, 6))
    expected = [x @ w.T for x, w in zip(rows_by_task(design), weights, strict=True)]
    assert_allclose(design.products(weights), np.concatenate(expected), atol=1e-12)


def test_pulling_back_is_the_transposed_product(design):
    values = np.random.default_rng(1).normal(size=(design.n_rows, 2))
    parts = np.split(values, design.starts[1:-1])
    expected = [v.T @ x for x, v in zip(rows_by_task(design), parts, strict=True)]
    assert_allclose(design.pull_back(values), np.stack(expected), atol=1e-12)


def test_gram_matrices_are_weighted(design):
    factors = np.random.default_rng(1).uniform(size=design.n_rows)
    parts = np.split(factors, design.starts[1:-1])
    expected = [(x.T * v) @ x for x, v in zip(rows_by_task(design), parts, strict=True)]
    assert_allclose(design.grams(factors), np.stack(expected), atol=1e-11)


def test_products_of_rows_are_kept(design):
    rows = slice(0, min(4, design.n_rows))
    x = np.concatenate(rows_by_task(design))[rows]
    assert_allclose(design.row_products(rows), x @ x.T, atol=1e-12)
    assert design.row_products(rows) is design.row_products(rows)


def test_some_tasks_are_a_design_of_their_own(design):
    tasks = np.array([design.n_tasks - 1, 0])
    some = design.of_tasks(tasks)
    mine = rows_by_task(design)
    for one, other in zip(rows_by_task(some), [mine[-1], mine[0]], strict=True):
        assert_allclose(one, other)
    assert some.task.tolist() == [0] * len(mine[-1]) + [1] * len(mine[0])


def test_sparse_rows_stay_sparse():
    x = sparse.random_array((50, 10**6), density=1e-5, format="csr", rng=np.random.default_rng(0))
    design = Design(x, np.array([0, 20, 50]))
    weights = np.ones((2, 1, 10**6))

    assert_allclose(design.products(weights)[:, 0], x.sum(axis=1))
    assert design.x is x


@pytest.mark.parametrize("name", ["sums", "largest", "smallest"])
def test_groups_of_rows_are_reduced_one_by_one(name, counts):
    groups = RowGroups(np.concatenate([[0], np.cumsum(counts)]))
    values = np.random.default_rng(0).normal(size=(sum(counts), 2))
    function = {"sums": np.sum, "largest": np.max, "smallest": np.min}[name]
    found = getattr(groups, name)(values)

    for part, result in zip(np.split(values, groups.starts[1:-1]), found, strict=True):
        assert_allclose(result, function(part, axis=0) if len(part) else 0.0)
