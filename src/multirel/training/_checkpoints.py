"""Checkpoints: one file, written whole or not at all, that holds tensors and JSON and nothing that runs."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, final

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from multirel.training._checksum import checksum_of
from multirel.training._flush import flush

__all__ = ["Checkpoint"]

FILE_NAME = "checkpoint.safetensors"
UNFINISHED_NAME = ".checkpoint.unfinished"
"""The file while it is written. A process that is killed leaves at most this one behind."""

FORMAT = "multirel-training-1"

N_DIFFERENCES_SHOWN = 3


@final
class Checkpoint:
    """A folder from which training goes on where it was stopped.

    Give it to `train`: if the folder holds a checkpoint of the same training, that goes on from there, and
    ends with the weights of a run that was never stopped: to the bit on the CPU with a fixed number of
    threads. The file holds the network, the optimizer, the state of the penalties, the sampler, the history
    and early stopping. Random numbers are a function of the seed and the step, so nothing of them is
    saved. A run that is killed at any moment leaves the last whole file in place.

    Args:
        folder: The folder, which is made if need be. One training has it for itself.
        every: Optimizer steps between two checkpoints; None means one per epoch. The end always has one.

    Raises:
        TypeError: If `folder` is no path, or `every` no whole number.
        ValueError: If `every` is below 1.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int | None = None) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(f"`folder` must be a path: got {type(folder).__name__}.")
        is_whole = isinstance(every, int) and not isinstance(every, bool)
        if every is not None and not is_whole:
            raise TypeError(f"`every` must be a whole number of steps, or None: got {every!r}.")
        if every is not None and every < 1:
            raise ValueError(f"`every` must be at least 1 step, or None: got {every}.")
        self.folder = Path(folder).expanduser()
        self.every = every

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / FILE_NAME

    @property
    def exists(self) -> bool:
        """Whether there is a checkpoint."""
        return self.path.is_file()

    def is_due(self, step: int, *, ends_epoch: bool) -> bool:
        """Whether a checkpoint is written after a step."""
        return ends_epoch if self.every is None else step % self.every == 0

    def save(
        self, tensors: Mapping[str, Tensor], *, identity: Mapping[str, Any], progress: Any
    ) -> None:
        """Write a checkpoint in the place of the last one.

        Args:
            tensors: Tensors by name.
            identity: What must be the same for training to go on, by name.
            progress: Whatever else JSON can hold.

        Raises:
            OSError: If the file cannot be written; then the last one is still there.
        """
        plain = _plain(tensors)
        metadata = {
            "format": FORMAT,
            "identity": json.dumps(identity),
            "progress": json.dumps(progress),
            "checksum": str(_checksum(plain)),
        }
        unfinished = self.folder / UNFINISHED_NAME
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_file(plain, unfinished, metadata=metadata)
            # Only when the bytes are on the disk may the name point to them; then the name must get there.
            flush(unfinished)
            os.replace(unfinished, self.path)
            flush(self.folder)
        except (SafetensorError, OSError) as error:
            raise self._not_written(error) from error

    def check_folder(self) -> None:
        """Raise an OSError if nothing can be written into the folder, before any training is lost."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self.folder):
                return
        except OSError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: Exception) -> OSError:
        last = "the last whole file is still there" if self.exists else "nothing is there yet"
        return OSError(
            f"`checkpoint` must be a folder with room for a file: {self.folder} cannot be written ({error}), "
            f"and {last}. Make room, or name another folder."
        )

    def load(self, *, identity: Mapping[str, Any]) -> tuple[dict[str, Tensor], Any]:
        """The tensors and the progress of the checkpoint.

        Args:
            identity: What must be the same as when it was written.

        Raises:
            ValueError: If the file is damaged, or of another training.
        """
        try:
            with safe_open(self.path, framework="pt") as file:
                metadata = file.metadata() or {}
                names = file.keys()
                tensors = {name: file.get_tensor(name) for name in names}
        except (SafetensorError, OSError) as error:
            raise self._damaged(str(error)) from error
        if metadata.get("format") != FORMAT:
            raise ValueError(
                f"`checkpoint` must be a folder of `multirel.training`: expected the format {FORMAT!r}, "
                f"got {metadata.get('format')!r} in {self.path}. Use another folder."
            )
        if metadata["checksum"] != str(_checksum(tensors)):
            raise self._damaged("its checksum is another")
        self._check_identity(json.loads(metadata["identity"]), identity)
        return tensors, json.loads(metadata["progress"])

    def _damaged(self, reason: str) -> ValueError:
        return ValueError(
            f"`checkpoint` must be a whole file: {self.path} is damaged ({reason.rstrip('.')}). "
            f"Delete it to start again."
        )

    def _check_identity(self, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
        # JSON knows no tuples, so both sides go through it.
        before, now = _flat(there), _flat(json.loads(json.dumps(here)))
        differences = [
            f"{name} ({before.get(name, 'nothing')} there, {now.get(name, 'nothing')} here)"
            for name in {**before, **now}
            if before.get(name) != now.get(name)
        ]
        if differences:
            n_hidden = len(differences) - N_DIFFERENCES_SHOWN
            more = f" and {n_hidden} more" if n_hidden > 0 else ""
            raise ValueError(
                f"`checkpoint` must be of the same training: {self.path} differs in "
                f"{', '.join(differences[:N_DIFFERENCES_SHOWN])}{more}. Use another folder, or delete the "
                f"file to start again."
            )


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as files hold them: on the CPU, contiguous, no two in the same memory."""
    seen: set[int] = set()
    plain = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        place = value.untyped_storage().data_ptr()
        if place in seen or value.untyped_storage().nbytes() != value.nbytes:
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        plain[name] = value
    return plain


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    return checksum_of(tensors[name] for name in sorted(tensors))


def _flat(tree: Any, name: str = "") -> dict[str, Any]:
    """The leaves of nested dictionaries, by dotted name."""
    if not isinstance(tree, Mapping):
        return {name: tree}
    return {
        key: leaf
        for part, branch in tree.items()
        for key, leaf in _flat(branch, f"{name}.{part}" if name else part).items()
    }
