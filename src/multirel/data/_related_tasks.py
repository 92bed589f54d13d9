"""Simulated tasks whose relations are known, since their weights were drawn from them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from multirel.data._task_data import TaskData
from multirel.exceptions import NotPositiveDefiniteError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["make_related_tasks"]

MODES = ("task", "output", "input")
FEWEST_CLASSES = 2


def make_related_tasks(
    n_tasks: int,
    n_samples: int | Sequence[int],
    n_features: int,
    *,
    covariances: "Mapping[str, ArrayLike] | None" = None,
    correlation: float = 0.8,
    n_classes: int | None = None,
    noise: float = 1.0,
    seed: int = 0,
) -> TaskData:
    r"""Rows of tasks whose weights are drawn from a tensor normal distribution, with the truth beside them.

    $$W\sim\text{TN}_{T\times C\times F}(0,\Sigma_T,\Sigma_O,\Sigma_I)$$

    Features are standard normal, and so are the intercepts. A number is w·x + b + noise · ε with a standard
    normal ε; a class is the largest of its scores W x + b + noise · g with Gumbel g, so that noise=1 is the
    multinomial logit model, and noise=0 has no errors.

    Args:
        n_tasks: The number of tasks T.
        n_samples: Rows of every task, or of each.
        n_features: The number of features F.
        covariances: Covariances by mode, "task", "output" and "input". Others are the identity, but for the
            tasks, which have `correlation`.
        correlation: The correlation between all pairs of tasks, unless `covariances` has that of tasks.
        n_classes: The number of classes C; None makes regression tasks, with one output.
        noise: How much chance there is in the labels.
        seed: Seed of everything that is drawn.

    Raises:
        NotPositiveDefiniteError: If a covariance is not positive definite.
        ValueError: If numbers do not fit one another.

    Example:
        >>> data = make_related_tasks(3, [100, 50, 20], 4, n_classes=5, correlation=0.9)
        >>> data
        TaskData(170 rows, 3 tasks, 4 features, classification, simulated)
        >>> data.true_weights.shape, data.true_covariances["task"][0].tolist()
        ((3, 5, 4), [1.0, 0.9, 0.9])
    """
    counts = _rows_per_task(n_tasks, n_samples)
    n_outputs = _check_sizes(n_features, n_classes, noise)
    sizes = dict(zip(MODES, (n_tasks, n_outputs, n_features), strict=True))
    matrices = _covariances(covariances or {}, sizes, correlation=correlation)
    rng = np.random.default_rng(seed)
    weights = _draw_weights(matrices, rng)
    intercepts = rng.standard_normal((n_tasks, n_outputs))
    number = np.repeat(np.arange(n_tasks), counts)
    x = rng.standard_normal((len(number), n_features))
    scores = np.einsum("noi,ni->no", weights[number], x) + intercepts[number]
    if n_classes is None:
        y = scores[:, 0] + noise * rng.standard_normal(len(number))
    else:
        y = (scores + noise * rng.gumbel(size=scores.shape)).argmax(axis=1)
    names = np.array([f"task {index + 1}" for index in range(n_tasks)])
    return TaskData(
        X=x,
        y=y,
        tasks=names[number],
        task_names=tuple(names.tolist()),
        kind="regression" if n_classes is None else "classification",
        class_names=None if n_classes is None else tuple(range(n_classes)),
        feature_names=tuple(f"x{index + 1}" for index in range(n_features)),
        true_weights=weights,
        true_intercepts=intercepts,
        true_covariances=matrices,
    )


def _draw_weights(
    covariances: "Mapping[str, NDArray[np.float64]]", rng: np.random.Generator
) -> "NDArray[np.float64]":
    """White noise with the Cholesky factor of each covariance multiplied in along its mode."""
    weights = rng.standard_normal([len(matrix) for matrix in covariances.values()])
    for mode, matrix in enumerate(covariances.values()):
        factor = np.linalg.cholesky(matrix)
        weights = np.moveaxis(np.tensordot(factor, weights, axes=([1], [mode])), 0, mode)
    return weights


def _rows_per_task(n_tasks: int, n_samples: int | Sequence[int]) -> list[int]:
    if n_tasks < 1:
        raise ValueError(f"`n_tasks` must be at least 1: got {n_tasks}.")
    counts = [n_samples] * n_tasks if isinstance(n_samples, int) else [*map(int, n_samples)]
    if len(counts) != n_tasks:
        raise ValueError(
            f"`n_samples` must be one number, or one per task: expected {n_tasks}, got {len(counts)}."
        )
    if min(counts) < 0 or sum(counts) == 0:
        raise ValueError(
            f"`n_samples` must give at least one row, and no task fewer than none: got {n_samples}."
        )
    return counts


def _check_sizes(n_features: int, n_classes: int | None, noise: float) -> int:
    """The number of outputs, once the other numbers are known to make sense."""
    if n_features < 1:
        raise ValueError(f"`n_features` must be at least 1: got {n_features}.")
    if n_classes is not None and n_classes < FEWEST_CLASSES:
        raise ValueError(
            f"`n_classes` must be at least {FEWEST_CLASSES}: got {n_classes}. None makes regression tasks."
        )
    if not noise >= 0:
        raise ValueError(f"`noise` must not be negative: got {noise}.")
    return 1 if n_classes is None else n_classes


def _covariances(
    given: "Mapping[str, ArrayLike]", sizes: Mapping[str, int], *, correlation: float
) -> "dict[str, NDArray[np.float64]]":
    """The covariance of every mode."""
    strangers = [mode for mode in given if mode not in MODES]
    if strangers:
        raise ValueError(
            f"`covariances` must be named by modes: expected some of {', '.join(MODES)}, got "
            f"{strangers[0]!r}."
        )
    found = {}
    for mode, size in sizes.items():
        if mode in given:
            matrix = np.asarray(given[mode], dtype=np.float64)
        else:
            shared = correlation if mode == "task" else 0.0
            matrix = (1 - shared) * np.eye(size) + shared
        _check_covariance(matrix, mode, size, is_given=mode in given)
        found[mode] = matrix
    return found


def _check_covariance(
    matrix: "NDArray[np.float64]", mode: str, size: int, *, is_given: bool
) -> None:
    if matrix.shape != (size, size):
        raise ValueError(
            f"`covariances` must have a row and a column per entry of the mode {mode!r}: expected shape "
            f"{(size, size)}, got {matrix.shape}."
        )
    is_symmetric = bool(np.isfinite(matrix).all()) and np.allclose(matrix, matrix.T)
    smallest = float(np.linalg.eigvalsh(matrix)[0]) if is_symmetric else float("nan")
    if not smallest > 0:
        name = "covariances" if is_given else "correlation"
        trouble = f"a smallest eigenvalue of {smallest:.3g}" if is_symmetric else "another matrix"
        raise NotPositiveDefiniteError(
            f"`{name}` must be symmetric and positive definite for the mode {mode!r} of size {size}: got "
            f"{trouble}."
        )
