"""Weight files as dictionaries of tensors. Nothing in a file is ever run."""

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

__all__ = ["WeightFile", "first_few", "read_weights"]

PICKLE_SUFFIXES = (".pth", ".pt")
SUFFIXES = (".safetensors", *PICKLE_SUFFIXES)

N_NAMES_SHOWN = 3
"""How many of many names an error lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightFile:
    """What a weight file holds."""

    path: Path
    """Where the file is."""

    tensors: dict[str, Tensor]
    """Its tensors by their keys, on the CPU."""

    checksum: str
    """The SHA-256 of the file, in hexadecimal digits."""


def read_weights(weights: str | os.PathLike[str]) -> WeightFile:
    """The tensors of a .safetensors, .pth or .pt file.

    Args:
        weights: Path of the file.

    Raises:
        TypeError: If `weights` is no path.
        ValueError: If there is no such file, or it is cut short, or holds anything but tensors.
    """
    path = _check_path(weights)
    try:
        if path.suffix == ".safetensors":
            found: Any = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _unpickling_error(path, error) from error
    # What a broken file raises depends on where it broke.
    except Exception as error:
        raise ValueError(
            f"`weights` must be a whole {path.suffix} file: expected readable tensors, got {path} with "
            f"{path.stat().st_size} bytes, which fails with {_first_line(error)}. Download it again."
        ) from error
    _check_tensors(found, path)
    with path.open("rb") as stream:
        checksum = file_digest(stream, "sha256").hexdigest()
    return WeightFile(path=path, tensors=dict(found), checksum=checksum)


def first_few(names: Mapping[str, Any] | list[str]) -> str:
    """The first names of a list as text, and how many more there are."""
    shown = ", ".join(islice(map(str, names), N_NAMES_SHOWN))
    n_hidden = len(names) - N_NAMES_SHOWN
    return f"{shown} and {n_hidden} more" if n_hidden > 0 else shown


def _check_path(weights: str | os.PathLike[str]) -> Path:
    if not isinstance(weights, str | os.PathLike):
        raise TypeError(
            f"`weights` must be the path of a file: got {type(weights).__name__}. "
            f"Save tensors with safetensors.torch.save_file first."
        )
    path = Path(weights).expanduser()
    if not path.is_file():
        problem = "which is a folder" if path.is_dir() else "which does not exist"
        raise ValueError(
            f"`weights` must be an existing file: expected a path that ends in {', '.join(SUFFIXES)}, "
            f"got {path}, {problem}. Check the path."
        )
    if path.suffix not in SUFFIXES:
        raise ValueError(
            f"`weights` must be a weight file: expected a name that ends in {', '.join(SUFFIXES)}, "
            f"got {path}. Save its tensors with safetensors.torch.save_file."
        )
    return path


def _check_tensors(found: Any, path: Path) -> None:
    """Raise unless what was found is a dictionary of tensors by name."""
    if not isinstance(found, Mapping):
        got = f"a {type(found).__name__}"
    elif not found:
        got = "nothing"
    elif others := [key for key, value in found.items() if not _is_dense(value)]:
        got = f"a dictionary in which {first_few(others)} hold something else"
    else:
        return
    raise ValueError(
        f"`weights` must hold tensors by name and nothing else: got {got} in {path}. "
        f"Save the `state_dict()` of the network alone."
    )


def _is_dense(value: Any) -> bool:
    """Whether `value` is a tensor with a number for every entry, neither sparse nor without memory."""
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_meta


def _unpickling_error(path: Path, error: Exception) -> ValueError:
    # torch explains at length how to run the code in the file. That is no way out here.
    return ValueError(
        f"`weights` must hold tensors only, since code in files is never run: expected a state_dict, got "
        f"{path}, which is broken or asks for other objects. Save the `state_dict()` of the network "
        f"alone, best with safetensors.torch.save_file."
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
