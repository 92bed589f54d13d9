"""Reading the features that `fit` and `predict` are given."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from multirel.estimators._columns import as_array, take_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_features"]

FLOATS = (np.float64, np.float32)


def read_features(estimator: Any, X: Any, *, reset: bool) -> "tuple[Any, NDArray[Any] | None]":
    """Features as an array or CSR array, and the column of tasks where `task_column` names one.

    Sets `n_features_in_` and `feature_names_in_` where `reset`, and compares with them elsewhere; both
    count the column of tasks. Images, which a backbone takes, are an array of more axes.

    Args:
        estimator: The estimator, with `task_column` and perhaps `backbone`.
        X: What the user gave.
        reset: True in `fit`.

    Raises:
        ValueError: If X is no table of finite numbers, or not the one that was fitted.
    """
    column = None
    has_backbone = getattr(estimator, "backbone", None) is not None
    if has_backbone and estimator.task_column is not None:
        raise ValueError(
            f"`task_column` must be None with a backbone, whose X are images: got "
            f"{estimator.task_column!r}. Give `tasks` instead."
        )
    if estimator.task_column is not None:
        # The column may hold text, which is no feature.
        X = as_array(X)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        features, column = take_column(X, estimator.task_column)
        features = check_array(
            features, **_options(has_backbone), estimator=estimator, input_name="X"
        )
    else:
        features = validate_data(estimator, as_array(X), reset=reset, **_options(has_backbone))
    return sparse.csr_array(features) if sparse.issparse(features) else features, column


def _options(has_backbone: bool) -> dict[str, Any]:
    if has_backbone:
        return {"allow_nd": True, "dtype": (*FLOATS, np.uint8)}
    return {"accept_sparse": "csr", "dtype": FLOATS}
