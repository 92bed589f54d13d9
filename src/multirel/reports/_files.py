"""Figures as files."""

import os
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

__all__ = ["save_figure"]

DOTS_PER_INCH = 150


def save_figure(figure: Figure, path: Path) -> None:
    """Write `figure` to `path`, whole or not at all. The ending of the name says the format.

    Args:
        figure: Figure to write.
        path: File to write, which is replaced if it exists.

    Raises:
        OSError: If the file cannot be written.
    """
    # Drawing takes long, so it happens in memory: whatever stops it leaves no file behind.
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix("."), dpi=DOTS_PER_INCH)
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        unfinished.write_bytes(drawn.getbuffer())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
