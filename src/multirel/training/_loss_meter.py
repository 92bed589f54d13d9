"""The losses of the steps, which are looked at without making a GPU wait for every one."""

from math import isfinite
from typing import final

import torch
from torch import Tensor

from multirel.exceptions import NotFiniteError
from multirel.training._checkpoints import Checkpoint
from multirel.training._history import History

__all__ = ["LossMeter", "explain_not_finite"]

STEPS_BETWEEN_LOOKS = 50
"""Steps between two looks at the losses on a device that runs ahead of the CPU."""


@final
class LossMeter:
    """Takes the loss of every step to the history, and stops training when one is not finite.

    On the CPU that happens before the step changes any weight, elsewhere at most some steps later.

    Args:
        history: Where losses go.
        device: Device of the losses.
        checkpoint: The checkpoint that the error names, if it exists.
    """

    def __init__(
        self, history: History, device: torch.device, *, checkpoint: Checkpoint | None
    ) -> None:
        self._history = history
        self._checkpoint = checkpoint
        self._interval = 1 if device.type == "cpu" else STEPS_BETWEEN_LOOKS
        self._waiting: list[Tensor] = []

    def add(self, loss: Tensor) -> None:
        """Take the loss of the next step."""
        self._waiting.append(loss.detach())
        if len(self._waiting) >= self._interval:
            self.look()

    def look(self) -> None:
        """Put all losses into the history.

        Raises:
            NotFiniteError: If one of them is NaN or infinite.
        """
        losses = torch.stack(self._waiting).tolist() if self._waiting else []
        self._waiting = []
        for loss in losses:
            if not isfinite(loss):
                step = self._history.n_steps + 1
                raise NotFiniteError(
                    explain_not_finite(
                        "loss",
                        f"{loss} at step {step}",
                        rate=self._history.learning_rate[step - 1],
                        checkpoint=self._checkpoint,
                    )
                )
            self._history.loss.append(loss)


def explain_not_finite(what: str, got: str, *, rate: float, checkpoint: Checkpoint | None) -> str:
    """The sentence that says what is not finite, what to do, and what is still there."""
    kept = ""
    if checkpoint is not None and checkpoint.exists:
        kept = f" The last checkpoint is whole: {checkpoint.path}."
    return (
        f"`{what}` must stay finite: expected a number, got {got}. Use a lower learning rate than "
        f"{rate:g}, or `clip_norm`; and see that all inputs are finite and every label is one of its "
        f"task.{kept}"
    )
