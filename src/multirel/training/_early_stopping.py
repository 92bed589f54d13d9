"""When to stop, and the weights to go back to."""

from collections.abc import Mapping
from math import inf
from typing import final

import torch
from torch import Tensor

__all__ = ["EarlyStopping"]


@final
class EarlyStopping:
    """Keeps the state with the best score, and says when none has been better for some epochs.

    Args:
        patience: Epochs without a better score before it is over; None never ends and keeps nothing.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.best_score = -inf
        self.best_epoch = 0
        self.best_state: dict[str, Tensor] = {}
        self._epoch = 0

    @property
    def is_over(self) -> bool:
        """Whether the patience is used up."""
        return self.patience is not None and self._epoch - self.best_epoch >= self.patience

    def is_better(self, score: float) -> bool:
        """Count an epoch, and whether its state is the best so far, so that it must be given to `keep`."""
        self._epoch += 1
        if self.patience is None or not score > self.best_score:
            return False
        self.best_score = score
        self.best_epoch = self._epoch
        return True

    def keep(self, state: Mapping[str, Tensor]) -> None:
        """Keep a copy of the best state."""
        self.best_state = {name: value.detach().clone() for name, value in state.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Counts, and the best state so far, as named tensors."""
        counts = torch.tensor([self._epoch, self.best_epoch])
        score = torch.tensor(self.best_score, dtype=torch.float64)
        best = {f"best.{name}": value for name, value in self.best_state.items()}
        return {"counts": counts, "score": score, **best}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave."""
        self._epoch, self.best_epoch = (int(count) for count in state["counts"])
        self.best_score = float(state["score"])
        self.best_state = {
            name.removeprefix("best."): value
            for name, value in state.items()
            if name.startswith("best.")
        }
