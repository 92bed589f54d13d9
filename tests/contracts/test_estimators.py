"""What every estimator has in common: the same rows in another form or order are the same problem."""

import copy
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import multirel.estimators
from multirel.estimators._columns import objects
from tests.contracts.estimators import (
    Case,
    assert_same,
    cases,
    fit,
    fitted,
    outputs,
    rows_of,
)

USUAL = {"tolerance": 1e-6}
"""The default, where solutions need not be exact."""

SINGLE = 1e-3
"""How close predictions are in single precision."""


@pytest.fixture(params=cases(), ids=lambda case: case.name)
def case(request) -> Case:
    return request.param


@pytest.fixture(params=[c for c in cases() if c.is_classifier], ids=lambda case: case.name)
def classifier(request) -> Case:
    return request.param


def rows_for(case, **settings):
    return rows_of(case.is_classifier, **settings)


def is_convex(case):
    return not case.is_deep and case.method != "DMTL"


def assert_fits_the_same(case, rows, *, tolerance=None, n_classes=2, **changes):
    """The estimator says the same about the rows of the table when it is fitted to others."""
    known, estimator = rows_for(case, n_classes=n_classes), fit(case.make(**changes), rows)
    expected = outputs(fitted(case.name, n_classes), known.X, known.tasks)
    assert_same(case, outputs(estimator, known.X, known.tasks), expected, tolerance=tolerance)
    return estimator


# The same rows in another order.


def test_the_order_of_rows_changes_nothing(case):
    for n_classes in (2, 3) if case.is_classifier else (1,):
        rows = rows_for(case, n_classes=n_classes)
        shuffled = rows.select(np.random.default_rng(1).permutation(len(rows.y)))
        assert_fits_the_same(case, shuffled, n_classes=n_classes)


def test_the_order_of_tasks_changes_nothing(case):
    rows = rows_for(case)
    renamed = {"ash": "yew", "elm": "elm", "oak": "bay"}
    tasks = np.array([renamed[name] for name in rows.tasks])
    estimator = fit(case.make(), rows.replace(tasks=tasks))
    assert estimator.tasks_.tolist() == ["bay", "elm", "yew"]
    expected = outputs(fitted(case.name), rows.X, rows.tasks)
    assert_same(case, outputs(estimator, rows.X, tasks), expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_order_of_classes_changes_nothing(classifier, n_classes):
    rows = rows_for(classifier, n_classes=n_classes)
    estimator = fit(classifier.make(), rows.replace(y=-rows.y))
    assert estimator.classes_.tolist() == [-label for label in range(n_classes)][::-1]
    expected = fitted(classifier.name, n_classes).predict_proba(rows.X, tasks=rows.tasks)
    found = estimator.predict_proba(rows.X, tasks=rows.tasks)
    assert_same(classifier, found[:, ::-1], expected)


# The same rows in another form.


LABELS = {
    "text": np.array(["no", "yes"]),
    "whole-floats": np.array([1.0, 2.0]),
    "bool": np.array([False, True]),
    "objects": np.array(["no", "yes"], dtype=object),
    "mixed": np.array([1, "yes"], dtype=object),
    "tuples": objects([("no", 1), ("yes", 2)]),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_classes_may_be_of_any_type(classifier, labels):
    rows = rows_for(classifier)
    estimator = assert_fits_the_same(classifier, rows.replace(y=labels[rows.y]))
    assert estimator.classes_.tolist() == labels.tolist()
    predicted = estimator.predict(rows.X, tasks=rows.tasks)
    assert {type(label) for label in predicted.tolist()} <= {
        type(label) for label in labels.tolist()
    }
    assert 0 < estimator.score(rows.X, labels[rows.y], tasks=rows.tasks) <= 1


NAMES = {
    "numbers": np.array([3, 5, 7]),
    "floats": np.array([0.5, 1.5, 2.5]),
    "mixed": np.array([1, "elm", 2.5], dtype=object),
    "tuples": objects([("a", 1), ("a", 2), ("b", 1)]),
    "categories": pd.Series(["ash", "elm", "oak"], dtype="category"),
    "times": np.array(["2020", "2021", "2022"], dtype="datetime64[Y]"),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_tasks_may_be_of_any_type(case, names):
    rows = rows_for(case)
    known = ["ash", "elm", "oak"]
    number = np.array([known.index(name) for name in rows.tasks])
    tasks = names.iloc[number] if isinstance(names, pd.Series) else names[number]
    estimator = fit(case.make(), rows.replace(tasks=tasks))
    expected = outputs(fitted(case.name), rows.X, rows.tasks)
    assert len(estimator.tasks_) == 3
    assert_same(case, outputs(estimator, rows.X, tasks), expected)


FORMS = {
    "list": lambda x: x.tolist(),
    "pandas": lambda x: (
        pd.DataFrame(x, columns=["a", "b", "c", "d"]) if x.ndim == 2 else pd.Series(x)
    ),
    "polars": lambda x: (
        pl.DataFrame(x, schema=["a", "b", "c", "d"]) if x.ndim == 2 else pl.Series(x)
    ),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_features_labels_and_tasks_may_have_any_form(case, form):
    rows = rows_for(case)
    x, y, tasks = form(rows.X), form(rows.y), form(rows.tasks)
    estimator = case.make().fit(x, y, tasks=tasks)
    expected = outputs(fitted(case.name), rows.X, rows.tasks)
    assert_same(case, outputs(estimator, x, tasks), expected)


def test_tensors_are_read_also_where_they_need_gradients(case):
    rows = rows_for(case)
    number = np.unique(rows.tasks, return_inverse=True)[1]
    x = torch.tensor(rows.X, requires_grad=True)
    y = torch.tensor(rows.y)
    if not case.is_classifier:
        y.requires_grad_(True)
    estimator = case.make().fit(x, y, tasks=torch.tensor(number))
    expected = outputs(fitted(case.name), rows.X, rows.tasks)
    assert_same(case, outputs(estimator, x, torch.tensor(number)), expected)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_features_are_the_same_features(case, form):
    """Linear models without a center: their intercepts, which are free, make up for it."""
    rows = rows_for(case)
    if not case.is_deep:
        assert_fits_the_same(case, rows.replace(X=form(rows.X)))
        return
    estimator = fit(case.make(standardize=False), rows.replace(X=form(rows.X)))
    expected = outputs(fit(case.make(standardize=False), rows), rows.X, rows.tasks)
    assert_same(case, outputs(estimator, form(rows.X), rows.tasks), expected)


@pytest.mark.parametrize("case", [c for c in cases() if not c.is_deep], ids=lambda case: case.name)
def test_sparse_features_are_never_written_out(case):
    """A third of the memory that the features would take as an array is enough for everything."""
    n_rows, n_features = 30_000, 200
    rng = np.random.default_rng(0)
    x = sparse.random_array((n_rows, n_features), density=0.005, format="csr", rng=rng)
    tasks = rng.integers(0, 3, n_rows)
    y = x @ rng.standard_normal(n_features) + 0.1 * rng.standard_normal(n_rows)
    y = (y > np.median(y)).astype(int) if case.is_classifier else y
    estimator = case.make(tolerance=1e-2, strength=10.0)
    tracemalloc.start()
    try:
        outputs(estimator.fit(x, y, tasks=tasks), x, tasks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n_rows * n_features / 3


def test_single_precision_is_close(case):
    rows = rows_for(case)
    assert_fits_the_same(case, rows.replace(X=rows.X.astype(np.float32)), tolerance=SINGLE)


def test_what_users_give_is_not_changed(case):
    """All arrays are read-only; these are those of a sparse matrix and of weights."""
    rows = rows_for(case)
    x, weight = sparse.csr_array(rows.X), np.ones(len(rows.y))
    for values in (x.data, x.indices, x.indptr, weight):
        values.flags.writeable = False
    fit(case.make(), rows.replace(X=x), sample_weight=weight)
    found = outputs(fitted(case.name), rows.X, rows.tasks)
    found[:] = 0
    assert outputs(fitted(case.name), rows.X, rows.tasks).any()


# The same problem, said in another way.


def test_weights_are_repetitions(case):
    rows = rows_for(case)
    weight = np.random.default_rng(2).integers(0, 3, len(rows.y))
    repeated = fit(case.make(), rows.select(np.repeat(np.arange(len(rows.y)), weight)))
    weighted = fit(case.make(), rows, sample_weight=weight)
    expected = outputs(repeated, rows.X, rows.tasks)
    assert_same(case, outputs(weighted, rows.X, rows.tasks), expected)


def test_equal_tasks_weigh_the_same(case):
    rows = rows_for(case)
    counts = {name: np.sum(rows.tasks == name) for name in np.unique(rows.tasks)}
    weight = np.array([1 / counts[name] for name in rows.tasks])
    equal = fit(case.make(task_weighting="equal"), rows)
    again = fit(case.make(task_weighting="equal"), rows, sample_weight=7 * weight)
    assert_same(case, outputs(again, rows.X, rows.tasks), outputs(equal, rows.X, rows.tasks))


def test_weights_of_classes_are_weights_of_their_rows(classifier):
    rows = rows_for(classifier)
    expected = fit(classifier.make(), rows, sample_weight=np.array([1.0, 3.0])[rows.y])
    found = fit(classifier.make(class_weight={1: 3.0}), rows)
    assert_same(
        classifier, outputs(found, rows.X, rows.tasks), outputs(expected, rows.X, rows.tasks)
    )
    totals = np.bincount(rows.y)
    balanced = fit(classifier.make(class_weight="balanced"), rows)
    weight = (len(rows.y) / (2 * totals))[rows.y]
    expected = fit(classifier.make(), rows, sample_weight=weight)
    assert_same(
        classifier, outputs(balanced, rows.X, rows.tasks), outputs(expected, rows.X, rows.tasks)
    )


def test_rows_without_a_label_are_no_rows(case):
    rows = rows_for(case)
    keep = np.random.default_rng(3).random(len(rows.y)) < 0.8
    y = np.where(keep, rows.y, np.nan)
    found = fit(case.make(), rows.replace(y=y))
    expected = fit(case.make(), rows.select(keep))
    assert_same(case, outputs(found, rows.X, rows.tasks), outputs(expected, rows.X, rows.tasks))
    marked = np.where(keep, rows.y, -99)
    asked = fit(case.make(missing_label=-99), rows.replace(y=marked))
    assert_same(case, outputs(asked, rows.X, rows.tasks), outputs(expected, rows.X, rows.tasks))


def test_a_column_of_labels_per_task_is_a_row_per_label(case):
    rows = rows_for(case)
    names = np.unique(rows.tasks)
    wide = np.where(rows.tasks[:, None] == names, rows.y[:, None], np.nan)
    for y in (wide, pd.DataFrame(wide, columns=names), pl.DataFrame(wide, schema=names.tolist())):
        estimator = case.make().fit(rows.X, y)
        found = outputs(estimator, rows.X)
        number = np.searchsorted(names, rows.tasks)
        expected = outputs(fitted(case.name), rows.X, rows.tasks)
        assert_same(case, found[np.arange(len(number)), number], expected)
        predicted = estimator.predict(rows.X)
        assert predicted.shape == (len(rows.y), 3)
    assert estimator.tasks_.tolist() == names.tolist()


@pytest.mark.parametrize("column", ["site", -1])
def test_tasks_may_be_a_column_of_the_features(case, column):
    rows = rows_for(case)
    frame = pd.DataFrame(rows.X, columns=list("abcd")).assign(site=rows.tasks)
    estimator = case.make(task_column=column).fit(frame, rows.y)
    expected = outputs(fitted(case.name), rows.X, rows.tasks)
    assert_same(case, outputs(estimator, frame), expected)
    assert estimator.score(frame, rows.y) == pytest.approx(
        fitted(case.name).score(rows.X, rows.y, tasks=rows.tasks)
    )


def test_features_in_other_units_are_the_same_features(case):
    """That is what `standardize` is for; a feature that never changes counts nothing."""
    rows = rows_for(case)
    scale, shift = np.array([1e3, 1e-2, 1.0, 7.0]), np.array([5.0, 0.0, -3.0, 1.0])
    estimator = fit(case.make(), rows.replace(X=rows.X * scale + shift))
    expected = outputs(fitted(case.name), rows.X, rows.tasks)
    assert_same(case, outputs(estimator, rows.X * scale + shift, rows.tasks), expected)


# What happens at the edges.


def test_constant_features_say_nothing(case):
    rows = rows_for(case)
    x = np.column_stack([rows.X, np.full(len(rows.y), 3.7)])
    estimator = fit(case.make(), rows.replace(X=x))
    found = outputs(estimator, x, rows.tasks)
    assert np.isfinite(found).all()
    other = x.copy()
    other[:, -1] = 0.0
    if not case.is_deep:
        assert_same(case, outputs(estimator, other, rows.tasks), found)


@pytest.mark.parametrize("n_features", [1, 60])
def test_there_may_be_more_features_than_rows_or_one(case, n_features):
    rows = rows_for(case, n_features=n_features)
    estimator = fit(case.make(**USUAL), rows)
    assert np.isfinite(outputs(estimator, rows.X, rows.tasks)).all()
    if not case.is_deep:
        assert estimator.coef_.shape == (3, 1, n_features)
        assert estimator.intercept_.shape == (3, 1)


def test_a_task_may_have_one_class_only(classifier):
    rows = rows_for(classifier)
    y = np.where(rows.tasks == "oak", 1, rows.y)
    estimator = fit(
        classifier.make(tolerance=1e-8) if not classifier.is_deep else classifier.make(),
        rows.replace(y=y),
    )
    assert estimator.classes_.tolist() == [0, 1]
    assert np.isfinite(outputs(estimator, rows.X, rows.tasks)).all()


def test_a_task_may_have_one_row(case):
    rows = rows_for(case)
    keep = rows.tasks != "oak"
    keep[np.flatnonzero(~keep)[0]] = True
    few = rows.select(keep)
    estimator = fit(case.make(**USUAL), few)
    assert estimator.tasks_.tolist() == ["ash", "elm", "oak"]
    assert np.isfinite(outputs(estimator, rows.X, rows.tasks)).all()


def test_a_task_may_have_no_label_at_all(case):
    rows = rows_for(case)
    y = np.where(rows.tasks == "oak", np.nan, rows.y)
    estimator = fit(case.make(), rows.replace(y=y))
    assert estimator.tasks_.tolist() == ["ash", "elm", "oak"]
    assert np.isfinite(outputs(estimator, rows.X, rows.tasks)).all()


def test_one_task_needs_no_name(case):
    rows = rows_for(case)
    estimator = case.make().fit(rows.X, rows.y)
    named = case.make().fit(rows.X, rows.y, tasks=["one"] * len(rows.y))
    assert_same(case, outputs(estimator, rows.X), outputs(named, rows.X))
    assert estimator.score(rows.X, rows.y) == named.score(rows.X, rows.y)


# Objects that behave.


def test_settings_are_kept_and_copied_and_changed(case):
    estimator = case.make()
    settings = estimator.get_params()
    assert clone(fitted(case.name)).get_params() == settings
    assert not vars(clone(fitted(case.name))).keys() - settings.keys()
    assert estimator.set_params(strength=3.0).strength == 3.0
    assert repr(estimator).startswith(f"{case.estimator.__name__}(")
    assert "strength=3.0" in repr(estimator)
    assert case.estimator.__name__ in estimator._repr_html_()
    with pytest.raises(ValueError, match="nonsense"):
        estimator.set_params(nonsense=1)


def test_a_fit_leaves_the_settings_alone_and_gives_itself_back(case):
    estimator = case.make()
    settings = estimator.get_params()
    assert fit(estimator, rows_for(case)) is estimator
    assert estimator.get_params() == settings


def test_the_same_fit_twice_has_the_same_bits(case):
    rows = rows_for(case)
    estimator = fit(case.make(), rows)
    first = outputs(estimator, rows.X, rows.tasks)
    np.testing.assert_array_equal(outputs(fit(estimator, rows), rows.X, rows.tasks), first)


def test_copies_predict_the_same_to_the_bit(case):
    rows = rows_for(case)
    expected = outputs(fitted(case.name), rows.X, rows.tasks)
    for copied in (pickle.loads(pickle.dumps(fitted(case.name))), copy.deepcopy(fitted(case.name))):
        np.testing.assert_array_equal(outputs(copied, rows.X, rows.tasks), expected)


def test_predictions_need_a_fit(case):
    rows = rows_for(case)
    with pytest.raises(NotFittedError):
        case.make().predict(rows.X, tasks=rows.tasks)


def test_names_of_features_are_compared(case):
    rows = rows_for(case)
    frame = pd.DataFrame(rows.X, columns=list("abcd"))
    estimator = fit(case.make(), rows.replace(X=frame))
    assert estimator.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(frame[list("dcba")], tasks=rows.tasks)


def test_missing_and_unknown_tasks_are_errors_that_say_what_to_do(case):
    rows, estimator = rows_for(case), fitted(case.name)
    with pytest.raises(ValueError, match="3 tasks were fitted: got None.*set_config.*task_column"):
        estimator.predict(rows.X)
    with pytest.raises(ValueError, match="expected 'ash', 'elm', 'oak', got 'fir'"):
        estimator.predict(rows.X, tasks=["fir"] * len(rows.y))


def test_scores_are_averages_over_tasks(case):
    rows, estimator = rows_for(case), fitted(case.name)
    scores = []
    for name in np.unique(rows.tasks):
        mine = rows.select(rows.tasks == name)
        scores.append(estimator.score(mine.X, mine.y, tasks=mine.tasks))
    found = estimator.score(rows.X, rows.y, tasks=rows.tasks)
    assert found == pytest.approx(np.mean(scores))


@pytest.mark.parametrize("case", [c for c in cases() if is_convex(c)], ids=lambda case: case.name)
def test_convex_problems_carry_a_certificate(case):
    estimator = fit(case.make(tolerance=1e-6), rows_for(case))
    assert estimator.converged_
    assert 0 <= estimator.gap_ <= 1e-6
    assert np.isfinite(estimator.objective_)
    assert estimator.n_iter_ >= 1


def test_a_new_task_leaves_all_else_as_it_is(case):
    rows = rows_for(case)
    known, new = rows.select(rows.tasks != "oak"), rows.select(rows.tasks == "oak")
    estimator = fit(case.make(**USUAL), known)
    expected = outputs(estimator, known.X, known.tasks)
    if case.is_deep:
        with pytest.raises(ValueError, match="`add_task` needs linear models"):
            estimator.add_task(new.X, new.y, name="oak")
        return
    assert estimator.add_task(new.X, new.y, name="oak") is estimator
    np.testing.assert_array_equal(outputs(estimator, known.X, known.tasks), expected)
    assert estimator.tasks_.tolist() == ["ash", "elm", "oak"]
    assert estimator.score(new.X, new.y, tasks=new.tasks) > 0
    assert np.isfinite(outputs(estimator, rows.X, rows.tasks)).all()


def test_every_estimator_is_in_the_table():
    names = {case.estimator.__name__ for case in cases()}
    twins = {f"{name}CV" for name in names}
    functions = {"load_estimator"}
    assert names | twins | functions == set(multirel.estimators.__all__)
