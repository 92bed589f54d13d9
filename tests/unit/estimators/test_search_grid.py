"""Default grids reach from models that learn next to nothing to nearly free ones, whatever the rows."""

import numpy as np
import pytest

from multirel.data import make_related_tasks
from multirel.estimators import (
    MeanRegularizedRegressor,
    MRNRegressor,
    MRNRegressorCV,
    MTFLClassifier,
    MTFLRegressor,
    MTRLRegressor,
    PooledRegressor,
    RMTLClassifier,
    RMTLRegressor,
    SingleTaskRegressor,
)
from multirel.estimators._fit_linear import build_problem
from multirel.estimators._search_grid import (
    depths,
    iter_settings,
    mean_regularized_grid,
    mrn_grid,
    mtfl_grid,
    mtrl_grid,
    network_grid,
    pooled_grid,
    prior_grid,
    rmtl_grid,
)
from multirel.estimators._search_groups import SearchData


def posed(estimator, data):
    """The problem of an estimator and some data."""
    rows = SearchData(X=data.X, y=data.y, tasks=data.tasks, sample_weight=None).read(estimator)
    return build_problem(estimator, rows)[0]


def numbers(scale=1.0):
    data = make_related_tasks(5, 30, 6, noise=2.0, seed=0)
    return type(data)(**{**vars(data), "y": scale * data.y})


def classes(n_classes=2):
    return make_related_tasks(5, 40, 6, n_classes=n_classes, seed=0)


def fitted(estimator, data):
    return estimator.fit(data.X, data.y, tasks=data.tasks)


@pytest.mark.parametrize("weighting", ["rows", "equal"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [(RMTLRegressor, numbers()), (RMTLClassifier, classes()), (RMTLClassifier, classes(4))],
)
def test_the_strengths_of_rmtl_begin_where_all_weights_are_zero(kind, data, weighting: str):
    grid = rmtl_grid(kind(), posed(kind(task_weighting=weighting), data))
    strongest = {name: 1.001 * max(values) for name, values in grid.items()}
    nothing = fitted(kind(task_weighting=weighting, tolerance=1e-9, **strongest), data)
    assert np.abs(nothing.coef_).max() < 1e-6
    for name in grid:
        weaker = {**strongest, name: 0.9 * max(grid[name])}
        something = fitted(kind(task_weighting=weighting, tolerance=1e-9, **weaker), data)
        assert np.abs(something.coef_).max() > 1e-4


@pytest.mark.parametrize("weighting", ["rows", "equal"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [(MTFLRegressor, numbers()), (MTFLRegressor, numbers(100.0)), (MTFLClassifier, classes(3))],
)
def test_the_strengths_of_mtfl_begin_where_a_hundredth_of_the_loss_is_learned(
    kind, data, weighting: str
):
    estimator = kind(task_weighting=weighting)
    strengths = mtfl_grid(estimator, posed(estimator, data))["strength"]
    assert strengths == sorted(strengths, reverse=True)

    def loss(strength):
        return fitted(kind(task_weighting=weighting, strength=strength), data).objective_

    free, nothing = loss(1e-9 * strengths[0]), loss(1e9 * strengths[0])
    assert 0.97 * nothing < loss(strengths[0]) < nothing
    assert loss(strengths[-1]) < free + 0.02 * (nothing - free)


def test_strengths_of_mtrl_are_twice_those_of_mtfl():
    estimator = MTRLRegressor()
    grid = mtrl_grid(estimator, posed(estimator, numbers()))
    other = mtfl_grid(estimator, posed(estimator, numbers()))["strength"]
    np.testing.assert_allclose(grid["strength"], 2 * np.array(other))
    assert grid["ridge"][0] == 0


@pytest.mark.parametrize("weighting", ["rows", "equal"])
def test_mean_regularization_reaches_from_single_tasks_to_one_model(weighting: str):
    data = numbers()
    estimator = MeanRegularizedRegressor(task_weighting=weighting)
    grid = mean_regularized_grid(estimator, posed(estimator, data))
    free = min(grid["ridge"])
    apart = fitted(
        MeanRegularizedRegressor(
            strength=min(grid["strength"]), ridge=free, task_weighting=weighting
        ),
        data,
    )
    alike = fitted(
        MeanRegularizedRegressor(
            strength=max(grid["strength"]), ridge=free, task_weighting=weighting
        ),
        data,
    )
    single = fitted(SingleTaskRegressor(strength=1e-6, task_weighting=weighting), data)
    pooled = fitted(
        PooledRegressor(strength=1e-6, task_intercepts=True, task_weighting=weighting), data
    )
    size = np.abs(single.coef_).max()
    assert np.abs(apart.coef_ - single.coef_).max() < 0.1 * size
    assert np.abs(alike.coef_ - pooled.coef_).max() < 0.1 * size


def test_strengths_of_priors_count_in_rows():
    problem = posed(SingleTaskRegressor(), numbers())
    strengths = prior_grid(SingleTaskRegressor(), problem)["strength"]
    assert strengths == pytest.approx(np.logspace(-2, 3, 11))
    assert pooled_grid(PooledRegressor(), problem)["task_intercepts"] == (False, True)
    equal = posed(SingleTaskRegressor(task_weighting="equal"), numbers())
    fewer = prior_grid(SingleTaskRegressor(), equal)["strength"]
    assert fewer == pytest.approx(np.array(strengths) / 30), "tasks of 30 rows count 1"


def test_relations_are_tried_held_and_learned():
    held, learned = mrn_grid(MRNRegressor(), posed(MRNRegressor(), numbers()))
    assert held["n_updates"] == (0,)
    assert learned["start"] == (0.3, 0.6)
    assert learned["shrinkage"] == ({"task": 0.03}, {"task": 0.1}, {"task": 0.3})


def test_settings_that_are_given_stay_as_they_are():
    data = numbers()
    found = MRNRegressorCV(start=0.45, shrinkage=0.2, random_state=0, cv=2)
    found.fit(data.X, data.y, tasks=data.tasks)
    assert "param_start" not in found.cv_results_
    assert "param_shrinkage" not in found.cv_results_
    assert found.best_estimator_.start == 0.45


def test_nothing_is_shrunk_where_nothing_may_be():
    literal = MRNRegressor(scale="free", n_updates=2)
    (grid,) = mrn_grid(literal, posed(literal, numbers()))
    assert set(grid) == {"strength", "start", "n_updates"}
    unrelated = MRNRegressor(modes=("input",))
    assert "shrinkage" not in mrn_grid(unrelated, posed(unrelated, numbers()))[1]


def test_networks_have_fewer_strengths():
    data = numbers()
    source = SearchData(X=data.X, y=data.y, tasks=data.tasks, sample_weight=None)
    strengths = {}
    for kind in (MRNRegressor, MeanRegularizedRegressor):
        strengths[kind] = network_grid(kind(), source.read(kind()))["strength"]
    assert len(strengths[MRNRegressor]) == 5
    expected = np.array(strengths[MRNRegressor]) / (2 * len(data))
    np.testing.assert_allclose(strengths[MeanRegularizedRegressor], expected)


@pytest.mark.parametrize(
    ("sizes", "several"),
    [
        ((), None),
        ((8,), None),
        ([8, 4], None),
        (((), (8,)), [(), (8,)]),
        ([[8], [4, 4]], [[8], [4, 4]]),
        (8, None),
        ("auto", None),
    ],
)
def test_depths_are_sequences_of_sequences(sizes, several):
    assert depths(sizes) == several


def test_all_combinations_of_every_grid_are_tried():
    grids = [{"strength": [1.0, 2.0], "start": (0.3,)}, {"strength": np.array([5.0])}]
    assert list(iter_settings(grids, known=["strength", "start"])) == [
        {"strength": 1.0, "start": 0.3},
        {"strength": 2.0, "start": 0.3},
        {"strength": 5.0},
    ]


def test_rows_that_say_nothing_still_have_a_grid():
    data = numbers()
    flat = type(data)(**{**vars(data), "y": np.ones(len(data))})
    for grid in (mtfl_grid, rmtl_grid):
        strengths = grid(MTFLRegressor(), posed(MTFLRegressor(), flat))["strength"]
        assert np.isfinite(strengths).all()
        assert min(strengths) >= 0
