import numpy as np
import pytest
from numpy.testing import assert_allclose

from multirel.data import make_related_tasks
from multirel.estimators import MRNClassifier, MRNRegressor, MTRLRegressor
from multirel.estimators._relations import _widened

DATA = make_related_tasks(3, 40, 6, correlation=0.7, seed=1)
PAIRS = np.triu_indices(3, 1)


def fit(model=None, y=None):
    model = MRNRegressor() if model is None else model
    return model.fit(DATA.X, DATA.y if y is None else y, tasks=DATA.tasks)


def intervals(model=None, **settings):
    model = fit() if model is None else model
    return model.relation_intervals(**{"n_boot": 40, "random_state": 0, **settings})


@pytest.mark.parametrize("method", ["simulated", "resampled"])
@pytest.mark.parametrize("target", ["weights", "covariance"])
def test_intervals_are_matrices_around_the_estimate(method, target):
    found = intervals(method=method, target=target)

    assert found.tasks.tolist() == ["task 1", "task 2", "task 3"]
    assert found.level == 0.9
    for matrix in (found.low, found.estimate, found.high):
        assert matrix.shape == (3, 3)
        assert_allclose(matrix, matrix.T)
        assert_allclose(np.diagonal(matrix), 1)
    assert (found.low <= found.estimate).all()
    assert (found.estimate <= found.high).all()
    assert (found.low[PAIRS] < found.high[PAIRS]).all()


def test_intervals_of_a_higher_level_are_wider():
    narrow, wide = intervals(level=0.5), intervals(level=0.95)

    assert (wide.low[PAIRS] < narrow.low[PAIRS]).all()
    assert (wide.high[PAIRS] > narrow.high[PAIRS]).all()


def test_intervals_of_the_distribution_carry_the_number_of_features():
    assert np.ptp([intervals(target="covariance").low[PAIRS], intervals().low[PAIRS]]) > 0.05


def test_widening_is_that_of_fishers_z():
    drawn = np.tile(np.array([[1.0, 0.6], [0.6, 1.0]]), (100_000, 1, 1))

    widened = _widened(drawn, 11, rng=np.random.default_rng(0))

    assert_allclose(np.arctanh(widened[:, 0, 1]).std(), 1 / 3, rtol=0.02)
    assert_allclose(np.arctanh(widened[:, 0, 1]).mean(), np.arctanh(0.6), atol=0.01)
    assert_allclose(widened[:, 0, 1], widened[:, 1, 0])
    assert_allclose(widened[:, 0, 0], 1)


def test_intervals_do_not_depend_on_the_number_of_jobs():
    one, two = intervals(n_jobs=1), intervals(n_jobs=2)

    assert_allclose(one.low, two.low, atol=1e-12)
    assert_allclose(one.high, two.high, atol=1e-12)


def test_other_seeds_give_other_draws_and_no_seed_is_a_fixed_one():
    assert not np.array_equal(intervals().low, intervals(random_state=1).low)


def test_rows_may_be_given_again():
    model = fit()

    expected = intervals(model)
    found = intervals(model, X=DATA.X, y=DATA.y, tasks=DATA.tasks)

    assert_allclose(found.low, expected.low)


def test_rows_count_what_their_weights_say():
    """A task whose rows weigh almost nothing has the widest intervals."""
    weight = np.where(DATA.tasks == "task 1", 1e-3, 1.0)
    model = MRNRegressor().fit(DATA.X, DATA.y, tasks=DATA.tasks, sample_weight=weight)

    width = (lambda found: found.high - found.low)(intervals(model))

    assert min(width[0, 1], width[0, 2]) > 1.3 * width[1, 2]


def test_equal_tasks_are_as_well_known_as_their_rows_are_many():
    equal = intervals(fit(MRNRegressor(task_weighting="equal")))

    assert_allclose(equal.low, intervals().low, atol=0.05)


def test_tasks_without_labels_have_no_intervals():
    found = intervals(fit(y=np.where(DATA.tasks == "task 2", np.nan, DATA.y)))

    assert np.isnan(found.low[1]).all()
    assert np.isnan(found.high[:, 1]).all()
    assert np.isfinite(found.low[0, 2])


@pytest.mark.parametrize("method", ["simulated", "resampled"])
def test_mtrl_has_intervals(method):
    found = intervals(fit(MTRLRegressor()), method=method)

    assert (found.low[PAIRS] < found.high[PAIRS]).all()


def test_networks_have_no_intervals():
    model = fit().set_params(hidden_sizes=(4,))

    with pytest.raises(ValueError, match="`relation_intervals` must be asked of linear models"):
        intervals(model)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_have_intervals(n_classes):
    data = make_related_tasks(3, 60, 4, correlation=0.9, n_classes=n_classes, seed=1)
    model = MRNClassifier().fit(data.X, data.y, tasks=data.tasks)

    found = intervals(model)

    assert (found.high[PAIRS] > 0.5).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 1.0}, "`level` must be between 0 and 1: got 1.0"),
        ({"n_boot": 5}, "`n_boot` must be at least 20: got 5"),
        (
            {"X": DATA.X[:40], "y": DATA.y[:40]},
            "`tasks` must be those of `fit`: expected task 1, task 2",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        intervals(**settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_rows", "n_features", "correlation"), [(100, 20, 0.8), (20, 20, 0.8), (15, 40, 0.0)]
)
def test_nine_in_ten_intervals_hold_the_truth(n_rows, n_features, correlation):
    """At least 80 % of the pairs over 12 simulations, for the weights and for their distribution."""
    holds = []
    for seed in range(12):
        data = make_related_tasks(4, n_rows, n_features, correlation=correlation, seed=seed)
        model = MRNRegressor().fit(data.X, data.y, tasks=data.tasks)
        rows = data.true_weights[:, 0]
        norms = np.linalg.norm(rows, axis=1)
        truths = {
            "weights": rows @ rows.T / np.outer(norms, norms),
            "covariance": data.true_covariances["task"],
        }
        pairs = np.triu_indices(4, 1)
        holds.append([])
        for target, truth in truths.items():
            found = intervals(model, target=target, n_boot=200)
            inside = (found.low <= truth) & (truth <= found.high)
            holds[-1].append(inside[pairs].mean())

    assert (np.mean(holds, axis=0) >= 0.8).all()
