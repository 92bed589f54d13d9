"""Settings and learned attributes as JSON and named arrays, and back, by their types."""

from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from multirel.estimators._linear._covariance_factors import CovarianceFactors
from multirel.estimators._linear._learned_prior_solver import LearnedRelations
from multirel.training import History

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode_value", "encode_value"]

Arrays = "dict[str, NDArray[Any]]"

RECORDS: Mapping[str, type[Any]] = {
    cls.__name__: cls for cls in (CovarianceFactors, History, LearnedRelations)
}
"""Classes of ours that hold values, by name; no others are written or read."""

TENSORS = ("?", "b", "B", "h", "i", "l", "q", "e", "f", "d")
"""Types of arrays that are written as tensors."""

VALUES = "biuU"
"""Kinds of arrays that JSON holds without loss: truth, whole numbers and text."""


def encode_value(value: Any, name: str, arrays: "dict[str, NDArray[Any]]") -> Any:
    """What JSON can hold of a value.

    Args:
        value: A scalar, text, an array of such, or lists, tuples, mappings and records of ours of all these.
        name: The name under which arrays are put; those inside have names that begin with it.
        arrays: Arrays by name, to which those of the value are added.

    Raises:
        TypeError: If the value is of another type.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.generic):
        return {"scalar": encode_value(value.item(), name, arrays), "dtype": value.dtype.str}
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value)
        data = value.data.astype(object)
        data[mask] = None
        return {
            "masked": encode_value(data, f"{name}.data", arrays),
            "mask": encode_value(mask, f"{name}.mask", arrays),
        }
    if isinstance(value, np.ndarray):
        return _encode_array(value, name, arrays)
    if isinstance(value, PurePath):
        return {"path": str(value)}
    return _encode_several(value, name, arrays)


def _encode_array(value: "NDArray[Any]", name: str, arrays: "dict[str, NDArray[Any]]") -> Any:
    if value.dtype.char in TENSORS and value.dtype.isnative:
        arrays[name] = value
        return {"array": name}
    if value.dtype.kind in VALUES:
        entries = value.ravel().tolist()
        return {"values": entries, "shape": list(value.shape), "dtype": value.dtype.str}
    if value.dtype == object:
        entries = [
            encode_value(entry, f"{name}.{number}", arrays)
            for number, entry in enumerate(value.ravel().tolist())
        ]
        return {"objects": entries, "shape": list(value.shape)}
    raise _not_saved(name, f"an array of {value.dtype}")


def _encode_several(value: Any, name: str, arrays: "dict[str, NDArray[Any]]") -> Any:
    if isinstance(value, list | tuple):
        entries = [encode_value(e, f"{name}.{number}", arrays) for number, e in enumerate(value)]
        return entries if isinstance(value, list) else {"tuple": entries}
    if isinstance(value, Mapping):
        pairs = [
            [encode_value(key, name, arrays), encode_value(entry, f"{name}.{number}", arrays)]
            for number, (key, entry) in enumerate(value.items())
        ]
        return {"mapping": pairs}
    kind = type(value).__name__
    if RECORDS.get(kind) is type(value):
        parts = {
            field.name: encode_value(getattr(value, field.name), f"{name}.{field.name}", arrays)
            for field in fields(value)
        }
        return {"record": kind, "fields": parts}
    raise _not_saved(name, f"a {kind}")


def _not_saved(name: str, found: str) -> TypeError:
    return TypeError(
        f"`{name}` must be made of numbers, text, None, lists, mappings and arrays of these to be saved: got "
        f"{found}. Give another value, or save `best_estimator_` where it is a setting of a search."
    )


def decode_value(code: Any, arrays: "Mapping[str, NDArray[Any]]") -> Any:
    """The value that `encode_value` has written.

    Args:
        code: What it has made of it.
        arrays: The arrays by name.

    Raises:
        KeyError: If something is missing.
        TypeError: If the code is none of those that are written.
        ValueError: If the code is none of those that are written, or an array does not fit.
    """
    if code is None or isinstance(code, bool | int | float | str):
        return code
    if isinstance(code, list):
        return [decode_value(entry, arrays) for entry in code]
    if "array" in code:
        return arrays[code["array"]]
    if "float" in code:
        return float(code["float"])
    if "tuple" in code:
        return tuple(decode_value(entry, arrays) for entry in code["tuple"])
    if "mapping" in code:
        return {decode_value(k, arrays): decode_value(v, arrays) for k, v in code["mapping"]}
    if "path" in code:
        return str(code["path"])
    return _decode_rest(code, arrays)


def _decode_rest(code: Mapping[str, Any], arrays: "Mapping[str, NDArray[Any]]") -> Any:
    if "scalar" in code:
        return np.array(decode_value(code["scalar"], arrays), dtype=_dtype(code))[()]
    if "values" in code:
        return np.array(code["values"], dtype=_dtype(code)).reshape(code["shape"])
    if "objects" in code:
        entries = np.empty(len(code["objects"]), dtype=object)
        entries[:] = [decode_value(entry, arrays) for entry in code["objects"]]
        return entries.reshape(code["shape"])
    if "masked" in code:
        data, mask = (decode_value(code[part], arrays) for part in ("masked", "mask"))
        return np.ma.masked_array(data, mask=mask)
    if code.get("record") in RECORDS:
        given = {name: decode_value(one, arrays) for name, one in code["fields"].items()}
        return RECORDS[code["record"]](**given)
    raise ValueError(f"no value has a code with {', '.join(map(repr, code)) or 'nothing'}")


def _dtype(code: Mapping[str, Any]) -> np.dtype[Any]:
    dtype = np.dtype(code["dtype"])
    if dtype.kind not in f"{VALUES}f":
        raise ValueError(f"no value is of type {dtype}")
    return dtype
