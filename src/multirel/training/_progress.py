"""Progress with the time left, on the error stream of a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["Report", "show_progress"]

Report = Callable[[int, str], None]
"""Shows how many steps have been made, and a few words."""


@contextmanager
def show_progress(
    wanted: bool | None, *, n_steps: int, console: Console | None = None
) -> Iterator[Report]:
    """A function that shows how many steps have been made, and a few words.

    Args:
        wanted: Whether to show anything; None does so on a terminal only.
        n_steps: Steps of the whole training.
        console: Where to show it; None means the error stream.
    """
    console = Console(stderr=True) if console is None else console
    is_shown = console.is_terminal if wanted is None else wanted
    if not is_shown:
        yield lambda step, words: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("training", total=n_steps)
        yield lambda step, words: bar.update(shown, completed=step, description=words)
