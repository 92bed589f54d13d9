"""What happened in training, step by step and epoch by epoch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["History"]

PER_STEP = ("loss", "learning_rate")
PER_EPOCH = ("epoch_end", "penalty", "validation_score", "seconds")


@final
@dataclass(kw_only=True)
class History:
    """What happened in training. Histories are equal if all but `seconds` is."""

    recipe: Mapping[str, Any]
    """The recipe, by name of setting."""

    sampling: str
    """How rows were drawn, in a sentence."""

    n_samples: float
    """Sum of the weights of the training rows, without those held out."""

    steps_per_epoch: int
    """Optimizer steps of an epoch."""

    loss: list[float] = field(default_factory=list)
    """Average loss of the batch of every step, before that step changes the weights."""

    learning_rate: list[float] = field(default_factory=list)
    """Rate of every step, before multipliers."""

    epoch_end: list[int] = field(default_factory=list)
    """Steps made at the end of every epoch; the last epoch may be short."""

    penalty: list[float] = field(default_factory=list)
    """Sum of the penalties at the end of every epoch."""

    validation_score: list[float] = field(default_factory=list)
    """Minus the average loss of the rows held out, at the end of every epoch; empty without them."""

    seconds: list[float] = field(default_factory=list, compare=False)
    """Wall time of every epoch. It differs from run to run, and counts for no comparison."""

    best_epoch: int | None = None
    """The epoch, counted from 1, whose weights were kept; None if the last were, without early stopping."""

    @property
    def n_steps(self) -> int:
        """Optimizer steps made."""
        return len(self.loss)

    @property
    def n_epochs(self) -> int:
        """Epochs made, the last of which may be short."""
        return len(self.epoch_end)

    @property
    def epoch_loss(self) -> list[float]:
        """The average of the losses of the steps of every epoch."""
        starts = [0, *self.epoch_end[:-1]]
        return [
            sum(self.loss[start:end]) / (end - start)
            for start, end in zip(starts, self.epoch_end, strict=True)
        ]

    def to_arrays(self) -> dict[str, "NDArray[np.float64]"]:
        """The numbers by name: `loss` and `learning_rate` per step, the others per epoch."""
        arrays = {name: np.array(getattr(self, name), dtype=float) for name in PER_STEP + PER_EPOCH}
        arrays["epoch_loss"] = np.array(self.epoch_loss, dtype=float)
        return arrays

    def state_dict(self) -> dict[str, Tensor]:
        """What has happened so far as named tensors."""
        return {
            name: torch.tensor(getattr(self, name), dtype=torch.float64)
            for name in PER_STEP + PER_EPOCH
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave."""
        for name in PER_STEP + PER_EPOCH:
            setattr(self, name, state[name].tolist())
        self.epoch_end = [int(step) for step in self.epoch_end]
