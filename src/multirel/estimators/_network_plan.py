"""What is trained where there are hidden layers or a backbone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["NetworkPlan", "uses_network"]

DEFAULT_START = 0.5
DEFAULT_UPDATES = 1


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """How a method's network differs from the next method's: by its sharing, or by its penalty."""

    sharing: Literal["none", "hidden", "all"] = "none"
    """What the tasks share: only the backbone; the hidden layers too; or one network for all."""

    prior: Mapping[str, Any] | None = field(default_factory=dict)
    """Settings of the tensor normal prior on the task-specific layers, as `attach_prior` takes them; None
    for none. With a "strength" that is not the estimator's, if it has one."""

    layers: Literal["all", "output", "hidden"] = "all"
    """Which task-specific layers have the prior."""

    factorization: Literal["tucker", "tt", "laf"] | None = None
    """How the task-specific layers are factorized."""

    ranks: Any = None
    """The ranks of the factorization; None takes them from single-task weights."""

    relative_error: float = 0.1
    """The largest change ‖W − Ŵ‖ / ‖W‖ of single-task weights where ranks are not given."""

    task_intercepts: bool = False
    """Whether one network for all has output biases of its own for every task."""

    ridge: float | None = None
    """The strength on weights without the prior; None means that of the prior."""

    strength_per: Literal["n_samples", "objective_scale"] = "n_samples"
    """What strengths are divided by beside the mean loss: N, or what turns the mean loss into the method's
    own sum of losses."""

    @property
    def relates_tasks(self) -> bool:
        """Whether the prior relates tasks: not if they start apart, and no update brings them together."""
        if self.prior is None:
            return False
        start = self.prior.get("start", DEFAULT_START)
        return not (isinstance(start, int | float) and start == 0 and self.n_updates == 0)

    @property
    def n_updates(self) -> int | None:
        """Covariance updates, each followed by another training; None updates during one training."""
        if self.prior is None:
            return 0
        updates: int | None = self.prior.get("n_updates", DEFAULT_UPDATES)
        return updates

    @property
    def is_single_task(self) -> bool:
        """Whether every task is on its own, from the backbone on."""
        return self.sharing == "none" and not self.relates_tasks and self.factorization is None


def uses_network(estimator: Any) -> bool:
    """Whether an estimator is set to train a network."""
    return bool(getattr(estimator, "hidden_sizes", ())) or (
        getattr(estimator, "backbone", None) is not None
    )
