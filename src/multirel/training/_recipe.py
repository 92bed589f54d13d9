"""How a network is trained, as a value: optimizer, rates, batches, precision and when to stop."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import cos, pi
from numbers import Real
from typing import Any, Literal, get_args

from multirel.training._sampling import Policy

__all__ = ["PRESETS", "Decay", "OptimizerName", "Precision", "Recipe", "Trained"]

OptimizerName = Literal["sgd", "adamw"]
Decay = Literal["inverse", "constant", "cosine"]
Precision = Literal["float32", "tf32", "bf16"]
Trained = Literal["heads", "fully-connected", "all"]

DEFAULT_EPOCHS = 50

INVERSE_SLOPE = 10.0
INVERSE_POWER = 0.75

_CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": get_args(OptimizerName),
    "decay": get_args(Decay),
    "sampling": get_args(Policy),
    "precision": get_args(Precision),
}

_AT_LEAST_ONE = ("max_epochs", "max_steps", "batch_size", "accumulate", "patience")

_BOUNDS: dict[str, tuple[float, float]] = {
    "learning_rate": (0.0, float("inf")),
    "momentum": (0.0, 1.0),
    "weight_decay": (0.0, float("inf")),
    "new_layer_multiplier": (0.0, float("inf")),
    "bias_multiplier": (0.0, float("inf")),
    "clip_norm": (0.0, float("inf")),
    "validation_fraction": (0.0, 1.0),
}
"""Numbers that lie between bounds; the lower one itself only where zero makes sense."""

_MAY_BE_ZERO = ("momentum", "weight_decay", "validation_fraction")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a network is trained; `Recipe.preset` has three that are ready.

    Raises:
        TypeError: If a number of something is no whole number.
        ValueError: If a setting is out of bounds, or two do not go together.

    Example:
        >>> recipe = Recipe.preset("paper", learning_rate=3e-4, seed=1)
        >>> recipe.sampling, recipe.rate_at(0.0), round(recipe.rate_at(1.0) / recipe.learning_rate, 3)
        ('per-task', 0.0003, 0.166)
    """

    optimizer: OptimizerName = "sgd"
    """ "sgd" or "adamw"."""

    learning_rate: float = 0.01
    """Rate η₀ at the start: of the layers that have been trained before, or of all where none has."""

    momentum: float = 0.9
    """Momentum of SGD, and the first decay rate β₁ of AdamW."""

    nesterov: bool = False
    """Whether SGD looks ahead along its momentum."""

    weight_decay: float = 0.0
    """Weight decay, except on biases, on normalization, and on weights under a prior, which replaces it."""

    new_layer_multiplier: float = 10.0
    """Rate of layers that start from random weights, where others have been trained before."""

    bias_multiplier: float = 2.0
    """Rate of biases over that of the weights of their layer."""

    decay: Decay = "inverse"
    """How rates fall with progress p from 0 to 1: "inverse" is (1 + 10 p)^−¾, "cosine" ends at 0."""

    max_epochs: int | None = None
    """Epochs to train; 50 if `max_steps` is not given either."""

    max_steps: int | None = None
    """Optimizer steps to train, in the place of epochs."""

    batch_size: int = 32
    """Rows per optimizer step; with sampling="per-task", rows per task and step."""

    sampling: Policy = "proportional"
    """How a batch is shared between tasks: "proportional", "equal", "square-root" or "per-task"."""

    accumulate: int = 1
    """Parts in which a batch is computed one after the other, to save memory; the step is the same, but for
    what batch normalization sees and dropout draws."""

    clip_norm: float | None = None
    """Largest norm of the gradient of all weights together; longer ones are shortened to it."""

    precision: Precision = "float32"
    """ "float32", "tf32" (matrix products on a GPU with 10 bits) or "bf16" (autocast)."""

    validation_fraction: float = 0.0
    """Share of each task's training rows that is held out, to see when to stop."""

    patience: int | None = None
    """Epochs without a better score on held-out rows before training stops and goes back to the best."""

    seed: int = 0
    """Seed of the order of rows, the rows held out, and all randomness of the network."""

    deterministic: bool = False
    """Whether only operations that give the same bits every time are used; they may be slower on a GPU."""

    trained: Trained | None = None
    """What must train, which is checked: only "heads", all but convolutions ("fully-connected"), or "all".
    None trains whatever the network has not frozen."""

    def __post_init__(self) -> None:
        _check_numbers(self)
        for name in _BOUNDS:
            # Numbers of other libraries are none that a record can hold.
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("nesterov", "deterministic"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"`{name}` must be True or False: got {getattr(self, name)!r}.")
        for name, choices in {**_CHOICES, "trained": (*get_args(Trained), None)}.items():
            if getattr(self, name) not in choices:
                expected = ", ".join(map(repr, choices))
                raise ValueError(
                    f"`{name}` must be one of {expected}: got {getattr(self, name)!r}."
                )
        if self.max_epochs is not None and self.max_steps is not None:
            raise ValueError(
                f"`max_epochs` must be None where `max_steps` is given: got {self.max_epochs} and "
                f"{self.max_steps}. Give one of them."
            )
        if self.nesterov and (self.optimizer != "sgd" or self.momentum == 0):
            raise ValueError(
                f"`nesterov` must be False without SGD's momentum: got optimizer={self.optimizer!r} and "
                f"momentum={self.momentum}."
            )

    @classmethod
    def preset(cls, name: str, **settings: Any) -> "Recipe":
        """The recipe with this name, with some settings replaced.

        | name | for |
        |---|---|
        | "frozen" | heads on cached features, or behind a frozen backbone |
        | "paper" | the paper: convolutions fixed, fully connected layers trained, a batch per task |
        | "full" | the same with all layers trained |

        Args:
            name: Name of the preset.
            settings: Fields that differ from it.

        Raises:
            ValueError: If there is no such preset.
        """
        if name not in PRESETS:
            known = ", ".join(map(repr, PRESETS))
            raise ValueError(f"`name` must be one of the presets {known}: got {name!r}.")
        merged = dict(PRESETS[name])
        if settings.get("max_steps") is not None:
            merged.pop("max_epochs", None)
        return cls(**{**merged, **settings})

    def rate_at(self, progress: float) -> float:
        """The learning rate at a progress from 0 to 1, before multipliers."""
        if self.decay == "inverse":
            return self.learning_rate * float((1 + INVERSE_SLOPE * progress) ** -INVERSE_POWER)
        if self.decay == "cosine":
            return self.learning_rate * (1 + cos(pi * progress)) / 2
        return self.learning_rate

    def count_steps(self, steps_per_epoch: int) -> int:
        """Optimizer steps of the whole training."""
        if self.max_steps is not None:
            return self.max_steps
        return (self.max_epochs or DEFAULT_EPOCHS) * steps_per_epoch

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, for a record."""
        return asdict(self)


_PAPER: Mapping[str, Any] = {
    "optimizer": "sgd",
    "learning_rate": 1e-3,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "new_layer_multiplier": 10.0,
    "bias_multiplier": 2.0,
    "decay": "inverse",
    "batch_size": 32,
    "sampling": "per-task",
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "frozen": {
        "learning_rate": 1e-2,
        "batch_size": 128,
        "max_epochs": 100,
        "trained": "heads",
    },
    "paper": {**_PAPER, "trained": "fully-connected"},
    "full": {**_PAPER, "trained": "all"},
}
"""Settings of each preset; everything else is the default."""


def _check_numbers(recipe: Recipe) -> None:
    for name in (*_AT_LEAST_ONE, "seed"):
        value = getattr(recipe, name)
        lowest = 0 if name == "seed" else 1
        if value is None and name in ("max_epochs", "max_steps", "patience"):
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"`{name}` must be a whole number: got {type(value).__name__}.")
        if value < lowest:
            raise ValueError(f"`{name}` must be at least {lowest}: got {value}.")
    for name, (low, high) in _BOUNDS.items():
        value = getattr(recipe, name)
        if value is None and name == "clip_norm":
            continue
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number:
            raise TypeError(f"`{name}` must be a number: got {type(value).__name__}.")
        is_inside = low < value < high or (value == low and name in _MAY_BE_ZERO)
        if not is_inside:
            start = "at least" if name in _MAY_BE_ZERO else "above"
            end = "" if high == float("inf") else f" and below {high:g}"
            finite = " and finite" if high == float("inf") else ""
            raise ValueError(f"`{name}` must be {start} {low:g}{end}{finite}: got {value}.")
