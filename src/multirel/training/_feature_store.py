"""Features in files that are whole or absent."""

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_hex
from typing import final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from multirel.exceptions import MultirelWarning
from multirel.training._content_keys import bytes_of, digest
from multirel.training._flush import flush

__all__ = ["FeatureStore"]

SUFFIX = ".safetensors"
UNFINISHED_SUFFIX = ".unfinished"

SECONDS_UNFINISHED = 3600
"""Age at which an unfinished file belongs to a process that was killed: writing one takes seconds."""

DAMAGE = (SafetensorError, ValueError, TypeError, RuntimeError)
"""What reading a damaged file raises. A disk that cannot be read raises OSError, which is no damage."""


@final
class FeatureStore:
    """Features by the keys of their images, in files of one batch each.

    Safe against being killed at any moment, and against other processes that read and write the same folder.

    Args:
        folder: The folder of one set of layers. It is made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ValueError(
                f"`folder` must be a folder: got {folder.parent}, where a file is in the way. "
                f"Name another one."
            ) from error
        except OSError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: OSError) -> OSError:
        return OSError(
            f"`folder` must be a folder with room for features: {self._folder.parent} cannot be written "
            f"({error}). Make room, or name another folder."
        )

    def read(self, wanted: set[str]) -> Iterator[tuple[list[str], Tensor]]:
        """The batches that hold any of the features that are wanted."""
        missing = set(wanted)
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            if not missing:
                return
            try:
                found = _read_batch(path, missing)
            except FileNotFoundError:
                # Another process has found it damaged and taken it away.
                continue
            except DAMAGE as error:
                _discard(path, error)
                continue
            if found is not None:
                missing.difference_update(found[0])
                yield found

    def write(self, keys: Sequence[str], features: Tensor) -> None:
        """Store a batch under a name that says which images it holds."""
        images = torch.tensor([list(bytes.fromhex(key)) for key in keys], dtype=torch.uint8)
        batch = {"features": features, "images": images, "checksum": _checksum(images, features)}
        name = digest(*(bytes.fromhex(key) for key in keys))
        try:
            self._remove_unfinished()
            _write_atomically(self._folder / f"{name}{SUFFIX}", save(batch))
        except OSError as error:
            raise self._not_written(error) from error

    def _remove_unfinished(self) -> None:
        """Take away what killed processes left behind."""
        oldest = time.time() - SECONDS_UNFINISHED
        for path in self._folder.glob(f"*{UNFINISHED_SUFFIX}"):
            try:
                if path.stat().st_mtime < oldest:
                    path.unlink()
            except FileNotFoundError:
                # Another process has finished it, or taken it away.
                continue


def _read_batch(path: Path, wanted: set[str]) -> tuple[list[str], Tensor] | None:
    """The keys and features of a file, or None if it holds none that is wanted."""
    # Opened once: if another process replaces the file meanwhile, this one is read to its end.
    with safe_open(path, framework="pt") as batch:
        images = batch.get_tensor("images")
        keys = [bytes(row).hex() for row in images.numpy()]
        if wanted.isdisjoint(keys):
            return None
        features = batch.get_tensor("features")
        checksum = batch.get_tensor("checksum")
    if not torch.equal(checksum, _checksum(images, features)):
        raise ValueError("its checksum belongs to other bytes")
    return keys, features


def _checksum(images: Tensor, features: Tensor) -> Tensor:
    header = f"{features.dtype} {tuple(features.shape)}".encode()
    found = digest(header, bytes_of(images), bytes_of(features))
    return torch.tensor(list(bytes.fromhex(found)), dtype=torch.uint8)


def _discard(path: Path, error: Exception) -> None:
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    warnings.warn(
        f"The cached features in {path} are damaged: {reason}. They are computed again.",
        MultirelWarning,
        stacklevel=4,
    )
    path.unlink(missing_ok=True)


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is whole from the moment it has its name, also if the power fails."""
    unfinished = path.with_name(f"{path.stem}.{token_hex(8)}{UNFINISHED_SUFFIX}")
    try:
        with unfinished.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    flush(path.parent)
