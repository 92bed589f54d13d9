"""The folder that a command writes to, checked before any work is done."""

import tempfile
from pathlib import Path

__all__ = ["file_in_run"]

WAY_OUT = "Choose another folder with `-o RUN`."


def file_in_run(folder: Path, name: str) -> Path:
    """Return the path of a file that can be written in `folder`, which is made if missing.

    Args:
        folder: Folder to write to.
        name: Name of the file.

    Raises:
        ValueError: If a file is where a folder should be, or a folder where the file should be.
        OSError: If the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Permission bits do not say whether the disk is full or mounted read-only.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        raise ValueError(
            f"`--output` must be a folder: got `{folder}`, where a file is in the way. {WAY_OUT}"
        ) from None
    except OSError as error:
        raise OSError(
            f"`--output` must be a folder that can be written: got `{folder}`, where files cannot "
            f"be created ({error.strerror}). {WAY_OUT}"
        ) from error
    if (folder / name).is_dir():
        raise ValueError(
            f"`--output` must be a folder in which `{name}` can be written: got `{folder}`, where "
            f"a folder has that name. {WAY_OUT}"
        )
    return folder / name
