"""Everything that one training holds, and how it becomes tensors and comes back."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from multirel.exceptions import NotFiniteError
from multirel.priors import Penalty
from multirel.training._callbacks import TrainingState
from multirel.training._checkpoints import Checkpoint
from multirel.training._early_stopping import EarlyStopping
from multirel.training._loss_meter import LossMeter, explain_not_finite
from multirel.training._losses import Losses
from multirel.training._optimizers import MULTIPLIER
from multirel.training._recipe import Recipe
from multirel.training._rows import Rows
from multirel.training._sampling import TaskSampler
from multirel.training._world import World

__all__ = ["Run"]


@dataclass(kw_only=True, eq=False)
class Run:
    """Everything that one training holds."""

    state: TrainingState
    """Network, optimizer, penalties and history, as callbacks see them."""

    network: nn.Module
    """What is called: the network, or what was wrapped around it."""

    rows: Rows
    """Rows that batches are drawn from."""

    validation: Rows | None
    """Rows held out."""

    recipe: Recipe
    """The recipe."""

    losses: Losses
    """The loss of every row."""

    sampler: TaskSampler
    """The rows of every step."""

    stopping: EarlyStopping
    """When to stop."""

    meter: LossMeter
    """Losses on their way to the history."""

    checkpoint: Checkpoint | None
    """Where to save."""

    world: World
    """The processes that train together."""

    device: torch.device
    """Device of the network."""

    seconds_in_epoch: float = 0.0
    """Time that the current epoch has taken."""

    is_finished: bool = False
    """Whether this is the state after the last step."""

    @property
    def is_over(self) -> bool:
        """Whether no further step is made."""
        state = self.state
        return (
            self.is_finished or state.stops or state.step >= state.n_steps or self.stopping.is_over
        )

    def save(self) -> None:
        """Write a checkpoint.

        Raises:
            NotFiniteError: If a weight is NaN or infinite; then the last checkpoint stays.
        """
        if self.checkpoint is None:
            return
        self.meter.look()
        tensors = {name: self.world.whole(value) for name, value in self._tensors()}
        prefix = "weights.network."
        self._check_finite(
            (name.removeprefix(prefix), value)
            for name, value in tensors.items()
            if name.startswith(prefix)
        )
        if self.world.rank == 0:
            progress = {
                "step": self.state.step,
                "seconds_in_epoch": self.seconds_in_epoch,
                "is_finished": self.is_finished,
            }
            self.checkpoint.save(tensors, identity=self._identity(), progress=progress)
        self.world.wait()

    def check_finite(self) -> None:
        """Look at the whole network; every process must call it.

        Raises:
            NotFiniteError: If a weight that trains is NaN or infinite, or anything else NaN.
        """
        state = self.state.network.state_dict()
        self._check_finite(
            (name, self.world.whole(value))
            for name, value in state.items()
            if isinstance(value, Tensor)
        )

    def align(self) -> None:
        """Let all processes start from what the first one has.

        Raises:
            ValueError: If they are not to train the same.
        """
        if self.world.size == 1:
            return
        has_checkpoint = self.checkpoint is not None and self.checkpoint.exists
        self.world.align(
            self.state.network,
            self.state.penalties,
            identity={**self._identity(), "checkpoint": has_checkpoint},
        )

    def resume(self) -> None:
        """Take over the checkpoint, if there is one.

        Raises:
            ValueError: If it is damaged, or of another training.
        """
        if self.checkpoint is None or not self.checkpoint.exists:
            return
        tensors, progress = self.checkpoint.load(identity=self._identity())
        self.load_weights(_below(tensors, "weights."))
        self._load_optimizer(_below(tensors, "optimizer."))
        self.sampler.load_state_dict(_below(tensors, "sampler."))
        self.state.history.load_state_dict(_below(tensors, "history."))
        self.stopping.load_state_dict(_below(tensors, "stopping."))
        self.state.step = progress["step"]
        self.seconds_in_epoch = progress["seconds_in_epoch"]
        self.is_finished = progress["is_finished"]

    def weights(self, *, trained_only: bool = False) -> dict[str, Tensor]:
        """The state of network and penalties by name; without what is frozen if so asked."""
        network = self.state.network
        frozen = {n for n, p in network.named_parameters() if trained_only and not p.requires_grad}
        found = {
            f"network.{name}": value
            for name, value in network.state_dict().items()
            if name not in frozen
        }
        for index, penalty in enumerate(self.state.penalties):
            for name, value in _state_of(penalty).items():
                found[f"penalty.{index}.{name}"] = value
        for name, value in found.items():
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"`network` must keep its state in tensors, to be saved: got a "
                    f"{type(value).__name__} for {name}. Register it as a buffer."
                )
        return found

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take over what `weights` gave."""
        for name, value in self.state.network.state_dict().items():
            if f"network.{name}" in weights:
                value.copy_(self.world.part(weights[f"network.{name}"], value))
        for index, penalty in enumerate(self.state.penalties):
            if mine := _below(weights, f"penalty.{index}."):
                penalty.load_state_dict(mine)  # type: ignore[attr-defined]

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        parts: dict[str, Mapping[str, Tensor]] = {
            "weights": self.weights(),
            "optimizer": self._optimizer_tensors(),
            "sampler": self.sampler.state_dict(),
            "history": self.state.history.state_dict(),
            "stopping": self.stopping.state_dict(),
        }
        for part, tensors in parts.items():
            for name, value in tensors.items():
                yield f"{part}.{name}", value

    def _optimizer_tensors(self) -> dict[str, Tensor]:
        return {
            f"{index}.{name}": torch.as_tensor(value)
            for index, state in self.state.optimizer.state_dict()["state"].items()
            for name, value in state.items()
            if value is not None
        }

    def _load_optimizer(self, tensors: Mapping[str, Tensor]) -> None:
        optimizer = self.state.optimizer
        groups = optimizer.state_dict()["param_groups"]
        parameters = [
            parameter for group in optimizer.param_groups for parameter in group["params"]
        ]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            index, name = key.split(".", 1)
            parameter = parameters[int(index)]
            is_like = value.shape == parameter.shape
            mine = self.world.part(value, parameter) if is_like else value
            state.setdefault(int(index), {})[name] = mine
        optimizer.load_state_dict({"state": state, "param_groups": groups})

    def _check_finite(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Raise unless what trains is finite, and nothing else NaN: a buffer of infinity may mask outputs."""
        named = self.state.network.named_parameters(remove_duplicate=False)
        trained = {name for name, parameter in named if parameter.requires_grad}
        for name, value in tensors:
            if not value.is_floating_point():
                continue
            is_fine = value.isfinite() if name in trained else ~value.isnan()
            if not bool(is_fine.all()):
                raise NotFiniteError(
                    explain_not_finite(
                        name,
                        f"NaN or infinity after step {self.state.step}",
                        rate=self.state.history.learning_rate[-1],
                        checkpoint=self.checkpoint,
                    )
                )

    def _identity(self) -> dict[str, Any]:
        """What must be the same for training to go on."""
        network = self.state.network
        return {
            "recipe": self.recipe.to_dict(),
            "network": {
                name: f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
                for name, value in network.state_dict().items()
            },
            "trained": [n for n, p in network.named_parameters() if p.requires_grad],
            "rate_multipliers": self._rate_multipliers(),
            "rows": _identity_of(self.rows),
            "validation": None if self.validation is None else _identity_of(self.validation),
            "losses": self.losses.describe(),
            "penalties": [_describe(penalty) for penalty in self.state.penalties],
            "processes": self.world.size,
        }

    def _rate_multipliers(self) -> dict[str, float]:
        """The rate of every parameter over that of the recipe, by which the optimizer groups them."""
        multipliers = {
            id(parameter): group[MULTIPLIER]
            for group in self.state.optimizer.param_groups
            for parameter in group["params"]
        }
        return {
            name: multipliers[id(parameter)]
            for name, parameter in self.state.network.named_parameters()
            if id(parameter) in multipliers
        }


def _state_of(penalty: Penalty) -> Mapping[str, Tensor]:
    """The state of a penalty; one that learns nothing need not have any."""
    state_dict = getattr(penalty, "state_dict", None)
    return {} if state_dict is None else state_dict()


def _describe(penalty: Penalty) -> str:
    """The kind of a penalty and its settings, if they are a value that can be compared."""
    settings = getattr(penalty, "settings", None)
    return f"{type(penalty).__name__} {settings if is_dataclass(settings) else ''}".strip()


def _identity_of(rows: Rows) -> dict[str, Any]:
    return {"n_rows": len(rows), "n_samples": rows.n_samples, "checksum": rows.checksum()}


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
