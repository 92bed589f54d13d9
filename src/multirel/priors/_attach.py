"""Attach a prior to layers of any network."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Literal

from torch import Tensor, nn

from multirel.priors._covariance_step import ShrinkageTarget
from multirel.priors._find_stacks import find_stacks
from multirel.priors._settings import DEFAULT_START, PerCopy, PriorSettings, Shrinkage, mode_names
from multirel.priors._stack import Stack
from multirel.priors._start import Start, is_matrix
from multirel.priors._task_relationship import TaskRelationship
from multirel.priors._tensor_normal_prior import TensorNormalPrior

__all__ = ["attach_prior"]

UPDATES = ("logdet", "trace")
"""Covariance updates to choose from; presets have one more."""


def attach_prior(
    network: nn.Module,
    layers: str | Sequence[str],
    *,
    n_samples: PerCopy,
    strength: PerCopy = 1.0,
    modes: Sequence[str] = ("task", "output", "input"),
    shrinkage: Shrinkage = None,
    shrinkage_target: ShrinkageTarget = "identity",
    mean: Literal["zero", "initial", "task-average"] = "zero",
    mean_strength: float = 0.0,
    start: Start = DEFAULT_START,
    n_updates: int | None = 1,
    update_every: int = 100,
    apply_every: int | Literal["auto"] = "auto",
    rank: int | Literal["auto"] | None = "auto",
    scale: Literal["trace", "free", "determinant"] = "trace",
    covariance_update: Literal["logdet", "trace"] = "logdet",
    inverse: Literal["ridge", "pseudo"] = "ridge",
    jitter: float = 1e-6,
    share_task_covariance: bool | TaskRelationship = False,
    weighting: Literal["equal", "size"] = "equal",
    application: Literal["proximal", "gradient"] = "proximal",
) -> TensorNormalPrior:
    """A tensor normal prior on layers of `network`, whose weights it shrinks and whose relations it learns.

    Args:
        network: Any network.
        layers: Names of layers. One `*` stands for the task in "heads.*.fc8"; a name without one is a layer
            that keeps its tasks in one tensor, such as `TaskLinear`.
        n_samples: Number of training rows N (or the sum of their weights): the prior counts λ/N.
        strength: The multiplier λ. Layers that hold copies (`TaskLinearCopies`) take one number per copy
            here and for `n_samples`.
        modes: Modes whose covariance is learned: "task", "output", "input", and for convolutions
            "kernel", or "height" and "width". The others are the identity.
        shrinkage: Weight of the target in each covariance, from 0 to 1: one number, one per mode, or a
            mapping from mode to number. None means .1 for tasks and .95 for other modes; 1 switches a
            mode off.
        shrinkage_target: "identity" or "constant-correlation".
        mean: What weights are pulled to: "zero", "initial" (their values now) or "task-average".
        mean_strength: Weight of the average itself with mean="task-average".
        start: Task correlation to begin with: one number, or a T × T matrix.
        n_updates: Number of covariance updates, after which they are held; None means no end.
        update_every: Optimizer steps between two updates.
        apply_every: Optimizer steps between two applications; "auto" means 1, and 10 for stacks of more than
            a million weights.
        rank: Eigenvalues that are kept apart, beside a multiple of the identity; None means all, "auto"
            64 for output and input modes above 512 and task modes above 1000.
        scale: "trace" (tr Σ = d), "determinant" (|Σ| = 1) or "free" (the paper's literal form).
        covariance_update: "logdet" (the paper's), or "trace" (MTRL's and MTFL's square root).
        inverse: "ridge", or "pseudo": directions off the span of the weights cost nothing.
        jitter: Added to the eigenvalues of a covariance, relative to their mean; the paper's ε with
            scale="free".
        share_task_covariance: Whether all layers share one task covariance, or a `TaskRelationship` that
            other priors share too.
        weighting: Weight of each layer in a shared task covariance, "equal" or "size".
        application: "proximal" (call `prior.step(optimizer)`), or "gradient" (add `prior()` to the loss).

    Raises:
        ValueError: If layers or settings do not fit, in a sentence that says which.
        TypeError: If `modes` is a single name.

    Example:
        >>> network = torch.nn.ModuleDict({name: torch.nn.Linear(4, 3) for name in ("art", "photo")})
        >>> prior = attach_prior(network, ["*"], n_samples=100)
        >>> prior.correlations("*").round(2)
        array([[1. , 0.5],
               [0.5, 1. ]])
    """
    if covariance_update not in UPDATES:
        known = ", ".join(map(repr, UPDATES))
        raise ValueError(f"`covariance_update` must be one of {known}: got {covariance_update!r}.")
    # The settings have the names of the arguments.
    given = {**locals(), "modes": mode_names(modes)}
    settings = PriorSettings(**{field.name: given[field.name] for field in fields(PriorSettings)})
    return prior_with_settings(network, layers, settings, share=share_task_covariance)


def prior_with_settings(
    network: nn.Module,
    layers: str | Sequence[str],
    settings: PriorSettings,
    *,
    share: bool | TaskRelationship,
) -> TensorNormalPrior:
    """The prior that settings describe, once they are known to fit the layers."""
    if not isinstance(share, bool | TaskRelationship):
        raise TypeError(
            f"`share_task_covariance` must be True, False or a TaskRelationship: got {share!r}."
        )
    stacks = find_stacks(network, layers, modes=settings.modes)
    _check_modes_exist(stacks, settings.modes)
    _check_copies(stacks, settings)
    if isinstance(share, TaskRelationship):
        settings = _settings_of(share, settings)
        _check_task_names(share, stacks)
        return TensorNormalPrior(stacks, settings, relationship=share)
    if not share:
        if settings.weighting != "equal":
            raise ValueError(
                "`weighting` must be 'equal' unless layers share a task covariance: got "
                f"{settings.weighting!r}. Set share_task_covariance=True."
            )
        return TensorNormalPrior(stacks, settings)
    _check_can_share(settings)
    relationship = TaskRelationship(
        stacks[0].tasks,
        start=settings.start,
        shrinkage=settings.shrinkage_of("task"),
        weighting=settings.weighting,
    )
    _check_task_names(relationship, stacks)
    return TensorNormalPrior(stacks, settings, relationship=relationship)


def _check_modes_exist(stacks: Sequence[Stack], modes: Sequence[str]) -> None:
    for mode in modes:
        if not any(mode in stack.modes for stack in stacks):
            known = ", ".join(dict.fromkeys(name for stack in stacks for name in stack.modes))
            raise ValueError(
                f"`modes` must be modes of the layers: got {mode!r}, they have {known}."
            )


def _check_copies(stacks: Sequence[Stack], settings: PriorSettings) -> None:
    """Raise unless all stacks hold as many copies as the settings speak of."""
    counts = {stack.layer: stack.n_copies for stack in stacks}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{layer} {count or 'none'}" for layer, count in counts.items())
        raise ValueError(f"`layers` must all hold the same number of copies: got {shown}.")
    n_copies = stacks[0].n_copies
    for name in ("strength", "n_samples"):
        value = getattr(settings, name)
        if isinstance(value, Tensor) and tuple(value.shape) not in ((), stacks[0].batch_shape):
            raise ValueError(
                f"`{name}` must be one number, or one per copy: expected {n_copies or 'one'}, got "
                f"shape {tuple(value.shape)}."
            )
    if n_copies is not None and settings.inverse == "pseudo":
        raise ValueError(
            "`inverse` must be 'ridge' for layers that hold copies: got 'pseudo', whose ranks may "
            "differ between the copies."
        )


def _check_task_names(relationship: TaskRelationship, stacks: Sequence[Stack]) -> None:
    """Raise if layers have the tasks in another order, or other tasks; numbers fit any names."""
    numbers = tuple(map(str, range(len(relationship.tasks))))
    for stack in stacks:
        known = (numbers, relationship.tasks)
        has_names = stack.tasks not in known and relationship.tasks != numbers
        if has_names and len(stack.tasks) == len(numbers):
            raise ValueError(
                f"`share_task_covariance` needs layers with the same tasks in one order: expected "
                f"{', '.join(relationship.tasks)} for {stack.layer!r}, got {', '.join(stack.tasks)}."
            )


def _check_can_share(settings: PriorSettings) -> None:
    if settings.is_released_code:
        raise ValueError(
            "`share_task_covariance` must be False with the preset 'released-code': got True. Its "
            "rule is for the scatter of one layer."
        )
    if settings.shrinkage_of("task") == 1:
        raise ValueError(
            "`share_task_covariance` must be False where the task mode is off: got `modes` "
            f"{', '.join(settings.modes)} and shrinkage {settings.shrinkage}."
        )
    if settings.scale == "free" and settings.weighting == "equal":
        raise ValueError(
            "`weighting` must be 'size' with scale='free' and a shared task covariance: got 'equal', "
            "which averages scatters without their scale."
        )


def _settings_of(relationship: TaskRelationship, settings: PriorSettings) -> PriorSettings:
    """The settings with the task mode as the shared relationship has it, or an error if they clash."""
    given = settings.shrinkage
    leaves_task = given is None or (isinstance(given, Mapping) and "task" not in given)
    clashes = {
        "shrinkage": not leaves_task and settings.shrinkage_of("task") != relationship.shrinkage,
        "weighting": settings.weighting not in ("equal", relationship.weighting),
        "start": is_matrix(settings.start) or settings.start != DEFAULT_START,
    }
    for name, clash in clashes.items():
        if clash:
            raise ValueError(
                f"`{name}` must be left to the shared TaskRelationship: got "
                f"{getattr(settings, name)!r}. Set it there."
            )
    settings = replace(settings, weighting=relationship.weighting)
    if relationship.shrinkage == 1:
        raise ValueError(
            "`shrinkage` of a TaskRelationship must be below 1 to be shared: got 1, which switches the "
            "task mode off."
        )
    _check_can_share(settings)
    if settings.scale == "free" or settings.inverse == "pseudo":
        if relationship.shrinkage > 0:
            raise ValueError(
                "`shrinkage` of the shared TaskRelationship must be 0 with scale='free' or "
                f"inverse='pseudo': got {relationship.shrinkage}."
            )
        return settings
    weights = {mode: settings.shrinkage_of(mode) for mode in settings.modes}
    return replace(settings, shrinkage={**weights, "task": relationship.shrinkage})
