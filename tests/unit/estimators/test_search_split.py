"""Paths with warm starts: the same solutions in fewer iterations, and no more time than fits apart."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, KFold

from multirel.data import make_related_tasks
from multirel.estimators import (
    MRNClassifier,
    MTFLClassifier,
    MTFLClassifierCV,
    PooledClassifier,
    RMTLRegressor,
    SingleTaskClassifier,
)
from multirel.estimators._fit_linear import build_problem
from multirel.estimators._linear import LinearSolution
from multirel.estimators._search_groups import SearchData, make_groups
from multirel.estimators._search_split import solve_path, train_rows


def posed(estimator, data):
    rows = SearchData(X=data.X, y=data.y, tasks=data.tasks, sample_weight=None).read(estimator)
    return build_problem(estimator, rows)[0]


@pytest.mark.parametrize(
    ("kind", "strengths"),
    [
        (SingleTaskClassifier, np.geomspace(100, 0.1, 12)),
        (PooledClassifier, np.geomspace(100, 0.1, 12)),
        (MTFLClassifier, np.geomspace(0.1, 1e-5, 12)),
        (RMTLRegressor, np.geomspace(1, 1e-3, 12)),
    ],
)
def test_warm_starts_find_the_same_in_fewer_iterations(kind, strengths):
    n_classes = None if kind is RMTLRegressor else 2
    data = make_related_tasks(6, 40, 8, n_classes=n_classes, noise=1.0, seed=0)
    problem = posed(kind(), data)
    estimators = [kind(strength=strength) for strength in strengths]
    path = [solution for solution, _ in solve_path(estimators, problem)]
    apart = [estimator._solve(problem) for estimator in estimators]
    for one, other in zip(path, apart, strict=True):
        assert one.converged
        assert one.objective == pytest.approx(other.objective, rel=3e-6)
    assert sum(s.n_iterations for s in path) < 0.75 * sum(s.n_iterations for s in apart)


def test_a_path_begins_anew_where_the_strength_rises():
    starts = []

    class Recorder:
        def __init__(self, strength):
            self.strength = strength

        def _solve(self, problem, *, start=None):
            starts.append(None if start is None else start.objective)
            return LinearSolution(
                weights=np.zeros(0),
                intercepts=np.zeros(0),
                objective=self.strength,
                gap=0.0,
                n_iterations=1,
                converged=True,
            )

    list(solve_path([Recorder(s) for s in (4.0, 2.0, 2.0, 1.0, 5.0, 1.0)], None))
    assert starts == [None, 4.0, 2.0, 2.0, 4.0, 5.0]


def test_first_fits_are_shared_between_shrinkages(monkeypatch):
    from multirel.estimators._linear import _first_fit

    solved, solve = [], _first_fit.solve_quadratic
    monkeypatch.setattr(
        _first_fit, "solve_quadratic", lambda *a, **kw: solved.append(a) or solve(*a, **kw)
    )
    data = make_related_tasks(4, 30, 5, n_classes=2, seed=0)
    candidates = [
        {"strength": strength, "shrinkage": shrinkage}
        for shrinkage in (0.03, 0.1, 0.3)
        for strength in (1.0, 10.0)
    ]
    source = SearchData(X=data.X, y=data.y, tasks=data.tasks, sample_weight=None)
    (group,) = make_groups(candidates, make=lambda s: MRNClassifier(**s), data=source, scoring=None)
    problem = build_problem(group.estimators[0], group.rows)[0]
    assert len(list(solve_path(group.estimators, problem))) == 6
    assert len(solved) == 2


@pytest.mark.parametrize("weighting", ["rows", "equal"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}])
def test_rows_of_a_split_weigh_as_if_there_were_no_others(weighting: str, class_weight):
    data = make_related_tasks(3, 30, 4, n_classes=3, seed=0)
    weight = np.random.default_rng(0).random(90)
    settings = {"task_weighting": weighting, "class_weight": class_weight}
    source = SearchData(X=data.X, y=data.y, tasks=data.tasks, sample_weight=weight)
    (group,) = make_groups(
        [{}], make=lambda s: SingleTaskClassifier(**settings), data=source, scoring=None
    )
    some = np.arange(0, 90, 2)
    found = train_rows(group, some)
    alone = SearchData(
        X=data.X[some], y=data.y[some], tasks=data.tasks[some], sample_weight=weight[some]
    )
    expected = alone.read(SingleTaskClassifier(**settings))
    np.testing.assert_allclose(found.weight, expected.weight)
    assert found.objective_scale == expected.objective_scale
    assert found.n_samples == pytest.approx(expected.n_samples)


def test_a_search_takes_no_longer_than_that_of_scikit_learn():
    """It takes a third of it; the machine may have something else to do."""
    data = make_related_tasks(10, 30, 10, n_classes=2, seed=0)
    cv, grid = KFold(2, shuffle=True, random_state=0), {"strength": np.geomspace(0.1, 1e-4, 8)}

    def ours():
        MTFLClassifierCV(grid=grid, cv=cv).fit(data.X, data.y, tasks=data.tasks)

    def theirs():
        with sklearn.config_context(enable_metadata_routing=True):
            GridSearchCV(MTFLClassifier(), grid, cv=cv).fit(data.X, data.y, tasks=data.tasks)

    times = {ours: [], theirs: []}
    for _ in range(2):
        for function, seconds in times.items():
            begin = perf_counter()
            function()
            seconds.append(perf_counter() - begin)
    assert min(times[ours]) < min(times[theirs])


def test_splits_are_of_rows_of_X_where_rows_have_several_labels():
    data = make_related_tasks(3, 20, 4, seed=0)
    wide = np.random.default_rng(0).standard_normal((60, 3))
    wide[::2, 1] = np.nan
    source = SearchData(X=data.X, y=wide, tasks=None, sample_weight=None)
    (group,) = make_groups([{}], make=lambda s: RMTLRegressor(), data=source, scoring=None)
    found = train_rows(group, np.array([0, 1, 2]))
    assert sorted(zip(found.source.tolist(), found.task.tolist(), strict=True)) == [
        (0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 2),
    ]  # fmt: skip
    assert replace(group, n_rows=60).n_rows == 60
