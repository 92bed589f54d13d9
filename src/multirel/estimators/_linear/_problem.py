"""Linear learning problems of several tasks, and their solutions, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from multirel.estimators._linear._design import Design

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LinearProblem", "LinearSolution", "Loss"]

Loss = Literal["squared", "binary", "softmax"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearProblem:
    r"""Minimize over weights W (T C r) and intercepts b (T C) the mean loss and a penalty on W.

    $$\sum_n c_n\,\ell(y_n, W_{t(n)}x_n + b_{t(n)}) + \text{penalty}(W),\qquad \sum_n c_n = 1$$
    """

    design: Design
    """The features, sorted by task, in the coordinates of the problem."""

    targets: "NDArray[np.float64]"
    """ "n C": numbers; ±1 for "binary" and for the squared loss of classes; one 1 per row for "softmax"."""

    coefficients: "NDArray[np.float64]"
    """The factor cₙ of each row's loss, with sum 1; sorted as the rows of the design."""

    loss: Loss
    """ "squared" (y − f)², "binary" ln(1 + exp(−y f)), summed over C, or "softmax" over C."""

    n_samples: float
    """The sum of the weights N: a prior counts λ/N."""

    n_features: int
    """The number of features F before they were expressed in fewer coordinates: the d_I of a prior."""

    intercept_starts: "NDArray[np.int64] | None" = None
    """Where the rows of every intercept start, and after them n; None: an intercept per task. No intercept
    belongs to rows of two tasks."""

    objective_scale: float = 1.0
    """What the mean loss is multiplied by in methods whose strengths are not divided by N."""

    @property
    def n_tasks(self) -> int:
        """The number of tasks T, with or without rows."""
        return self.design.n_tasks

    @property
    def group_starts(self) -> "NDArray[np.int64]":
        """Where the rows of every intercept start, and after them the number of rows: G + 1 numbers."""
        return self.design.starts if self.intercept_starts is None else self.intercept_starts

    @property
    def n_outputs(self) -> int:
        """The number of outputs C."""
        return int(self.targets.shape[1])

    @property
    def weight_shape(self) -> tuple[int, int, int]:
        """The shape "T C r" of the weights in the coordinates of the problem."""
        return (self.n_tasks, self.n_outputs, self.design.n_coordinates)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearSolution:
    """Where the objective of a problem is smallest, and how far from there it may be."""

    weights: "NDArray[np.float64]"
    """ "T C r", in the coordinates of the problem."""

    intercepts: "NDArray[np.float64]"
    """ "T C", or "G C" where tasks have several."""

    objective: float
    """The objective at these weights."""

    gap: float
    """A bound on (objective − smallest objective) / objective, certified."""

    n_iterations: int
    """Iterations of the solver."""

    converged: bool
    """Whether `gap` came down to the tolerance."""

    learned: "Mapping[str, Any]" = field(default_factory=dict)
    """What else the method has learned, by the name of the estimator's attribute."""
