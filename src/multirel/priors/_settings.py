"""The settings of a prior, checked together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any, Literal, get_args

from torch import Tensor

from multirel.priors._covariance_step import (
    CovarianceStep,
    DeterminantStep,
    FreeStep,
    PseudoInverseStep,
    ReleasedCodeStep,
    ShrinkageTarget,
    TraceStep,
)
from multirel.priors._start import Start, check_start_type, is_matrix

__all__ = [
    "DEFAULT_START",
    "Application",
    "CovarianceUpdate",
    "PerCopy",
    "PriorSettings",
    "Shrinkage",
    "mode_names",
]

PerCopy = float | Tensor
"""One number, or one per copy of a stack that holds several."""

Shrinkage = float | Mapping[str, float] | Sequence[float] | None
MeanName = Literal["zero", "initial", "task-average"]
Scale = Literal["trace", "free", "determinant"]
CovarianceUpdate = Literal["logdet", "trace", "released-code"]
Inverse = Literal["ridge", "pseudo"]
Weighting = Literal["equal", "size"]
Application = Literal["proximal", "gradient"]

KNOWN_MODES = ("task", "output", "input", "kernel", "depth", "height", "width")
DEFAULT_START = 0.5
DEFAULT_SHRINKAGE = {"task": 0.1}
OTHER_SHRINKAGE = 0.95
DEFAULT_JITTER = 1e-6
AUTO_RANK = 64
LARGE_MODE = 512
LARGE_TASK_MODE = 1000
LARGE_STACK = 10**6
APPLY_LARGE_EVERY = 10


@dataclass(frozen=True, kw_only=True)
class PriorSettings:
    """What a tensor normal prior needs to know besides the weights; see `attach_prior`."""

    n_samples: PerCopy
    strength: PerCopy = 1.0
    modes: tuple[str, ...] = ("task", "output", "input")
    shrinkage: Shrinkage = None
    shrinkage_target: ShrinkageTarget = "identity"
    mean: MeanName = "zero"
    mean_strength: float = 0.0
    start: Start = DEFAULT_START
    n_updates: int | None = 1
    update_every: int = 100
    apply_every: int | Literal["auto"] = "auto"
    rank: int | Literal["auto"] | None = "auto"
    scale: Scale = "trace"
    covariance_update: CovarianceUpdate = "logdet"
    inverse: Inverse = "ridge"
    jitter: float = DEFAULT_JITTER
    weighting: Weighting = "equal"
    application: Application = "proximal"

    def __post_init__(self) -> None:
        _check_words(self)
        _check_modes(self.modes)
        _check_numbers(self)
        _check_schedule(self)
        _check_scale(self)
        _check_inverse(self)
        _check_released_code(self)
        self._check_shrinkage()
        self._check_start()

    def _check_shrinkage(self) -> None:
        given = self.shrinkage
        for weight in _each(given):
            _numbers("shrinkage", weight)
        if isinstance(given, Mapping):
            strangers = [mode for mode in given if mode not in self.modes]
            if strangers:
                raise ValueError(
                    f"`shrinkage` must name modes of the prior: got {', '.join(strangers)}, and "
                    f"`modes` has {', '.join(self.modes)}."
                )
        elif isinstance(given, Sequence) and len(given) != len(self.modes):
            raise ValueError(
                f"`shrinkage` must have one weight per mode: expected {len(self.modes)}, got "
                f"{len(given)}."
            )
        for mode in self.modes:
            if not 0 <= self.shrinkage_of(mode) <= 1:
                raise ValueError(
                    f"`shrinkage` must be from 0 to 1: got {self.shrinkage_of(mode)} for the mode "
                    f"{mode!r}."
                )

    def _check_start(self) -> None:
        check_start_type(self.start)
        is_given = is_matrix(self.start) or self.start not in (0, DEFAULT_START)
        if is_given and self.shrinkage_of("task") == 1:
            raise ValueError(
                f"`start` must be left alone where the task mode is off: got {self.start!r}. Name "
                f"'task' in `modes`, with a shrinkage below 1."
            )

    def shrinkage_of(self, mode: str) -> float:
        """The weight of the target in the covariance of a mode; 1 switches the mode off."""
        if mode not in self.modes:
            return 1.0
        if self.shrinkage is None:
            if self.scale == "free" or self.inverse == "pseudo" or self.is_released_code:
                return 0.0
            return DEFAULT_SHRINKAGE.get(mode, OTHER_SHRINKAGE)
        if isinstance(self.shrinkage, Mapping):
            return float(self.shrinkage.get(mode, DEFAULT_SHRINKAGE.get(mode, OTHER_SHRINKAGE)))
        if isinstance(self.shrinkage, Sequence):
            return float(self.shrinkage[self.modes.index(mode)])
        return float(self.shrinkage)

    @property
    def is_released_code(self) -> bool:
        """Whether the covariances follow the rule of the authors' released code."""
        return self.covariance_update == "released-code"

    def rank_of(self, mode: str, size: int) -> int | None:
        """How many eigenvalues of a mode are kept apart; None means all."""
        if self.rank is None:
            return None
        if self.rank == "auto":
            full = (
                self.scale == "determinant"
                or self.inverse == "pseudo"
                or self.covariance_update != "logdet"
                or mode not in ("task", "output", "input")
            )
            limit = LARGE_TASK_MODE if mode == "task" else LARGE_MODE
            return None if full or size <= limit else AUTO_RANK
        return self.rank if self.rank < size else None

    def apply_every_of(self, n_weights: int) -> int:
        """Optimizer steps between two applications to a stack."""
        if self.apply_every == "auto":
            return 1 if n_weights <= LARGE_STACK else APPLY_LARGE_EVERY
        return self.apply_every

    def step_of(self, mode: str, size: int, n_weights: int) -> CovarianceStep:
        """The covariance step of a mode."""
        shrinkage, rank = self.shrinkage_of(mode), self.rank_of(mode, size)
        if self.is_released_code:
            return ReleasedCodeStep(n_columns=n_weights // size)
        if self.inverse == "pseudo":
            return PseudoInverseStep(normalize=self.scale == "trace")
        if self.scale == "free":
            return FreeStep(jitter=self.jitter, rank=rank)
        if self.scale == "determinant":
            return DeterminantStep(shrinkage=shrinkage, jitter=self.jitter)
        return TraceStep(
            shrinkage=shrinkage,
            target=self.shrinkage_target,
            jitter=self.jitter,
            rank=rank,
            root=self.covariance_update == "trace",
        )


def mode_names(modes: Sequence[str]) -> tuple[str, ...]:
    """The names as a tuple; a single name is an error, since it is a sequence of letters."""
    if isinstance(modes, str):
        raise TypeError(f"`modes` must be a sequence of names: got {modes!r}. Write ({modes!r},).")
    if not isinstance(modes, Iterable):
        raise TypeError(f"`modes` must be a sequence of names: got {modes!r}. Write ('task',).")
    return tuple(modes)


def _check_words(settings: PriorSettings) -> None:
    known = {
        "shrinkage_target": get_args(ShrinkageTarget),
        "mean": get_args(MeanName),
        "scale": get_args(Scale),
        "covariance_update": get_args(CovarianceUpdate),
        "inverse": get_args(Inverse),
        "weighting": get_args(Weighting),
        "application": get_args(Application),
    }
    for name, words in known.items():
        value = getattr(settings, name)
        if value not in words:
            raise ValueError(
                f"`{name}` must be one of {', '.join(map(repr, words))}: got {value!r}."
            )


def _check_modes(modes: Sequence[str]) -> None:
    if not modes:
        raise ValueError("`modes` must name at least one mode: got none.")
    for mode in modes:
        if mode not in KNOWN_MODES:
            raise ValueError(f"`modes` must be among {', '.join(KNOWN_MODES)}: got {mode!r}.")
    if len(set(modes)) < len(modes):
        raise ValueError(f"`modes` must name each mode once: got {', '.join(modes)}.")
    if "kernel" in modes and any(mode in modes for mode in ("depth", "height", "width")):
        raise ValueError(
            "`modes` must have either 'kernel' or the axes of the kernel: got both. 'kernel' merges "
            "them into one."
        )


def _each(shrinkage: Any) -> Iterable[Any]:
    """Every weight that was given."""
    if isinstance(shrinkage, Mapping):
        return shrinkage.values()
    if isinstance(shrinkage, Sequence) and not isinstance(shrinkage, str):
        return shrinkage
    return () if shrinkage is None else (shrinkage,)


def _numbers(name: str, value: Any) -> list[float]:
    """The numbers that a setting holds: one, or in a tensor one per copy."""
    if isinstance(value, Tensor):
        return [float(v) for v in value.flatten()]
    if not isinstance(value, Real):
        several = " A tensor holds one per copy." if name in ("n_samples", "strength") else ""
        raise TypeError(f"`{name}` must be a number: got {value!r}.{several}")
    return [float(value)]


def _check_numbers(settings: PriorSettings) -> None:
    for n_samples in _numbers("n_samples", settings.n_samples):
        if not (n_samples > 0 and isfinite(n_samples)):
            raise ValueError(
                f"`n_samples` must be the number of training rows: expected more than 0, got "
                f"{n_samples}."
            )
    for name in ("strength", "jitter", "mean_strength"):
        for value in _numbers(name, getattr(settings, name)):
            if not (value >= 0 and isfinite(value)):
                raise ValueError(f"`{name}` must be a number that is not negative: got {value}.")
    if settings.mean_strength > 0 and settings.mean != "task-average":
        raise ValueError(
            f"`mean_strength` must be 0 with mean={settings.mean!r}: got {settings.mean_strength}. It "
            f"penalizes the average over the tasks, which mean='task-average' takes off."
        )
    rank = settings.rank
    if not (rank in (None, "auto") or _is_whole(rank)):
        raise ValueError(f"`rank` must be 'auto', a whole number or None: got {rank!r}.")
    if isinstance(rank, int) and rank < 1:
        raise ValueError(f"`rank` must be at least 1: got {rank}. None means full rank.")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_schedule(settings: PriorSettings) -> None:
    n_updates, update_every = settings.n_updates, settings.update_every
    if not (n_updates is None or (_is_whole(n_updates) and n_updates >= 0)):
        raise ValueError(
            f"`n_updates` must be a whole number that is not negative: got {n_updates}. None means "
            f"no end."
        )
    if not (_is_whole(update_every) and update_every >= 1):
        raise ValueError(f"`update_every` must be a whole number from 1: got {update_every}.")
    every = settings.apply_every
    if every != "auto" and not (_is_whole(every) and every >= 1):
        raise ValueError(f"`apply_every` must be 'auto' or a whole number from 1: got {every!r}.")
    if every != "auto" and settings.application == "gradient":
        raise ValueError(
            "`apply_every` must be 'auto' with application='gradient': the prior is then part of "
            "every gradient, and nothing is applied."
        )


def _check_scale(settings: PriorSettings) -> None:
    if settings.scale == "free":
        if settings.shrinkage is not None:
            raise ValueError(
                "`shrinkage` must be None with scale='free', the paper's literal form: got "
                f"{settings.shrinkage}. Use scale='trace'."
            )
        if settings.jitter == 0 and settings.inverse == "ridge":
            raise ValueError("`jitter` must be above 0 with scale='free': it is the paper's ε.")
    if settings.scale != "trace":
        if settings.covariance_update == "trace":
            raise ValueError(
                f"`covariance_update='trace'` needs scale='trace': got scale={settings.scale!r}."
            )
        if settings.shrinkage_target != "identity":
            raise ValueError(
                f"`shrinkage_target` must be 'identity' with scale={settings.scale!r}: got "
                f"{settings.shrinkage_target!r}."
            )
    is_full_only = settings.scale == "determinant" or settings.covariance_update != "logdet"
    if is_full_only and isinstance(settings.rank, int):
        raise ValueError(
            f"`rank` must be 'auto' or None with scale={settings.scale!r} and "
            f"covariance_update={settings.covariance_update!r}, which need all eigenvalues: got "
            f"{settings.rank}."
        )


def _check_inverse(settings: PriorSettings) -> None:
    if settings.inverse == "ridge":
        return
    clashes = {
        "shrinkage": settings.shrinkage is not None,
        "shrinkage_target": settings.shrinkage_target != "identity",
        "scale": settings.scale == "determinant",
        "covariance_update": settings.covariance_update != "logdet",
        "rank": isinstance(settings.rank, int),
        "jitter": settings.jitter not in (0, DEFAULT_JITTER),
    }
    for name, clash in clashes.items():
        if clash:
            raise ValueError(
                f"`{name}` must be left alone with inverse='pseudo': got "
                f"{getattr(settings, name)!r}. The pseudo-inverse is of the bare scatter."
            )


def _check_released_code(settings: PriorSettings) -> None:
    if not settings.is_released_code:
        return
    clashes = {
        "modes": settings.modes != ("task",),
        "shrinkage": settings.shrinkage is not None,
        "shrinkage_target": settings.shrinkage_target != "identity",
        "scale": settings.scale != "trace",
        "jitter": settings.jitter != DEFAULT_JITTER,
    }
    for name, clash in clashes.items():
        if clash:
            raise ValueError(
                f"`{name}` must be left alone with the preset 'released-code': got "
                f"{getattr(settings, name)!r}. Its rule for the task covariance knows no other."
            )
