"""Rows of several tasks, with the names of what is in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Kind", "TaskData"]

Kind = Literal["classification", "regression"]

PER_ROW = ("X", "y", "tasks")
"""Fields that have an entry for every row."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TaskData:
    """Rows of several tasks: features, labels, and the task that each row belongs to.

    Raises:
        ValueError: If the fields have different numbers of rows, or a row belongs to a task that has no name.

    Example:
        >>> data = TaskData(
        ...     X=np.eye(3), y=np.array([0, 1, 1]), tasks=np.array(["oslo", "lyon", "oslo"]),
        ...     task_names=("oslo", "lyon"), kind="classification",
        ... )
        >>> data.n_rows_per_task
        {'oslo': 2, 'lyon': 1}
    """

    X: Any
    """Features, one row per row."""

    y: "NDArray[Any]"
    """Labels, one per row."""

    tasks: "NDArray[Any]"
    """The name of each row's task."""

    task_names: tuple[Any, ...]
    """The names of the tasks, in the order of every table and matrix."""

    kind: Kind
    """What is predicted: classes, or numbers."""

    class_names: tuple[Any, ...] | None = None
    """The classes in their order; None for regression."""

    feature_names: tuple[str, ...] | None = None
    """The names of the columns of `X`, if they have some."""

    true_weights: "NDArray[np.float64] | None" = None
    """Weights of simulated tasks, "T C F" for C classes and "T 1 F" for regression."""

    true_intercepts: "NDArray[np.float64] | None" = None
    """Intercepts of simulated tasks, "T C" or "T 1"."""

    true_covariances: "Mapping[str, NDArray[np.float64]] | None" = None
    """Covariances that the weights of simulated tasks were drawn from, by mode."""

    def __post_init__(self) -> None:
        n_rows = {name: getattr(self, name).shape[0] for name in PER_ROW}
        if len(set(n_rows.values())) > 1:
            shown = ", ".join(f"{name} {n}" for name, n in n_rows.items())
            raise ValueError(
                f"`X`, `y` and `tasks` must have the same number of rows: got {shown}."
            )
        strangers = sorted({*self.tasks.tolist()} - {*self.task_names}, key=str)
        if strangers:
            raise ValueError(
                f"`tasks` must hold names of `task_names`: expected some of "
                f"{', '.join(map(str, self.task_names))}, got {strangers[0]!r}."
            )

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.tasks)

    @property
    def n_tasks(self) -> int:
        """The number of tasks T."""
        return len(self.task_names)

    @property
    def n_rows_per_task(self) -> dict[Any, int]:
        """How many rows each task has, by its name."""
        return {name: int(np.count_nonzero(self.tasks == name)) for name in self.task_names}

    def select(self, index: "Sequence[int] | ArrayLike") -> "TaskData":
        """The rows with these numbers, or those where a mask is True; names and truth stay.

        Args:
            index: Numbers of rows, or a mask.
        """
        rows = np.asarray(index)
        return replace(self, **{name: getattr(self, name)[rows] for name in PER_ROW})

    def __repr__(self) -> str:
        known = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        truth = ", simulated" if "true_weights" in known else ""
        n_features = self.X.shape[1:] or ("no",)
        return (
            f"TaskData({len(self)} rows, {self.n_tasks} tasks, {'×'.join(map(str, n_features))} features, "
            f"{self.kind}{truth})"
        )
