"""The command `multirel`, run as a person would run it: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
COMMAND = (sys.executable, "-m", "multirel")

# What a continuous integration service sets may switch colors on or off.
_TERMINAL_VARIABLES = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TERM"}


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a plain terminal, changed by `variables`."""
    kept = {name: value for name, value in os.environ.items() if name not in _TERMINAL_VARIABLES}
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Without it the encoding of a process whose output is captured depends on the locale.
    return kept | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "TERM": "xterm"} | variables


def run(*arguments: str, folder: Path | None = None, **variables: str):
    """Return the finished process of `multirel` with these arguments."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        cwd=folder,
        encoding="utf-8",
        env=environment(**variables),
        timeout=120,
    )
