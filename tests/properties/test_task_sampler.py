"""Samplers over random sizes of tasks: shares, passes, and going on from any state."""

from itertools import islice

import torch
from hypothesis import given
from hypothesis import strategies as st

from multirel.training import TaskSampler
from tests.properties.strategies import seeds

POLICIES = st.sampled_from(["proportional", "equal", "square-root", "per-task"])

SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any)


def tasks(sizes: list[int]) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


@given(SIZES, POLICIES, st.integers(1, 40), seeds(), st.integers(0, 20))
def test_a_batch_depends_on_the_state_alone(sizes, policy, batch_size, seed, n_before):
    """Another sampler that takes over the state draws what the first one would have."""
    one, other = (
        TaskSampler(tasks(sizes), batch_size=batch_size, policy=policy, seed=seed) for _ in range(2)
    )
    for _ in islice(one, n_before):
        pass
    other.load_state_dict(one.state_dict())
    assert all(map(torch.equal, islice(one, 15), islice(other, 15)))


@given(SIZES, POLICIES, st.integers(1, 40), seeds())
def test_rows_come_in_passes(sizes, policy, batch_size, seed):
    """At any time no row of a task has come twice more often than another of that task."""
    task = tasks(sizes)
    sampler = TaskSampler(task, batch_size=batch_size, policy=policy, seed=seed)
    counts = torch.zeros(len(task), dtype=torch.int64)
    for batch in islice(sampler, 25):
        assert 1 <= len(batch) <= sampler.rows_per_step
        counts += torch.bincount(batch, minlength=len(task))
        for index in set(task.tolist()):
            here = counts[task == index]
            assert int(here.max() - here.min()) <= 1


@given(SIZES, st.integers(1, 40), seeds())
def test_shares_are_within_a_row_of_what_they_should_be(sizes, batch_size, seed):
    """Every batch, and not only on average."""
    task = tasks(sizes)
    present = torch.tensor(sizes) > 0
    for policy, power in (("equal", 0.0), ("square-root", 0.5)):
        shares = present * torch.tensor(sizes).double() ** power
        expected = batch_size * shares / shares.sum()
        sampler = TaskSampler(task, batch_size=batch_size, policy=policy, seed=seed)
        for batch in islice(sampler, 10):
            counts = torch.bincount(task[batch], minlength=len(sizes))
            assert len(batch) == batch_size
            assert float((counts - expected).abs().max()) < 1 + 1e-9


@given(SIZES, st.integers(1, 40), seeds())
def test_an_epoch_in_proportion_holds_every_row_once(sizes, batch_size, seed):
    """Whatever the last batch is short of."""
    sampler = TaskSampler(tasks(sizes), batch_size=batch_size, seed=seed)
    for _ in range(2):
        epoch = torch.cat(list(islice(sampler, sampler.steps_per_epoch)))
        assert epoch.sort().values.tolist() == list(range(sum(sizes)))
