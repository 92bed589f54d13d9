"""Rows in memory and of data sets: tasks, weights, missing labels, and messages."""

import numpy as np
import pytest
import torch
from torch.utils.data import StackDataset

from multirel.training import DatasetRows, TrainingRows

NAN = float("nan")


def make_rows(y=(0.0, 1.0, NAN, 3.0), task=(0, 1, 1, 3), **options) -> TrainingRows:
    return TrainingRows(torch.arange(8.0).reshape(4, 2), torch.tensor(y), task, **options)


class Items(torch.utils.data.Dataset):
    """Items of a list, which counts how many have been read."""

    def __init__(self, items):
        self.items = items
        self.n_read = 0

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        self.n_read += 1
        return self.items[index]


def test_a_batch_holds_the_rows_asked_for():
    rows = make_rows(weight=[1, 2, 3, 4])
    batch = rows.take(torch.tensor([3, 0]))
    assert batch.x.tolist() == [[6, 7], [0, 1]]
    assert batch.task.tolist() == [3, 0]
    assert batch.y.tolist() == [3, 0]
    assert batch.weight.tolist() == [4, 1]
    assert len(batch) == 2


def test_tasks_without_rows_are_counted():
    assert make_rows().n_tasks == 4
    assert make_rows(n_tasks=6).task_counts.tolist() == [1, 2, 0, 1, 0, 0]


def test_rows_without_a_label_are_left_out_and_not_counted():
    rows = make_rows(weight=[1, 2, 3, 4])
    assert rows.n_samples == 7
    labelled = rows.without_missing()
    assert len(labelled) == 3
    assert labelled.n_samples == 7
    assert labelled.task.tolist() == [0, 1, 3]
    assert labelled.take(torch.tensor([1, 2])).y.tolist() == [1, 3]


def test_whole_numbers_are_labels_unless_one_is_said_to_be_none():
    labels = (0, -1, 2, -1)
    assert len(make_rows(labels).without_missing()) == 4
    rows = make_rows(labels, missing_label=-1)
    assert rows.n_samples == 2
    assert rows.without_missing().y.tolist() == [0, 2]


def test_rows_with_some_labels_stay():
    """NaN marks the others, also where a whole number stood for none."""
    y = ((0.0, NAN), (NAN, NAN), (1.0, 1.0), (NAN, 0.0))
    assert make_rows(y).without_missing().task.tolist() == [0, 1, 3]
    rows = make_rows(((0, -1), (-1, -1), (1, 1), (-1, 0)), missing_label=-1).without_missing()
    assert rows.task.tolist() == [0, 1, 3]
    np.testing.assert_array_equal(rows.take(torch.arange(3)).y, [(0, NAN), (1, 1), (NAN, 0)])


def test_columns_of_labels_keep_their_precision_where_some_are_missing():
    y = torch.tensor([[1 / 3, -1.0], [2 / 3, 1 / 7]], dtype=torch.float64)
    rows = TrainingRows(torch.zeros(2, 1), y, [0, 1], missing_label=-1)
    batch = rows.take(torch.tensor([0, 1]))
    np.testing.assert_array_equal(batch.y, [(1 / 3, NAN), (2 / 3, 1 / 7)])


def test_a_missing_label_that_is_drawn_all_the_same_weighs_nothing():
    batch = make_rows().take(torch.tensor([2, 3]))
    assert batch.y.tolist() == [0, 3]
    assert batch.weight.tolist() == [0, 1]


def test_selections_can_be_selected_from_and_share_memory():
    rows = make_rows().select(torch.tensor([3, 2, 1])).select(torch.tensor([2, 0]))
    assert rows.take(torch.tensor([0, 1])).x.tolist() == [[2, 3], [6, 7]]
    assert rows.weight.tolist() == [1, 1]
    assert rows.checksum() == make_rows().select(torch.tensor([1, 3])).checksum()


def test_checksums_tell_labels_tasks_and_weights_apart():
    others = [
        make_rows((0.0, 1.0, NAN, 4.0)),
        make_rows(task=(0, 1, 1, 2)),
        make_rows(weight=[1, 1, 1, 2]),
    ]
    assert len({rows.checksum() for rows in [make_rows(), *others]}) == 4


def test_batches_split_into_parts():
    parts = make_rows().take(torch.tensor([0, 1, 3])).split(2)
    assert [part.task.tolist() for part in parts] == [[0, 1], [3]]
    assert [part.x.tolist() for part in parts] == [[[0, 1], [2, 3]], [[6, 7]]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"task": ()}, ValueError, "`task` must have at least one row: got none"),
        ({"task": (0.0, 1.0, 1.0, 3.0)}, TypeError, "`task` must hold one whole number per row"),
        ({"task": ((0,), (1,), (1,), (3,))}, TypeError, r"got \(4, 1\) of torch.int64"),
        ({"task": (0, 1, 1)}, ValueError, r"`x` must have one entry per row: expected 3"),
        ({"task": (0, 1, 1, -2)}, ValueError, "expected 0 to 1, got -2"),
        ({"n_tasks": 2}, ValueError, "`task` must hold indices of tasks: expected 0 to 1, got 3"),
        ({"y": (0.0, 1.0)}, ValueError, r"`y` must have one entry per row: expected 4"),
        ({"weight": [1, 2]}, ValueError, r"`weight` must have one entry per row: expected shape"),
        ({"weight": [1, 2, -3, 4]}, ValueError, "must be finite and not negative: got -3"),
        ({"weight": [1, 2, NAN, 4]}, ValueError, "must be finite and not negative: got nan"),
    ],
)
def test_rows_that_do_not_fit_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        make_rows(**options)


def test_a_data_set_without_tasks_given_is_read_once_to_see():
    items = Items([(torch.ones(2), 1, 0.5), (torch.zeros(2), 0, NAN, 2.0)])
    rows = DatasetRows(items)
    assert items.n_read == 2
    assert rows.task.tolist() == [1, 0]
    assert rows.n_samples == 1
    assert rows.without_missing().task.tolist() == [1]
    batch = rows.take(torch.tensor([1, 0]))
    assert batch.x.tolist() == [[0, 0], [1, 1]]
    assert batch.y.tolist() == [0, 0.5]
    assert batch.weight.tolist() == [0, 1]


def test_a_data_set_with_tasks_given_is_not_read_ahead():
    items = Items([(torch.ones(2), 1, 0.5), (torch.zeros(2), 0, NAN, 2.0)])
    rows = DatasetRows(items, task=[1, 0], n_tasks=3)
    assert (items.n_read, rows.n_tasks, rows.n_samples) == (0, 3, 2)
    assert rows.take(torch.tensor([1])).weight.tolist() == [0]


def test_threads_load_the_same_batch():
    items = StackDataset(torch.randn(20, 3), torch.arange(20) % 4, torch.arange(20))
    index = torch.tensor([3, 19, 0, 7])
    one, other = (DatasetRows(items, n_workers=n).take(index) for n in (0, 3))
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)
    assert one.y.tolist() == index.tolist()


def test_labels_of_data_sets_may_be_said_to_be_missing():
    items = StackDataset(torch.randn(4, 3), torch.zeros(4, dtype=torch.int64), torch.arange(4))
    rows = DatasetRows(items, missing_label=2)
    assert len(rows.without_missing()) == 3
    assert rows.select(torch.tensor([2, 3])).n_samples == 1
    assert rows.checksum() != rows.without_missing().checksum()


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((torch.ones(2), 0), r"must have items \(x, task, y\) .*: got a tuple of 2 for item 0"),
        (torch.ones(2), "got a Tensor for item 0"),
    ],
)
def test_items_of_another_form_are_refused(item, message):
    with pytest.raises(TypeError, match=message):
        DatasetRows(Items([item]))


def test_tasks_of_other_items_are_refused():
    with pytest.raises(ValueError, match="`task` must have one entry per item of `dataset`"):
        DatasetRows(Items([(torch.ones(2), 1, 0.5)]), task=[0, 1])


@pytest.mark.parametrize("name", ["x", "y", "task", "weight"])
@pytest.mark.parametrize(
    "values", ["data.csv", ["a"] * 4, np.array(["a"] * 4), [1.0, None, 2.0, 3.0]]
)
def test_rows_are_numbers(name, values):
    given = {"x": torch.zeros(4, 2), "y": torch.zeros(4), "task": torch.arange(4)} | {name: values}
    with pytest.raises(TypeError, match=f"`{name}` must hold numbers: expected .*, got"):
        TrainingRows(given.pop("x"), given.pop("y"), given.pop("task"), **given)


def test_names_of_tasks_and_missing_labels_are_explained():
    with pytest.raises(TypeError, match="Name tasks by their index"):
        make_rows(task=["a", "b", "b", "c"])
    with pytest.raises(TypeError, match="write NaN where a label is missing"):
        TrainingRows(torch.zeros(2, 2), [1.0, None], [0, 1])


def test_the_number_of_tasks_is_a_number():
    with pytest.raises(TypeError, match="`n_tasks` must be a whole number or None: got str"):
        make_rows(n_tasks="4")
    with pytest.raises(TypeError, match="`n_tasks` must be a whole number or None: got bool"):
        make_rows(n_tasks=True)


def test_one_task_alone_is_no_column():
    with pytest.raises(TypeError, match=r"`task` must hold one whole number per row: .* got \(\)"):
        make_rows(task=0)


@pytest.mark.parametrize("dataset", [None, iter([]), torch.utils.data.DataLoader([1])])
def test_datasets_have_a_length_and_items(dataset):
    with pytest.raises(TypeError, match="`dataset` must have a length and items by number: got"):
        DatasetRows(dataset)


@pytest.mark.parametrize(
    ("item", "name"), [((["a"], 0, 1.0), "x"), (([1.0], "a", 1.0), "task"), (([1.0], 0, "b"), "y")]
)
def test_items_are_numbers(item, name):
    with pytest.raises(TypeError, match=f"`{name}` must hold numbers"):
        DatasetRows([item]).take(torch.tensor([0]))


def test_items_have_one_shape():
    rows = DatasetRows([(torch.zeros(4), 0, 1), (torch.zeros(5), 1, 0)])
    with pytest.raises(ValueError, match=r"an `x` of one shape: got \(4,\), \(5,\). Resize or pad"):
        rows.take(torch.arange(2))


def test_threads_are_not_fewer_than_none():
    items = torch.utils.data.StackDataset(torch.randn(2, 2), torch.arange(2), torch.arange(2))
    with pytest.raises(ValueError, match="`n_workers` must be at least 0: got -1"):
        DatasetRows(items, n_workers=-1)
