"""Sampling policies: who comes how often, passes, resuming, sentences."""

from itertools import islice

import numpy as np
import pytest
import torch

from multirel.training import TaskSampler

POLICIES = ["proportional", "equal", "square-root", "per-task"]

SIZES = (100, 1, 0, 25)


def tasks(sizes=SIZES) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def make_sampler(policy="proportional", *, sizes=SIZES, batch_size=8, seed=0) -> TaskSampler:
    return TaskSampler(tasks(sizes), batch_size=batch_size, policy=policy, seed=seed)


def draw(sampler: TaskSampler, n_steps: int) -> list[torch.Tensor]:
    return list(islice(sampler, n_steps))


def test_an_epoch_of_the_proportional_policy_is_a_shuffled_pass():
    sampler = make_sampler()
    for _ in range(2):
        epoch = torch.cat(draw(sampler, sampler.steps_per_epoch))
        assert epoch.sort().values.tolist() == list(range(126))
        assert epoch.tolist() != list(range(126))


def test_passes_differ():
    sampler = make_sampler()
    first, second = (torch.cat(draw(sampler, sampler.steps_per_epoch)) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("proportional", [100, 1, 0, 25]),
        ("equal", [1, 1, 0, 1]),
        ("square-root", [10, 1, 0, 5]),
        ("per-task", [1, 1, 0, 1]),
    ],
)
def test_tasks_come_as_often_as_the_policy_says(policy, expected):
    drawn = torch.cat(draw(make_sampler(policy), 2000))
    counts = torch.bincount(tasks()[drawn], minlength=4).double()
    np.testing.assert_allclose(
        counts / counts.sum(), np.array(expected) / np.sum(expected), atol=0.01
    )


def test_equal_shares_differ_by_one_row_at_most_in_every_batch():
    for batch in draw(make_sampler("equal"), 50):
        counts = torch.bincount(tasks()[batch], minlength=4)[[0, 1, 3]]
        assert len(batch) == 8
        assert int(counts.max() - counts.min()) <= 1


def test_every_pair_of_tasks_meets_in_equal_batches():
    sampler = make_sampler("equal", sizes=(5, 5, 5, 5), batch_size=2)
    pairs = {tuple(sorted(tasks((5, 5, 5, 5))[batch].tolist())) for batch in draw(sampler, 200)}
    assert pairs == {(a, b) for a in range(4) for b in range(a + 1, 4)}


def test_per_task_batches_hold_as_many_rows_of_every_task():
    for batch in draw(make_sampler("per-task"), 20):
        assert torch.bincount(tasks()[batch], minlength=4).tolist() == [8, 8, 0, 8]


@pytest.mark.parametrize("policy", ["equal", "square-root", "per-task"])
def test_no_row_comes_again_before_all_of_its_task_have_come(policy):
    drawn = torch.cat(draw(make_sampler(policy), 300))
    for task in (0, 3):
        rows = drawn[tasks()[drawn] == task]
        size = SIZES[task]
        for one_pass in rows[: len(rows) // size * size].reshape(-1, size):
            assert len(one_pass.unique()) == size


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_batches_and_another_others(policy):
    one, other, third = (draw(make_sampler(policy, seed=seed), 30) for seed in (1, 1, 2))
    assert all(map(torch.equal, one, other))
    assert not all(map(torch.equal, one, third))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n_before", [0, 7, 16, 40])
def test_a_sampler_goes_on_where_another_was(policy, n_before):
    sampler = make_sampler(policy)
    draw(sampler, n_before)
    other = make_sampler(policy)
    draw(other, 3)
    other.load_state_dict(sampler.state_dict())
    assert all(map(torch.equal, draw(sampler, 40), draw(other, 40)))


@pytest.mark.parametrize("policy", POLICIES)
def test_tasks_of_very_different_sizes_take_no_longer(policy):
    """One row beside a hundred thousand, in a batch larger than the small task."""
    sampler = TaskSampler(tasks((100_000, 1, 10)), batch_size=64, policy=policy)
    batches = draw(sampler, 20)
    assert all(int(batch.max()) < 100_011 for batch in batches)
    assert sampler.steps_per_epoch == (521 if policy == "per-task" else 1563)


def test_one_row_is_enough():
    for policy in POLICIES:
        sampler = make_sampler(policy, sizes=(1,), batch_size=4)
        assert sampler.steps_per_epoch == 1
        assert set(torch.cat(draw(sampler, 5)).tolist()) == {0}


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            "proportional",
            "proportional: 8 rows of a shuffled pass over all rows of 3 tasks in every",
        ),
        ("equal", "equal: 8 rows, in equal shares from 3 tasks, in every step, 16 steps per epoch"),
        ("square-root", "square-root: 8 rows from 3 tasks, as the square roots of their sizes, in"),
        (
            "per-task",
            "per-task: 8 rows from each of 3 tasks in every step, 6 steps per epoch of 126",
        ),
    ],
)
def test_every_policy_says_what_it_does(policy, words):
    assert make_sampler(policy).describe().startswith(words)


def test_the_sentence_knows_a_single_task():
    assert "of 1 task in" in make_sampler(sizes=(3,)).describe()


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="`batch_size` must be at least 1: got 0"):
        make_sampler(batch_size=0)
    with pytest.raises(
        ValueError, match="`policy` must be a sampling policy: expected one of prop"
    ):
        make_sampler("random")
    with pytest.raises(ValueError, match="`task` must have at least one row: got none"):
        make_sampler(sizes=(0,))


def test_the_state_of_other_rows_is_refused():
    state = make_sampler("equal").state_dict()
    with pytest.raises(ValueError, match="same rows and policy: expected 1 groups of rows, got 3"):
        make_sampler().load_state_dict(state)
