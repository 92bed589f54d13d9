"""Splits for cross-validation: every task, and every class of it, has its share."""

import numpy as np
import pytest

from multirel.data import task_folds


def draw(rng, n_rows: int, *, n_tasks: int = 4, n_classes: int = 3):
    return rng.integers(n_tasks, size=n_rows), rng.integers(n_classes, size=n_rows)


@pytest.mark.parametrize("seed", range(5))
def test_every_row_is_held_out_once_per_repeat(seed: int):
    tasks, labels = draw(np.random.default_rng(seed), 211)
    folds = task_folds(tasks, labels, n_folds=5, n_repeats=3, seed=seed)
    assert folds.protocol == "kfold"
    assert folds.reason is None
    assert len(folds) == 15
    for repeat in range(3):
        tests = [test for _, test in folds.splits[5 * repeat : 5 * repeat + 5]]
        assert np.array_equal(np.sort(np.concatenate(tests)), np.arange(211))
    for train, test in folds.splits:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(211))


@pytest.mark.parametrize("seed", range(5))
def test_folds_have_equal_shares_of_classes_of_tasks_and_of_all(seed: int):
    tasks, labels = draw(np.random.default_rng(seed), 257)
    folds = task_folds(tasks, labels, seed=seed)
    for groups in (tasks * 3 + labels, tasks, np.zeros_like(tasks)):
        counts = np.array([np.bincount(groups[test], minlength=12) for _, test in folds.splits])
        assert np.ptp(counts, axis=0).max() <= (1 if groups is not tasks else 2)


def test_tasks_and_classes_may_be_of_any_type():
    tasks = np.array(["a", 1, None, "a", 1, None] * 4, dtype=object)
    folds = task_folds(tasks, ["x", "y"] * 12, n_folds=2)
    assert folds.protocol == "kfold"
    for _, test in folds.splits:
        assert [list(tasks[test]).count(name) for name in ("a", 1, None)] == [4, 4, 4]


def test_the_same_seed_gives_the_same_splits_and_another_seed_others():
    tasks, labels = draw(np.random.default_rng(0), 100, n_tasks=2, n_classes=2)
    one, same, other = (task_folds(tasks, labels, seed=seed).splits for seed in (3, 3, 4))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(one, other, strict=True))


def test_numbers_need_shares_of_tasks_only():
    tasks = np.repeat([0, 1, 2], [5, 7, 50])
    folds = task_folds(tasks)
    assert folds.protocol == "kfold"
    for _, test in folds.splits:
        assert np.bincount(tasks[test], minlength=3)[0] == 1


def test_a_class_with_fewer_rows_than_folds_makes_hold_outs_that_keep_a_row_of_every_class():
    rng = np.random.default_rng(0)
    tasks = np.repeat(["big", "small"], [60, 9])
    labels = np.concatenate(
        [rng.permutation(np.repeat([0, 1, 2], 20)), [0, 0, 0, 0, 1, 1, 1, 2, 2]]
    )
    folds = task_folds(tasks, labels, n_folds=5, n_repeats=4)
    assert folds.protocol == "hold-out"
    assert folds.reason == "class 2 of task 'small' has 2 rows, fewer than 5 folds"
    assert len(folds) == 20
    strata = np.char.add(tasks, labels.astype(str))
    for train, test in folds.splits:
        assert set(strata[train]) == set(strata)
        assert not set(train) & set(test)
        assert "small" in set(tasks[test])
        assert np.count_nonzero(tasks[test] == "big") == 12
    share = np.mean([np.count_nonzero(tasks[test] == "small") for _, test in folds.splits]) / 9
    assert share == pytest.approx(0.2, abs=0.06)


def test_a_task_without_labels_of_classes_says_so_too():
    folds = task_folds(["a"] * 3 + ["b"] * 9)
    assert folds.reason == "task 'a' has 3 rows, fewer than 5 folds"
    for train, test in folds.splits:
        assert np.count_nonzero(test < 3) == 1
        assert np.count_nonzero(train < 3) == 2


def test_a_task_with_one_row_per_class_gives_up_one_that_other_tasks_have():
    tasks = ["many"] * 20 + ["few"] * 3
    labels = [0, 1] * 10 + [0, 1, 2]
    for train, test in task_folds(tasks, labels).splits:
        assert np.count_nonzero(test >= 20) == 1
        assert 22 in train, "no other task has this class"


def test_a_task_with_one_row_always_trains():
    for train, _ in task_folds(["a"] * 12 + ["b"]).splits:
        assert 12 in train


def test_rows_with_labels_of_several_tasks_are_never_divided():
    rng = np.random.default_rng(1)
    has_label = rng.random((90, 4)) < 0.5
    has_label[:, 0] |= ~has_label.any(axis=1)
    rows, tasks = np.nonzero(has_label)
    labels = rng.integers(2, size=len(rows))
    folds = task_folds(tasks, labels, rows=rows)
    assert folds.protocol == "kfold"
    tests = np.concatenate([test for _, test in folds.splits])
    assert np.array_equal(np.sort(tests), np.arange(90))
    for number in range(4):
        counts = [np.count_nonzero(has_label[test, number]) for _, test in folds.splits]
        assert max(counts) - min(counts) <= 5


def test_hold_outs_of_rows_with_several_labels_keep_a_label_of_every_class():
    rng = np.random.default_rng(2)
    has_label = rng.random((30, 3)) < 0.6
    has_label[:, 0] |= ~has_label.any(axis=1)
    rows, tasks = np.nonzero(has_label)
    labels = (rng.random(len(rows)) < 0.15).astype(int)
    folds = task_folds(tasks, labels, rows=rows, n_repeats=5)
    assert folds.protocol == "hold-out"
    strata = tasks * 2 + labels
    for train, test in folds.splits:
        assert set(strata[np.isin(rows, train)]) == set(strata)
        assert set(tasks[np.isin(rows, test)]) == {0, 1, 2}


def test_rows_that_are_left_out_are_in_no_split():
    rows = np.array([3, 5, 8, 11, 20, 21])
    for train, test in task_folds([0] * 6, rows=rows, n_folds=3).splits:
        assert np.array_equal(np.sort(np.concatenate([train, test])), rows)


def test_settings_that_make_no_splits_say_so():
    with pytest.raises(ValueError, match="`n_folds` must be at least 2: got 1."):
        task_folds([0, 0], n_folds=1)
    with pytest.raises(ValueError, match="`n_repeats` must be at least 1: got 0."):
        task_folds([0, 0], n_repeats=0)
    with pytest.raises(
        ValueError, match="at least 2 labelled rows to hold some out: got n_samples = 1."
    ):
        task_folds([0])
    with pytest.raises(
        ValueError, match="`labels` must have an entry per entry of `tasks`: expected 2"
    ):
        task_folds([0, 0], [1])
    with pytest.raises(
        ValueError, match="`rows` must have an entry per entry of `tasks`: expected 2"
    ):
        task_folds([0, 0], rows=[1])
