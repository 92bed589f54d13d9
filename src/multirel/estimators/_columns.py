"""Arrays from what users have: data frames, tensors, lists; and the column that names the tasks."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "as_array",
    "has_columns",
    "is_missing",
    "objects",
    "take_column",
    "to_labels",
    "without_objects",
]


def has_columns(table: Any) -> bool:
    """Whether a table has named columns, as data frames of pandas and polars have."""
    return hasattr(table, "columns") and hasattr(table, "__getitem__")


def as_array(values: Any) -> Any:
    """Tensors as arrays on the CPU, or as CSR arrays if they are sparse; everything else as it is."""
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    values = values.detach().cpu()
    if str(values.dtype) == "torch.bfloat16":
        # numpy has no such type.
        values = values.float()
    if str(values.layout) == "torch.strided":
        return values.numpy()
    triples = values.to_sparse_coo().coalesce()
    entries = (triples.values().numpy(), tuple(triples.indices().numpy()))
    return sparse.csr_array(sparse.coo_array(entries, shape=tuple(triples.shape)))


def to_labels(values: Any) -> "NDArray[Any]":
    """Labels of any type as an array, each as what it is.

    Args:
        values: A series or data frame, a tensor, an array, or a list, in which numpy would turn numbers
            beside text into text.
    """
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    array = np.asarray(as_array(values))
    if array.dtype.kind in "US" and isinstance(values, list | tuple):
        each = np.asarray(values, dtype=object)
        return array if all(isinstance(value, str) for value in each.ravel().tolist()) else each
    return array


def objects(values: Sequence[Any]) -> "NDArray[Any]":
    """An array of one axis whose entries are these objects, which may be tuples."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def without_objects(values: "NDArray[Any]") -> "NDArray[Any]":
    """Numbers, or values of true and false, that were kept as objects, in the type of their own."""
    if values.dtype != object or len(values) == 0 or isinstance(values[0], str):
        return values
    each = values.tolist()
    is_bool = [isinstance(value, bool | np.bool_) for value in each]
    if all(is_bool):
        return values.astype(bool)
    if any(is_bool) or not all(isinstance(value, Real) for value in each):
        return values
    if not all(isinstance(value, Integral) for value in each):
        return values.astype(np.float64)
    bounds = np.iinfo(np.int64)
    fits = bounds.min <= min(each) and max(each) <= bounds.max
    return values.astype(np.int64) if fits else values


def is_missing(values: "NDArray[Any]") -> "NDArray[np.bool_]":
    """Where labels or names are NaN, None, or what pandas writes in their place."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype == object:
        flat = [_is_nothing(value) for value in values.ravel().tolist()]
        return np.array(flat, dtype=bool).reshape(values.shape)
    return np.zeros(values.shape, dtype=bool)


def _is_nothing(value: Any) -> bool:
    try:
        # NaN is not equal to itself.
        return value is None or bool(value != value)
    except TypeError:
        # The missing value of pandas is neither equal nor unequal to itself.
        return True


def take_column(table: Any, column: str | int) -> tuple[Any, "NDArray[Any]"]:
    """The table without a column, and that column.

    Args:
        table: A data frame, an array, or a sparse matrix.
        column: The name of a column, or its number.

    Raises:
        ValueError: If there is no such column.
    """
    if has_columns(table):
        return _take_from_frame(table, column)
    if isinstance(column, str):
        raise ValueError(
            f"`task_column` must be the number of a column where X has no named columns: got {column!r}. "
            f"Give X as a data frame, or let the step before the estimator pass the column through and "
            f'give back a data frame: `set_output(transform="pandas")`.'
        )
    if isinstance(table, list | tuple):
        # Names beside numbers would make all of them text.
        table = np.asarray(table, dtype=object)
    table = as_array(table)
    n_columns = table.shape[1] if table.ndim == 2 else 0  # noqa: PLR2004
    if not -n_columns <= column < n_columns:
        raise ValueError(
            f"`task_column` must be a column of X: expected a number below {n_columns}, got {column}."
        )
    kept = np.delete(np.arange(n_columns), column)
    if sparse.issparse(table):
        table = sparse.csr_array(table)
        return table[:, kept], table[:, [column]].toarray()[:, 0]
    return table[:, kept], table[:, column]


def _take_from_frame(table: Any, column: str | int) -> tuple[Any, "NDArray[Any]"]:
    names = list(table.columns)
    name = column
    if isinstance(column, int) and column not in names and -len(names) <= column < len(names):
        name = names[column]
    if name not in names:
        # This is how a ColumnTransformer renames what it passes through.
        renamed = [other for other in names if str(other).endswith(f"__{column}")]
        hint = (
            f"Name it as it is called here, {renamed[0]!r}."
            if renamed
            else "A ColumnTransformer in front of the estimator must pass it through."
        )
        raise ValueError(
            f"`task_column` must be a column of X: expected one of {', '.join(map(str, names))}, got "
            f"{column!r}. {hint}"
        )
    return table[[other for other in names if other != name]], to_labels(table[name])
