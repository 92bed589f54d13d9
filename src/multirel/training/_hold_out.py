"""Rows held out of training, to see when to stop."""

import numpy as np
import torch

from multirel.training._rows import Rows

__all__ = ["hold_out"]

STREAM = 2
"""Random numbers apart from those of the sampler, which has streams 0 and 1."""


def hold_out(rows: Rows, *, fraction: float, seed: int = 0) -> tuple[Rows, Rows]:
    """Rows to train on, and rows held out: the same fraction of every task, drawn at random.

    Every task keeps a row to train on, so a task with one row has none held out. Rows without a label are in
    neither.

    Args:
        rows: Rows to divide.
        fraction: Share of each task's rows that is held out.
        seed: Seed of the draw.

    Raises:
        ValueError: If `fraction` is not between 0 and 1, or so small that no row is held out.

    Example:
        >>> from multirel.training._rows import TrainingRows
        >>> rows = TrainingRows(torch.randn(12, 2), torch.zeros(12), torch.tensor([0] * 10 + [1, 2]))
        >>> [part.task_counts.tolist() for part in hold_out(rows, fraction=0.2)]
        [[8, 1, 1], [2, 0, 0]]
    """
    if not 0 < fraction < 1:
        raise ValueError(f"`fraction` must be above 0 and below 1: got {fraction}.")
    labelled = rows.without_missing()
    task = labelled.task.numpy()
    is_held_out = np.zeros(len(task), dtype=bool)
    for index in np.unique(task).tolist():
        here = np.flatnonzero(task == index)
        count = min(round(fraction * len(here)), len(here) - 1)
        rng = np.random.default_rng((seed, STREAM, index))
        is_held_out[rng.permutation(here)[:count]] = True
    if not is_held_out.any():
        sizes = labelled.task_counts.tolist()
        raise ValueError(
            f"`validation_fraction` must hold out a row of some task: got {fraction} of {max(sizes)} rows "
            f"at most. Raise it, or give rows of your own as `validation`."
        )
    kept, held = (torch.from_numpy(np.flatnonzero(part)) for part in (~is_held_out, is_held_out))
    return labelled.select(kept), labelled.select(held)
