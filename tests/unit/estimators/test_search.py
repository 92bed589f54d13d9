"""Twins that choose their settings: the same scores as scikit-learn's search, and what is made of them."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from multirel import estimators
from multirel.data import make_related_tasks
from multirel.estimators import (
    SingleTaskClassifier,
    SingleTaskClassifierCV,
    SingleTaskRegressor,
    SingleTaskRegressorCV,
)
from multirel.exceptions import MultirelWarning

STRENGTHS = (0.1, 3.0, 100.0)


@pytest.fixture
def numbers():
    return make_related_tasks(4, 40, 6, noise=2.0, seed=0)


@pytest.fixture
def classes():
    return make_related_tasks(4, 40, 6, n_classes=3, seed=1)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def own_score(estimator, X, y, tasks):
    return estimator.score(X, y, tasks=tasks)


def search(data, **settings):
    kind = SingleTaskRegressorCV if data.kind == "regression" else SingleTaskClassifierCV
    settings = {"grid": {"strength": STRENGTHS}, "random_state": 0, **settings}
    return kind().set_params(**settings).fit(data.X, data.y, tasks=data.tasks)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"standardize": False},
        {"task_weighting": "equal"},
        {"class_weight": "balanced"},
        {"class_weight": {0: 3.0}},
        {"loss": "squared"},
    ],
    ids=str,
)
@pytest.mark.usefixtures("routing")
def test_classifiers_are_scored_as_by_a_grid_search_of_scikit_learn(classes, settings: dict):
    data, cv = classes, KFold(4, shuffle=True, random_state=0)
    theirs = GridSearchCV(SingleTaskClassifier(**settings), {"strength": STRENGTHS}, cv=cv)
    theirs.fit(data.X, data.y, tasks=data.tasks)
    ours = search(data, cv=cv, **settings)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-9
    )
    np.testing.assert_allclose(
        ours.cv_results_["std_test_score"], theirs.cv_results_["std_test_score"], atol=1e-9
    )
    assert np.array_equal(
        ours.predict(data.X, tasks=data.tasks),
        theirs.best_estimator_.predict(data.X, tasks=data.tasks),
    )


@pytest.mark.parametrize("make_X", [np.asarray, sparse.csr_array, pd.DataFrame], ids=str)
@pytest.mark.usefixtures("routing")
def test_regressors_are_scored_as_by_a_grid_search_of_scikit_learn(numbers, make_X):
    X, y, tasks = make_X(numbers.X), numbers.y, numbers.tasks
    cv = KFold(4, shuffle=True, random_state=0)
    theirs = GridSearchCV(SingleTaskRegressor(), {"strength": STRENGTHS}, cv=cv)
    theirs.fit(X, y, tasks=tasks)
    ours = SingleTaskRegressorCV(grid={"strength": STRENGTHS}, cv=cv, scoring=own_score)
    ours.fit(X, y, tasks=tasks)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], rtol=1e-6
    )
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    np.testing.assert_array_equal(
        ours.cv_results_["rank_test_score"], theirs.cv_results_["rank_test_score"]
    )
    np.testing.assert_allclose(
        ours.predict(X, tasks=tasks), theirs.best_estimator_.predict(X, tasks=tasks), atol=1e-6
    )


def test_settings_that_change_how_rows_are_read_may_be_searched(classes):
    grid = {
        "strength": STRENGTHS,
        "class_weight": [None, "balanced"],
        "loss": ["logistic", "squared"],
    }
    both = search(classes, grid=grid)
    for weight in (None, "balanced"):
        alone = search(classes, class_weight=weight)
        mine = [
            number
            for number, one in enumerate(both.cv_results_["params"])
            if one["class_weight"] == weight and one["loss"] == "logistic"
        ]
        np.testing.assert_allclose(
            both.cv_results_["mean_test_score"][mine], alone.cv_results_["mean_test_score"]
        )


def test_the_chosen_estimator_is_fitted_to_all_rows(numbers):
    found = search(numbers)
    best = SingleTaskRegressor(**found.best_params_).fit(numbers.X, numbers.y, tasks=numbers.tasks)
    np.testing.assert_allclose(found.coef_, best.coef_, atol=1e-10)
    np.testing.assert_allclose(found.intercept_, best.intercept_, atol=1e-10)
    assert found.tasks_.tolist() == best.tasks_.tolist()
    assert found.gap_ <= 1e-6
    assert found.n_features_in_ == 6
    expected = best.score(numbers.X, numbers.y, tasks=numbers.tasks)
    assert found.score(numbers.X, numbers.y, tasks=numbers.tasks) == pytest.approx(expected)


def test_results_have_the_columns_of_scikit_learn_and_more(numbers):
    results = search(numbers, cv=3, n_repeats=2).cv_results_
    assert [f"split{k}_test_score" in results for k in range(7)] == [True] * 6 + [False]
    scores = np.array([results[f"split{k}_test_score"] for k in range(6)])
    np.testing.assert_allclose(results["mean_test_score"], scores.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], scores.std(axis=0))
    np.testing.assert_allclose(
        results["standard_error_test_score"], scores.std(axis=0, ddof=1) / np.sqrt(6)
    )
    best = int(results["rank_test_score"].argmin())
    above = scores - scores[:, [best]]
    np.testing.assert_allclose(results["difference_to_best"], above.mean(axis=0), atol=1e-11)
    np.testing.assert_allclose(
        results["standard_error_difference"], above.std(axis=0, ddof=1) / np.sqrt(6)
    )
    assert results["param_strength"].tolist() == list(STRENGTHS)
    assert sorted(results["rank_test_score"]) == [1, 2, 3]
    assert len(pd.DataFrame(results)) == 3


def test_the_same_seed_gives_the_same_search(numbers):
    one, same, other = (search(numbers, random_state=seed).cv_results_ for seed in (5, 5, 6))
    assert np.array_equal(one["mean_test_score"], same["mean_test_score"])
    assert not np.array_equal(one["mean_test_score"], other["mean_test_score"])


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_searches_that_run_at_the_same_time_find_the_same(numbers, backend: str):
    with parallel_config(backend):
        one, two = (search(numbers, n_jobs=n).cv_results_ for n in (None, 2))
    np.testing.assert_array_equal(one["mean_test_score"], two["mean_test_score"])


def test_the_protocol_says_how_rows_were_divided(classes):
    assert search(classes).cv_protocol_["protocol"] == "kfold"
    y = classes.y.copy()
    first = np.flatnonzero(classes.tasks == classes.task_names[0])
    y[first] = np.where(np.arange(len(first)) < 2, 2, np.arange(len(first)) % 2)
    few = SingleTaskClassifierCV(grid={"strength": STRENGTHS}, random_state=0)
    few.fit(classes.X, y, tasks=classes.tasks)
    assert few.cv_protocol_["protocol"] == "hold-out"
    assert few.cv_protocol_["reason"] == "class 2 of task 'task 1' has 2 rows, fewer than 5 folds"
    given = search(classes, cv=[(np.arange(100), np.arange(100, 160))])
    assert given.cv_protocol_ == {"protocol": "given", "reason": None, "n_splits": 1}


def test_rows_without_labels_are_in_no_split(numbers):
    y = numbers.y.copy()
    y[::3] = np.nan
    seen = []

    def score(estimator, X, labels, tasks):
        seen.append(labels)
        return estimator.score(X, labels, tasks=tasks)

    found = SingleTaskRegressorCV(grid={"strength": STRENGTHS}, scoring=score, random_state=0)
    found.fit(numbers.X, y, tasks=numbers.tasks)
    assert len(np.unique(np.concatenate(seen))) == np.count_nonzero(~np.isnan(y))


def test_a_column_per_task_is_the_same_as_rows_of_tasks(numbers):
    X = numbers.X
    wide = np.full((len(numbers), 4), np.nan)
    column = np.array([numbers.task_names.index(name) for name in numbers.tasks])
    wide[np.arange(len(numbers)), column] = numbers.y
    cv = [(train, test) for train, test in KFold(4, shuffle=True, random_state=1).split(X)]
    one = search(numbers, cv=cv)
    other = SingleTaskRegressorCV(grid={"strength": STRENGTHS}, cv=cv).fit(X, wide)
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
    )
    assert other.predict(X).shape == (len(numbers), 4)
    drawn = SingleTaskRegressorCV(grid={"strength": STRENGTHS}, random_state=0).fit(X, wide)
    assert drawn.cv_protocol_["protocol"] == "kfold"


def test_a_column_of_tasks_needs_no_routing(numbers):
    X = pd.DataFrame(numbers.X, columns=list("abcdef")).assign(site=numbers.tasks)
    found = SingleTaskRegressorCV(
        task_column="site", grid={"strength": STRENGTHS}, random_state=0
    ).fit(X, numbers.y)
    expected = search(numbers).cv_results_["mean_test_score"]
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected)


def test_sample_weights_count_in_fits_and_in_scores(numbers):
    weight = np.random.default_rng(0).integers(1, 4, size=len(numbers))
    cv = [(t, s) for t, s in KFold(3, shuffle=True, random_state=0).split(numbers.X)]
    repeated = np.repeat(np.arange(len(numbers)), weight)
    twins = []
    for train, test in cv:
        twins.append([np.flatnonzero(np.isin(repeated, side)) for side in (train, test)])
    settings = {"grid": {"strength": STRENGTHS}}
    one = SingleTaskRegressorCV(cv=cv, **settings).fit(
        numbers.X, numbers.y, tasks=numbers.tasks, sample_weight=weight
    )
    other = SingleTaskRegressorCV(cv=twins, **settings).fit(
        numbers.X[repeated], numbers.y[repeated], tasks=numbers.tasks[repeated]
    )
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], atol=1e-7
    )
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-5)


def test_one_standard_error_takes_the_strongest_of_those_that_are_as_good(numbers):
    grid = {"strength": np.geomspace(0.1, 1000, 15)}
    best = search(numbers, grid=grid)
    simple = search(numbers, grid=grid, selection="one-se")
    near = best.cv_results_["is_near_best"]
    assert near[best.best_index_]
    assert simple.best_params_["strength"] == grid["strength"][near].max()
    assert simple.best_params_["strength"] >= best.best_params_["strength"]


def test_the_average_of_linear_models_is_a_linear_model(numbers):
    grid = {"strength": np.geomspace(10, 100, 12)}
    found = search(numbers, grid=grid, selection="average")
    near = np.flatnonzero(found.cv_results_["is_near_best"])
    assert len(near) > 1
    assert np.array_equal(found.averaged_, near)
    each = [
        SingleTaskRegressor(strength=grid["strength"][k]).fit(
            numbers.X, numbers.y, tasks=numbers.tasks
        )
        for k in near
    ]
    np.testing.assert_allclose(found.coef_, np.mean([e.coef_ for e in each], axis=0), atol=1e-8)
    np.testing.assert_allclose(
        found.intercept_, np.mean([e.intercept_ for e in each], axis=0), atol=1e-8
    )
    np.testing.assert_allclose(
        found.predict(numbers.X, tasks=numbers.tasks),
        np.mean([e.predict(numbers.X, tasks=numbers.tasks) for e in each], axis=0),
        atol=1e-7,
    )


def test_everything_that_the_estimator_has_is_there_under_its_own_name(classes):
    found = search(classes)
    X, tasks = classes.X, classes.tasks
    best = found.best_estimator_
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(
            getattr(found, name)(X, tasks=tasks), getattr(best, name)(X, tasks=tasks)
        )
    assert found.classes_.tolist() == [0, 1, 2]
    assert not hasattr(found, "no_such_name")
    assert not hasattr(SingleTaskRegressorCV(), "predict_proba")
    assert not hasattr(SingleTaskClassifierCV(loss="squared"), "predict_proba")
    assert not hasattr(SingleTaskClassifierCV(), "classes_")


def test_the_signature_names_every_setting():
    names = list(inspect.signature(SingleTaskClassifierCV).parameters)
    own = list(inspect.signature(SingleTaskClassifier).parameters)
    assert names == [*own, "grid", "cv", "n_repeats", "scoring", "selection", "n_jobs"]
    assert set(SingleTaskClassifierCV().get_params()) == set(names)
    for name in names:
        assert f"    {name}: " in inspect.getdoc(SingleTaskClassifierCV)


def test_twins_are_cloned_and_pickled(numbers):
    found = search(numbers, selection="average")
    assert clone(found).get_params() == found.get_params()
    assert not hasattr(clone(found), "best_estimator_")
    back = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(
        back.predict(numbers.X, tasks=numbers.tasks), found.predict(numbers.X, tasks=numbers.tasks)
    )
    assert repr(SingleTaskRegressorCV(cv=3)) == "SingleTaskRegressorCV(cv=3)"


def test_an_interruption_leaves_a_choice_by_the_splits_that_are_done(numbers):
    calls = []

    def score(estimator, X, y, tasks):
        calls.append(len(y))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return estimator.score(X, y, tasks=tasks)

    with pytest.warns(MultirelWarning, match="settings are chosen by 2 of 5 splits"):
        found = search(numbers, scoring=score)
    assert found.cv_protocol_["n_splits"] == 2
    assert found.predict(numbers.X, tasks=numbers.tasks).shape == (160,)


def test_progress_goes_to_the_error_stream(numbers, capsys):
    search(numbers, cv=2, verbose=True)
    assert "SingleTaskRegressorCV: split 2 of 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"selection": "worst"},
            "`selection` must be one of 'best', 'one-se', 'average': got 'worst'.",
        ),
        ({"n_repeats": 0}, "`n_repeats` must be a whole number above 0: got 0."),
        (
            {"scoring": 3},
            "`scoring` must be None, the name of a metric, or a function of an estimator",
        ),
        ({"scoring": "accuracy"}, "expected 'explained-variance', 'r2', 'rmse', got 'accuracy'."),
        ({"cv": "five"}, "`cv` must be a number of folds, a splitter, or pairs of rows"),
        ({"cv": []}, "`cv` must make at least one split: got none."),
        (
            {"cv": [([0, 1], [900])]},
            "`cv` must name rows of X: expected numbers below 160, got 900.",
        ),
        ({"cv": [([0, 1], [])]}, "in which a labelled row is held out: got one without."),
        ({"cv": 1}, "`n_folds` must be at least 2: got 1."),
        (
            {"grid": 3},
            "`grid` must be a mapping from settings to values, or a list of such: got 3.",
        ),
        ({"grid": {"power": [1]}}, "`grid` must name settings of the estimator: .* got 'power'."),
        ({"grid": {"strength": 1.0}}, "`grid` must have a sequence of values .* Write \\[1.0\\]"),
        (
            {"grid": {"strength": [-1.0]}},
            "`strength` must be a finite number that is not negative: got -1.0",
        ),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_say_so(numbers, settings: dict, message: str):
    with pytest.raises(ValueError, match=message):
        search(numbers, **settings)


def test_a_metric_that_is_nowhere_defined_says_so():
    data = make_related_tasks(2, 10, 3, seed=0)
    cv = [(np.arange(1, 20), np.array([0]))]
    with pytest.raises(
        ValueError, match="`scoring` must be defined on held-out rows: got no score"
    ):
        search(data, cv=cv, scoring="explained-variance")


def test_tasks_without_a_score_are_left_out_and_counted():
    data = make_related_tasks(3, 20, 4, seed=0)
    test = np.concatenate([np.arange(0, 6), np.arange(20, 26), [40]])
    train = np.setdiff1d(np.arange(60), test)
    settings = {"scoring": "explained-variance"}
    results = search(data, cv=[(train, test)], **settings).cv_results_
    assert results["n_undefined"].tolist() == [1, 1, 1]
    without = search(data, cv=[(train, test[:-1])], **settings).cv_results_
    np.testing.assert_allclose(results["mean_test_score"], without["mean_test_score"])


@pytest.mark.parametrize("family", ["MRN", "MTRL"])
def test_relations_of_a_search_have_intervals(family: str):
    data = make_related_tasks(3, 40, 4, seed=2)
    search = getattr(estimators, f"{family}RegressorCV")(grid={"strength": [0.1, 1.0]}, cv=3)
    search.fit(data.X, data.y, tasks=data.tasks)
    intervals = search.relation_intervals(n_boot=20, random_state=0)
    assert (intervals.low <= intervals.high).all()


def test_without_a_seed_the_rows_are_divided_in_the_same_way():
    data = make_related_tasks(3, 40, 4, seed=2)
    scores = [
        estimators.MRNRegressorCV(grid={"strength": [0.1, 1.0]})
        .fit(data.X, data.y, tasks=data.tasks)
        .cv_results_["mean_test_score"]
        for _ in range(2)
    ]
    assert scores[0].tolist() == scores[1].tolist()
