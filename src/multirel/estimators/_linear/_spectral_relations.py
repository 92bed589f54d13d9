"""The covariances that squared trace norms are made of, as factors."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from multirel.estimators._linear._covariance_factors import CovarianceFactors
from multirel.estimators._linear._learned_prior_solver import LearnedRelations

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["trace_norm_relations"]


def trace_norm_relations(
    weights: "NDArray[np.float64]",
    has_rows: "NDArray[np.bool_]",
    *,
    mode: Literal["task", "input"],
    n_features: int,
) -> LearnedRelations:
    """The covariance (W Wᵀ)^½ of the tasks, or (Wᵀ W)^½ of the features, as factors; the others are I.

    Its trace is the size of the mode. It is the average over the outputs, each with the same trace, and the
    identity where all weights are zero.

    Args:
        weights: "T C r".
        has_rows: Which tasks have rows: the task covariance is that of these.
        mode: The mode.
        n_features: F, which r coordinates may stand for.
    """
    kept = weights[has_rows]
    n_tasks, n_outputs, n_coordinates = kept.shape
    task, inner = CovarianceFactors.identity(n_tasks), CovarianceFactors.identity(n_coordinates)
    if mode == "task":
        task = _roots([kept[:, output] for output in range(n_outputs)], n_tasks)
    else:
        inner = _roots([kept[:, output].T for output in range(n_outputs)], n_features)
    return LearnedRelations(
        task=task, output=CovarianceFactors.identity(n_outputs), input=inner, has_rows=has_rows
    )


def _roots(matrices: "list[NDArray[np.float64]]", trace: int) -> CovarianceFactors:
    """The average of (M Mᵀ)^½ over matrices, each brought to a trace."""
    parts = []
    for matrix in matrices:
        left, values, _ = np.linalg.svd(matrix, full_matrices=False)
        inside = values > values.max(initial=0.0) * np.finfo(np.float64).eps
        if inside.any():
            parts.append(left[:, inside] * np.sqrt(values[inside] / values[inside].sum()))
    if not parts:
        return CovarianceFactors.identity(len(matrices[0]))
    if len(parts) == 1:
        roots = np.linalg.norm(parts[0], axis=0)
        return CovarianceFactors(
            basis=parts[0] / roots, inside=roots**2 * trace / len(matrices), outside=0.0
        )
    basis, roots, _ = np.linalg.svd(np.concatenate(parts, axis=1), full_matrices=False)
    return CovarianceFactors(basis=basis, inside=roots**2 * (trace / len(parts)), outside=0.0)
