"""Files whose bytes, and whose names, are on the disk."""

import os
from pathlib import Path

__all__ = ["flush"]


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk.

    Names are written apart from the files; where folders cannot be opened, the system sees to them.
    """
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
