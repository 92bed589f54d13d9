"""The two files of a saved model: replaced together, and read only if they belong together."""

import json
import os
from collections.abc import Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from multirel.exceptions import SavedModelError
from multirel.training._flush import flush

__all__ = ["FORMAT", "read_files", "write_files"]

FORMAT = "multirel-estimator-1"

TENSORS = "model.safetensors"
DESCRIPTION = "model.json"
UNFINISHED = ".unfinished"
"""Added to the names of files while they are written."""


def write_files(
    folder: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]
) -> None:
    """Write a model in the place of the one that the folder may hold.

    Both files are on the disk before the first is renamed. If the process ends between the two renames, the
    folder holds the new tensors, and the new description under its unfinished name, where it is found.

    Args:
        folder: The folder, which is made if need be.
        tensors: Tensors by name.
        description: Whatever else JSON can hold.

    Raises:
        OSError: If the files cannot be written; a model that was there still is.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(
            f"`path` must be a folder: {folder} is a file. Give the name of a folder, which is made if need "
            f"be."
        )
    folder.mkdir(parents=True, exist_ok=True)
    names = (TENSORS, DESCRIPTION)
    unfinished = [folder / f".{name}{UNFINISHED}" for name in names]
    # A description that an earlier process left must never meet other tensors than its own.
    finish_files(folder)
    save_file(dict(tensors), unfinished[0])
    with unfinished[0].open("rb") as file:
        checksum = file_digest(file, "sha256").hexdigest()
    content = {"format": FORMAT, **description, "tensors": checksum}
    unfinished[1].write_text(json.dumps({**content, "checksum": _checksum(content)}, indent=1))
    for path in unfinished:
        flush(path)
    for name, path in zip(names, unfinished, strict=True):
        os.replace(path, folder / name)
    flush(folder)


def finish_files(folder: Path) -> None:
    """Rename a description whose tensors are in place already."""
    left = folder / f".{DESCRIPTION}{UNFINISHED}"
    try:
        content = json.loads(left.read_text())
        belongs = _digest(folder / TENSORS) == content["tensors"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if belongs:
        os.replace(left, folder / DESCRIPTION)
        flush(folder)


def read_files(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the description of a saved model.

    Args:
        folder: The folder.

    Raises:
        SavedModelError: If a file is missing, damaged, or changed.
    """
    try:
        data = (folder / TENSORS).read_bytes()
        description = _read_description(folder, sha256(data).hexdigest())
        tensors = load(data)
    except OSError as error:
        raise SavedModelError(
            f"`path` must be a folder that `save` has written, with {TENSORS} and {DESCRIPTION}: {folder} "
            f"cannot be read ({error.strerror}). Check the path."
        ) from error
    except SafetensorError as error:
        raise _damaged(folder, f"{TENSORS} holds no tensors: {error}") from error
    return tensors, description


def _read_description(folder: Path, checksum: str) -> dict[str, Any]:
    """The description that belongs to the tensors, which may not have got its name yet."""
    found = _parse(folder, folder / DESCRIPTION)
    left = folder / f".{DESCRIPTION}{UNFINISHED}"
    is_other = found is None or found.get("tensors") != checksum
    if is_other and left.exists():
        unnamed = _parse(folder, left)
        found = unnamed if unnamed and unnamed.get("tensors") == checksum else found
    if found is None:
        raise FileNotFoundError(2, f"no {DESCRIPTION}")
    if found.get("format") != FORMAT:
        raise SavedModelError(
            f"`path` must hold a model of this version: expected the format {FORMAT!r}, got "
            f"{found.get('format')!r} in {folder}. Save it again, or use the version that has written it."
        )
    given = found.pop("checksum", None)
    if given != _checksum(found):
        raise _damaged(folder, f"{DESCRIPTION} was changed")
    if found["tensors"] != checksum:
        raise _damaged(folder, f"{TENSORS} is not the one that {DESCRIPTION} describes")
    return found


def _parse(folder: Path, path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise _damaged(folder, f"{path.name} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise _damaged(folder, f"{path.name} is no description of a model")
    return found


def _damaged(folder: Path, reason: str) -> SavedModelError:
    return SavedModelError(
        f"`path` must hold a model as `save` has written it: {folder} is damaged ({reason}). Save it again."
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _checksum(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
