"""One task covariance that several layers, or several priors, share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, final

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.priors._covariance_step import estimate_where
from multirel.priors._scatter import DenseScatter
from multirel.priors._start import Start, start_covariance
from multirel.tensor_normal import Covariance, correlation_matrix

if TYPE_CHECKING:
    from multirel.priors._stack_prior import StackPrior

__all__ = ["TaskRelationship"]

TASK = 0


@final
class TaskRelationship:
    """One Σ_T that several layers share, in one prior or in several.

    An update of any of these priors estimates it again, from the weights of all layers.

    Args:
        tasks: The tasks: how many, or their names.
        start: Correlation of the first fit: one number for all pairs, or a T × T matrix.
        shrinkage: Weight of the identity in the estimate.
        weighting: "equal" averages S_T / tr S_T over the layers; "size" weighs each layer by its number of
            weights, which is the exact minimizer of the objective, where large layers outvote small ones.

    Example:
        >>> relationship = TaskRelationship(["art", "product", "photo"], start=0.3)
        >>> relationship.correlations().numpy()[0].round(2)
        array([1. , 0.3, 0.3])
    """

    def __init__(
        self,
        tasks: int | Sequence[str],
        *,
        start: Start = 0.5,
        shrinkage: float = 0.1,
        weighting: Literal["equal", "size"] = "equal",
    ) -> None:
        self.tasks = _names_of(tasks)
        if not 0 <= shrinkage <= 1:
            raise ValueError(f"`shrinkage` must be from 0 to 1: got {shrinkage}.")
        if weighting not in ("equal", "size"):
            raise ValueError(f"`weighting` must be 'equal' or 'size': got {weighting!r}.")
        self.start = start_covariance(start, len(self.tasks))
        self.shrinkage = shrinkage
        self.weighting = weighting
        self._members: list[tuple[StackPrior, float | Tensor]] = []

    def check_member(self, member: "StackPrior") -> None:
        """Raise unless a layer can share the covariance.

        Raises:
            ValueError: If it has other tasks, or its prior estimates task covariances in another way.
        """
        if len(member.stack.tasks) != len(self.tasks):
            raise ValueError(
                f"`share_task_covariance` must have the tasks of the network: expected "
                f"{len(member.stack.tasks)} ({', '.join(member.stack.tasks)}) for "
                f"{member.stack.layer!r}, got {len(self.tasks)} ({', '.join(self.tasks)})."
            )
        if self._members and _form(self._members[0][0]) != _form(member):
            raise ValueError(
                "`share_task_covariance` must join priors of one `scale`, `covariance_update`, "
                "`shrinkage_target`, `jitter` and `rank`: got different ones."
            )

    def join(self, member: "StackPrior", strength: float | Tensor) -> None:
        """Let a layer share the covariance; `strength` is λ/N of its prior."""
        self.check_member(member)
        self._members.append((member, strength))
        if len(self._members) > 1:
            self._share(self._members[0][0].covariances[TASK])

    @property
    def covariance(self) -> Covariance | None:
        """Σ_T, or None before a layer has joined."""
        return self._members[0][0].covariances[TASK] if self._members else None

    def correlations(self) -> Float[Tensor, "*copies T T"]:
        """Σ_T as correlations."""
        covariance = self.covariance
        return correlation_matrix(self.start if covariance is None else covariance)

    @torch.no_grad()
    def update(self) -> None:
        """Estimate Σ_T again from the weights of all layers."""
        first = self._members[0][0]
        step = first.steps[TASK]
        like = first.covariances[TASK].diagonal()
        total, weight = like.new_zeros(()), like.new_zeros(())
        for member, strength in self._members:
            scatter = member.scatter(TASK)
            has_spread = member.has_spread(scatter).to(like.device)[..., None, None]
            matrix = scatter.dense().to(like)
            share = torch.as_tensor(strength).to(like)[..., None, None] * member.stack.n_weights
            if self.weighting == "equal":
                share, matrix = (
                    torch.ones_like(share),
                    matrix / scatter.trace().to(like)[..., None, None],
                )
            total = total + torch.where(has_spread, share * matrix, 0.0)
            weight = weight + torch.where(has_spread, share, 0.0)
        if step is not None:
            chosen = (weight > 0)[..., 0, 0]
            mean = total / weight.masked_fill(weight == 0, 1.0)
            kept = first.covariances[TASK]
            self._share(estimate_where(step, DenseScatter(mean), chosen=chosen, kept=kept))

    def _share(self, covariance: Covariance) -> None:
        for member, _ in self._members:
            mine = member.covariances[TASK]
            own = covariance.to(device=mine.device, dtype=mine.dtype)
            member.replace_covariance(TASK, own)


def _names_of(tasks: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(tasks, str) or not isinstance(tasks, int | Sequence):
        raise TypeError(
            f"`tasks` must be a number of tasks or their names: got {type(tasks).__name__}. Use a list "
            f"of names."
        )
    names = tuple(map(str, range(tasks) if isinstance(tasks, int) else tasks))
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`tasks` must have one name per task: got {repeated!r} more than once.")
    return names


def _form(member: "StackPrior") -> tuple[type, dict[str, object]]:
    """What the estimate of a task covariance depends on beside the weights."""
    step = member.steps[TASK]
    return type(step), vars(step)
