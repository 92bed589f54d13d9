"""Rows grouped by task: blocks, order and messages."""

import pytest
import torch

from multirel.networks import group_rows
from multirel.networks._rows_by_task import MAX_PADDED_SHARE, as_rows_by_task
from tests.environment import DEVICE
from tests.unit.networks.naive import uneven_tasks

CPU = torch.device("cpu")

TASKS = {
    "balanced": torch.arange(60) % 5,
    "sorted": torch.arange(60) // 12,
    "one task": torch.full((9,), 3),
    "nine of ten": uneven_tasks(20, 400),
    "gaps": torch.arange(0, 40, 3).repeat(4),
    "all sizes": torch.repeat_interleave(torch.arange(30), torch.arange(30)),
    "no rows": torch.zeros(0, dtype=torch.int64),
}


def as_numbers(index) -> list[int]:
    return list(range(index.start, index.stop)) if isinstance(index, slice) else index.tolist()


@pytest.mark.parametrize("max_copied", [0, 3, 100])
@pytest.mark.parametrize("name", TASKS)
def test_blocks_hold_every_row_once_and_with_its_task(name, max_copied):
    """Padding aside, which goes to the row behind the last."""
    task = TASKS[name]
    seen = []
    for block in group_rows(task, 40).blocks(CPU, max_copied=max_copied):
        rows = torch.tensor(as_numbers(block.rows)).reshape(block.n_tasks, block.rows_per_task)
        targets = torch.tensor(as_numbers(block.targets)).reshape(rows.shape)
        assert (task[rows] == torch.tensor(as_numbers(block.tasks))[:, None]).all()
        is_real = targets < len(task)
        assert torch.equal(targets[is_real], rows[is_real])
        assert (block.is_padding is None) == bool(is_real.all())
        seen += targets[is_real].tolist()
    assert sorted(seen) == list(range(len(task)))


@pytest.mark.parametrize("name", TASKS)
def test_blocks_pad_by_a_quarter_at_most(name):
    """Also with one task that has nearly all rows."""
    rows = group_rows(TASKS[name], 40)
    for block in rows.blocks(CPU, max_copied=100):
        size = block.n_tasks * block.rows_per_task
        n_padding = 0 if block.is_padding is None else int(block.is_padding.sum())
        assert size <= MAX_PADDED_SHARE * (size - n_padding)


@pytest.mark.parametrize("max_copied", [1, 3])
def test_blocks_copy_no_more_weights_than_allowed(max_copied):
    """Tasks that are neighbors are a range, which copies nothing."""
    for block in group_rows(TASKS["gaps"], 40).blocks(CPU, max_copied=max_copied):
        assert isinstance(block.tasks, slice) or block.n_tasks <= max_copied


def test_many_tasks_take_few_blocks():
    """Blocks per batch grow with the logarithm of the largest task, not with the tasks."""
    torch.manual_seed(0)
    counts = torch.randint(1, 100, (5000,))
    task = torch.repeat_interleave(torch.arange(5000), counts)
    blocks = group_rows(task, 5000).blocks(CPU, max_copied=5000)
    assert len(blocks) < 30


def test_blocks_are_made_once():
    """The backward pass takes those of the forward pass."""
    rows = group_rows(TASKS["gaps"], 40)
    assert rows.blocks(CPU, max_copied=3) is rows.blocks(CPU, max_copied=3)


@pytest.mark.parametrize("name", TASKS)
def test_split_rows_join_in_their_old_places(name):
    """`join` undoes `split`."""
    task = TASKS[name].to(DEVICE)
    x = torch.randn(len(task), 2, device=DEVICE)
    rows = group_rows(task, 40).to(x.device)
    parts = rows.split(x)
    assert len(parts) == len(rows.tasks) or not len(x)
    for index, part in zip(rows.tasks.tolist(), parts, strict=False):
        assert torch.equal(part, x[task == index])
    if len(x):
        assert torch.equal(rows.join(parts), x)


def test_rows_in_order_are_not_sorted_again():
    """`order` is None, and blocks are ranges."""
    rows = group_rows(TASKS["sorted"], 5)
    assert rows.order is None
    assert all(isinstance(block.rows, slice) for block in rows.blocks(CPU, max_copied=1))


def test_rows_of_one_task_keep_their_order():
    """The sort is stable."""
    rows = group_rows(torch.tensor([1, 0, 1, 0]), 2)
    assert rows.order.tolist() == [1, 3, 0, 2]
    assert rows.starts.tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16])
def test_every_integer_type_is_an_index(dtype):
    """As data sets store them."""
    rows = group_rows(torch.tensor([3, 0, 3], dtype=dtype), 4)
    assert rows.counts.tolist() == [1, 2]


def test_an_index_stands_for_all_rows():
    """One group, in the order of the batch."""
    rows = as_rows_by_task(2, n_rows=3, n_tasks=4, device=CPU)
    assert (rows.tasks.tolist(), rows.counts.tolist(), rows.order) == ([2], [3], None)


@pytest.mark.parametrize(("index", "row"), [(4, 1), (-1, 1)])
def test_task_out_of_range_is_an_error(index, row):
    """The message has the range, the index and its row."""
    message = rf"indices of the 4 tasks: expected 0 to 3, got {index} in row {row}"
    with pytest.raises(ValueError, match=message):
        group_rows(torch.tensor([0, index, 2]), 4)


@pytest.mark.parametrize("index", [4, -1])
def test_index_out_of_range_is_an_error(index):
    """For one task for all rows, too."""
    message = rf"`task` must be the index of one of the 4 tasks: expected 0 to 3, got {index}"
    with pytest.raises(ValueError, match=message):
        as_rows_by_task(index, n_rows=3, n_tasks=4, device=CPU)


@pytest.mark.parametrize("task", [[0, 1], None, True, "a", 1.0])
def test_task_of_another_type_is_an_error(task):
    """The message says what it is and what to use."""
    message = rf"`task` must be a tensor .* got {type(task).__name__}. Use `torch.as_tensor"
    with pytest.raises(TypeError, match=message):
        as_rows_by_task(task, n_rows=2, n_tasks=4, device=CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_task_without_whole_numbers_is_an_error(dtype):
    """The message has the dtype."""
    message = f"`task` must hold whole numbers: expected torch.int64, got {dtype}"
    with pytest.raises(TypeError, match=message):
        group_rows(torch.zeros(3, dtype=dtype), 4)


def test_task_with_more_axes_is_an_error():
    """One entry per row."""
    with pytest.raises(
        ValueError, match=r"one entry per row: expected one axis, got shape \(3, 1\)"
    ):
        group_rows(torch.zeros(3, 1, dtype=torch.int64), 4)


def test_task_of_another_length_is_an_error():
    """The message has both lengths."""
    with pytest.raises(
        ValueError, match="`task` must have one entry per row of `x`: expected 5, got 3"
    ):
        as_rows_by_task(torch.zeros(3, dtype=torch.int64), n_rows=5, n_tasks=4, device=CPU)


def test_rows_grouped_for_another_number_of_tasks_are_an_error():
    """The message has both numbers."""
    rows = group_rows(torch.zeros(3, dtype=torch.int64), 2)
    with pytest.raises(ValueError, match="as many tasks as the layer has: expected 4, got 2"):
        as_rows_by_task(rows, n_rows=3, n_tasks=4, device=CPU)
