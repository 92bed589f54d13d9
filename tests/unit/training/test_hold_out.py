"""Rows held out: the same share of every task, never the last row of one."""

import pytest
import torch

from multirel.training import DatasetRows, TrainingRows, hold_out


def make_rows(sizes=(50, 10, 1, 0, 2), missing=0) -> TrainingRows:
    task = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    y = torch.arange(float(len(task)))
    y[:missing] = torch.nan
    return TrainingRows(y.unsqueeze(1), y, task, n_tasks=len(sizes))


def test_every_task_gives_its_share_and_keeps_a_row():
    kept, held_out = hold_out(make_rows(), fraction=0.2)
    assert held_out.task_counts.tolist() == [10, 2, 0, 0, 0]
    assert kept.task_counts.tolist() == [40, 8, 1, 0, 2]
    assert hold_out(make_rows(), fraction=0.99)[0].task_counts.tolist() == [1, 1, 1, 0, 1]


def test_no_row_is_in_both_parts_and_the_seed_decides():
    kept, held_out = hold_out(make_rows(), fraction=0.3, seed=1)
    assert sorted([*kept.y.tolist(), *held_out.y.tolist()]) == list(range(63))
    assert held_out.y.tolist() == hold_out(make_rows(), fraction=0.3, seed=1)[1].y.tolist()
    assert held_out.y.tolist() != hold_out(make_rows(), fraction=0.3, seed=2)[1].y.tolist()


def test_rows_without_a_label_are_in_neither_part():
    kept, held_out = hold_out(make_rows(missing=40), fraction=0.5)
    assert kept.task_counts.tolist() == [5, 5, 1, 0, 1]
    assert held_out.task_counts.tolist() == [5, 5, 0, 0, 1]


def test_data_sets_are_divided_too():
    items = [(torch.zeros(1), index % 2, float(index)) for index in range(10)]
    kept, held_out = hold_out(DatasetRows(items), fraction=0.2)
    assert (len(kept), len(held_out)) == (8, 2)


def test_fractions_that_hold_out_nothing_are_refused():
    with pytest.raises(ValueError, match="must hold out a row of some task: got 0.1 of 2 rows"):
        hold_out(make_rows((2, 1)), fraction=0.1)
    for fraction in (0.0, 1.0):
        with pytest.raises(ValueError, match="`fraction` must be above 0 and below 1: got"):
            hold_out(make_rows(), fraction=fraction)
