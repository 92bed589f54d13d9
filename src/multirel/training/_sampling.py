"""Which rows a step of training sees: sampling policies for tasks of very different sizes.

Every batch is a function of the seed and of how many rows have been drawn, so that training resumes in the
middle of an epoch, and that several processes agree on a batch without talking.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal, final, get_args

import numpy as np
import torch
from torch import Tensor

from multirel._annotations import Int

__all__ = ["Policy", "TaskSampler"]

Policy = Literal["proportional", "equal", "square-root", "per-task"]

STREAM_OF_ROWS = 0
STREAM_OF_TASKS = 1
"""The random numbers that shuffle rows, and those that share a batch between tasks, are apart."""


class _Shares(ABC):
    """How many rows of a batch each group of rows gives."""

    def __init__(self, sizes: np.ndarray, batch_size: int) -> None:
        self.sizes = sizes
        self.batch_size = batch_size

    @property
    def rows_per_step(self) -> int:
        """Rows of a whole batch."""
        return self.batch_size

    @abstractmethod
    def counts(self, drawn: np.ndarray, entropy: tuple[int, ...]) -> np.ndarray:
        """Rows per group of the next batch, where `drawn` have been drawn before; chance by `entropy`."""


@final
class _WholePass(_Shares):
    """All rows are one group, and no batch crosses the end of a pass."""

    def counts(self, drawn: np.ndarray, entropy: tuple[int, ...]) -> np.ndarray:
        left_in_pass: np.ndarray = self.sizes - drawn % self.sizes
        return left_in_pass.clip(max=self.batch_size)


@final
class _SameFromEach(_Shares):
    """A batch from every group."""

    @property
    def rows_per_step(self) -> int:
        return self.batch_size * len(self.sizes)

    def counts(self, drawn: np.ndarray, entropy: tuple[int, ...]) -> np.ndarray:
        return np.full(len(self.sizes), self.batch_size)


@final
class _BySize(_Shares):
    """Rows per group in proportion to its size to a power, rounded up or down by chance."""

    def __init__(self, sizes: np.ndarray, batch_size: int, *, power: float) -> None:
        super().__init__(sizes, batch_size)
        self._shares = sizes**power / np.sum(sizes**power)

    def counts(self, drawn: np.ndarray, entropy: tuple[int, ...]) -> np.ndarray:
        # Systematic sampling: a comb of equally spaced points on the shares laid end to end in random
        # order. Every group gets its share on average, and never differs from it by a whole row.
        rng = np.random.default_rng(entropy)
        order = rng.permutation(len(self.sizes))
        edges = np.cumsum(self._shares[order]) * self.batch_size
        edges[-1] = self.batch_size
        points_before = np.ceil(edges - rng.random()).astype(np.int64).clip(0, self.batch_size)
        counts = np.empty(len(self.sizes), dtype=np.int64)
        counts[order] = np.diff(points_before, prepend=0)
        return counts


@final
class TaskSampler:
    """An endless iterator over batches: the numbers of the rows of each step.

    | policy | a batch |
    |---|---|
    | "proportional" | the next `batch_size` rows of a shuffled pass over all rows |
    | "equal" | `batch_size` rows, as many from every task as from any other |
    | "square-root" | `batch_size` rows, from every task as the square root of its number of rows |
    | "per-task" | `batch_size` rows from every task, as in the paper |

    Each task's rows come in shuffled passes too, so that none comes again before all others have come. An
    epoch is as many batches as it takes to draw as many rows as there are. Tasks without rows are passed
    over.

    Attributes:
        policy: The policy.
        batch_size: Rows per batch, or per task and batch.
        rows_per_step: Rows of a whole batch.
        steps_per_epoch: Batches of an epoch.

    Args:
        task: The index of each row's task.
        batch_size: Rows per batch; with "per-task", per task and batch.
        policy: How a batch is shared between the tasks.
        seed: Seed of the order.

    Raises:
        ValueError: If there are no rows, `batch_size` is below 1, or there is no such policy.

    Example:
        >>> sampler = TaskSampler(torch.tensor([0] * 99 + [1]), batch_size=4, policy="per-task")
        >>> next(sampler)[4:].tolist()
        [99, 99, 99, 99]
        >>> print(sampler.describe())
        per-task: 4 rows from each of 2 tasks in every step, 13 steps per epoch of 100 rows, seed 0
    """

    def __init__(
        self,
        task: Int[Tensor, "n"],
        *,
        batch_size: int,
        policy: Policy = "proportional",
        seed: int = 0,
    ) -> None:
        if len(task) == 0:
            raise ValueError("`task` must have at least one row: got none. Training needs rows.")
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1: got {batch_size}.")
        if policy not in get_args(Policy):
            raise ValueError(
                f"`policy` must be a sampling policy: expected one of {', '.join(get_args(Policy))}, got "
                f"{policy!r}."
            )
        self.policy = policy
        self.batch_size = batch_size
        self.seed = seed
        numbers = task.cpu().numpy()
        self._n_tasks = len(np.unique(numbers))
        self._groups = [np.arange(len(task))] if policy == "proportional" else _rows_of(numbers)
        self._n_rows = len(task)
        sizes = np.array([len(group) for group in self._groups])
        self._shares = _shares_of(policy, sizes, batch_size)
        self._passes: dict[int, _Pass] = {}
        self._n_steps = 0
        self._drawn = np.zeros(len(sizes), dtype=np.int64)

    @property
    def rows_per_step(self) -> int:
        """Rows of a whole batch."""
        return self._shares.rows_per_step

    @property
    def steps_per_epoch(self) -> int:
        """Batches that draw as many rows as there are."""
        return ceil(self._n_rows / self.rows_per_step)

    def __iter__(self) -> Iterator[Int[Tensor, "n"]]:
        return self

    def __next__(self) -> Int[Tensor, "n"]:
        counts = self._shares.counts(self._drawn, (self.seed, STREAM_OF_TASKS, self._n_steps))
        parts = [self._draw(group, int(counts[group])) for group in np.flatnonzero(counts).tolist()]
        self._n_steps += 1
        self._drawn += counts
        return torch.from_numpy(np.concatenate(parts))

    def _draw(self, group: int, count: int) -> np.ndarray:
        """The next `count` rows of a group, from as many passes as it takes."""
        size = len(self._groups[group])
        first = int(self._drawn[group])
        parts = []
        for number in range(first // size, ceil((first + count) / size)):
            start = max(first - number * size, 0)
            stop = min(first + count - number * size, size)
            parts.append(self._order_of(group, number)[start:stop])
        return np.concatenate(parts)

    def _order_of(self, group: int, number: int) -> np.ndarray:
        """The rows of a group in the order of its pass `number`; the latest is remembered."""
        known = self._passes.get(group)
        if known is None or known.number != number:
            rng = np.random.default_rng((self.seed, STREAM_OF_ROWS, group, number))
            known = _Pass(number=number, rows=rng.permutation(self._groups[group]))
            self._passes[group] = known
        return known.rows

    def describe(self) -> str:
        """The policy in a sentence, for the record."""
        tasks = "1 task" if self._n_tasks == 1 else f"{self._n_tasks} tasks"
        how = {
            "proportional": f"{self.batch_size} rows of a shuffled pass over all rows of {tasks}",
            "equal": f"{self.batch_size} rows, in equal shares from {tasks},",
            "square-root": f"{self.batch_size} rows from {tasks}, as the square roots of their sizes,",
            "per-task": f"{self.batch_size} rows from each of {tasks}",
        }
        return (
            f"{self.policy}: {how[self.policy]} in every step, {self.steps_per_epoch} steps per epoch of "
            f"{self._n_rows} rows, seed {self.seed}"
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Where the sampler is: batches and rows drawn so far."""
        return {
            "n_steps": torch.tensor(self._n_steps),
            "drawn": torch.from_numpy(self._drawn.copy()),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on where another sampler of the same rows, policy and seed was.

        Raises:
            ValueError: If the state belongs to other rows or another policy.
        """
        drawn = state["drawn"].numpy()
        if len(drawn) != len(self._drawn):
            raise ValueError(
                f"`state` must be that of a sampler of the same rows and policy: expected "
                f"{len(self._drawn)} groups of rows, got {len(drawn)}."
            )
        self._drawn = drawn.copy()
        self._n_steps = int(state["n_steps"])


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """A shuffled pass over the rows of a group."""

    number: int
    """Passes before it."""

    rows: np.ndarray
    """The rows in their order."""


def _rows_of(numbers: np.ndarray) -> list[np.ndarray]:
    """The rows of every task that has some."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    return np.split(order, starts)


def _shares_of(policy: Policy, sizes: np.ndarray, batch_size: int) -> _Shares:
    if policy == "proportional":
        return _WholePass(sizes, batch_size)
    if policy == "per-task":
        return _SameFromEach(sizes, batch_size)
    return _BySize(sizes, batch_size, power=0.0 if policy == "equal" else 0.5)
