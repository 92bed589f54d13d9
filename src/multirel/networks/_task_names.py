"""The names of tasks, and what layers check about them."""

from collections.abc import Sequence

__all__ = ["check_size", "name_tasks"]


def name_tasks(tasks: int | Sequence[str]) -> tuple[str, ...]:
    """The names of the tasks, which are "0", "1", … where only their number is given.

    Raises:
        TypeError: If `tasks` is neither a number nor a sequence of names.
        ValueError: If there is no task, or two have one name.
    """
    if isinstance(tasks, str | bool) or not isinstance(tasks, int | Sequence):
        raise TypeError(
            f"`tasks` must be a number of tasks or their names: got {type(tasks).__name__}. "
            f"Use a list of names."
        )
    names = tuple(str(name) for name in (range(tasks) if isinstance(tasks, int) else tasks))
    if not names:
        raise ValueError(f"`tasks` must hold at least one task: got {tasks!r}.")
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`tasks` must have one name per task: got {repeated!r} more than once.")
    return names


def check_size(name: str, size: object) -> None:
    """Raise unless `size` is a whole number above 0."""
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"`{name}` must be a whole number: got {type(size).__name__}.")
    if size < 1:
        raise ValueError(f"`{name}` must be at least 1: got {size}.")
