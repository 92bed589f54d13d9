"""Splits of a search: folds of tasks and classes, splitters, and pairs of rows."""

import numpy as np
import pytest
from sklearn.model_selection import ShuffleSplit, StratifiedKFold

from multirel.data import make_related_tasks
from multirel.estimators import MRNClassifier, SingleTaskClassifier
from multirel.estimators._search_folds import make_splits
from multirel.estimators._search_groups import SearchData, make_groups


def group_of(data, y=None, **settings):
    y = data.y if y is None else y
    source = SearchData(X=data.X, y=y, tasks=None if y.ndim > 1 else data.tasks, sample_weight=None)
    kind = MRNClassifier if "kinds" in settings else SingleTaskClassifier
    (group,) = make_groups([{}], make=lambda s: kind(**settings), data=source, scoring=None)
    return group


@pytest.fixture
def data():
    return make_related_tasks(3, 40, 4, n_classes=2, seed=0)


def split(cv, group, n_repeats=1, random_state=0):
    return make_splits(cv, group, n_repeats=n_repeats, random_state=random_state)


def test_every_class_of_every_task_has_its_share(data):
    splits, protocol = split(4, group_of(data), n_repeats=2)
    assert protocol["protocol"] == "kfold"
    assert (protocol["n_splits"], protocol["n_repeats"]) == (8, 2)
    strata = np.char.add(data.tasks.astype(str), data.y.astype(str))
    for name in np.unique(strata):
        counts = [np.count_nonzero(strata[test] == name) for _, test in splits]
        assert max(counts) - min(counts) <= 1


def test_rows_without_labels_are_on_neither_side(data):
    y = data.y.astype(float)
    y[5:20] = np.nan
    group = group_of(data, y)
    for cv in (3, ShuffleSplit(3, random_state=0)):
        for train, test in split(cv, group)[0]:
            assert not np.isin(np.arange(5, 20), np.concatenate([train, test])).any()


def test_splitters_see_the_classes(data):
    group = group_of(data)
    splits, protocol = split(StratifiedKFold(4), group)
    assert protocol == {"protocol": "given", "reason": None, "n_splits": 4}
    counts = [np.bincount(data.y[test], minlength=2) for _, test in splits]
    assert np.ptp(counts, axis=0).max() <= 1


def test_masks_are_as_good_as_numbers(data):
    mask = np.arange(120) < 80
    ((train, test),) = split([(mask, ~mask)], group_of(data))[0]
    assert np.array_equal(train, np.arange(80))
    assert np.array_equal(test, np.arange(80, 120))


def test_wide_rows_are_never_divided(data):
    wide = np.random.default_rng(0).integers(0, 2, size=(120, 3)).astype(float)
    wide[::4, 0] = np.nan
    group = group_of(data, wide)
    for cv in (5, ShuffleSplit(3, random_state=0)):
        for train, test in split(cv, group)[0]:
            assert not set(train) & set(test)


def test_tasks_with_numbers_need_shares_of_their_rows_only(data):
    group = group_of(
        data, data.y.astype(float), kinds={data.task_names[0]: "regression"}, hidden_sizes=(2,)
    )
    splits, protocol = split(5, group)
    assert protocol["protocol"] == "kfold"
    for _, test in splits:
        assert np.count_nonzero(data.tasks[test] == data.task_names[0]) == 8


def test_a_seed_repeats_the_splits(data):
    group = group_of(data)
    one, same, other = (split(3, group, random_state=seed)[0] for seed in (1, 1, 2))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(one, other, strict=True))
