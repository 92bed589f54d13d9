"""What others can hang into the loop."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from multirel.priors import Penalty
from multirel.training._history import History

__all__ = ["Callback", "TrainingState", "check_callbacks"]


@dataclass(kw_only=True, eq=False)
class TrainingState:
    """Where training is, as callbacks see it."""

    network: nn.Module
    """The network."""

    optimizer: torch.optim.Optimizer
    """The optimizer."""

    penalties: Sequence[Penalty]
    """The penalties."""

    history: History
    """What has happened so far. On a GPU the losses of the last steps may be missing until an epoch ends."""

    n_steps: int
    """Steps of the whole training, unless it stops early."""

    step: int = 0
    """Steps made."""

    stops: bool = False
    """Set to True, it ends training after this step, with all that belongs to an end."""

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 1."""
        return max(self.step - 1, 0) // self.history.steps_per_epoch + 1


class Callback(ABC):  # noqa: B024
    """Something that training calls; every method does nothing unless a subclass says so.

    Example:
        >>> class StopAfter(Callback):
        ...     def on_epoch_end(self, state):
        ...         state.stops = state.history.epoch_loss[-1] < 0.1
    """

    def on_train_start(self, state: TrainingState) -> None:  # noqa: B027
        """Called before the first step, or the first after resuming."""

    def on_step_end(self, state: TrainingState) -> None:  # noqa: B027
        """Called after every optimizer step, when the penalties have acted."""

    def on_epoch_end(self, state: TrainingState) -> None:  # noqa: B027
        """Called after every epoch, when its score is known."""

    def on_train_end(self, state: TrainingState) -> None:  # noqa: B027
        """Called after the last step, when the best weights are back in place."""


def check_callbacks(callbacks: Any) -> None:
    """Raise a TypeError unless these are callbacks."""
    if isinstance(callbacks, Callback):
        raise TypeError(
            f"`callbacks` must be a sequence: got one {type(callbacks).__name__}. Write callbacks=[…]."
        )
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise TypeError(
                f"`callbacks` must be callbacks: got {type(callback).__name__}. Make a subclass of "
                f"`multirel.training.Callback`."
            )
