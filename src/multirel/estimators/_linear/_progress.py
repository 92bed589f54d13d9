"""Progress of solvers, for users who ask for it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["tell", "telling"]

_name: ContextVar[str | None] = ContextVar("name of the estimator", default=None)


@contextmanager
def telling(name: str | None) -> Iterator[None]:
    """Within, solvers write a line per step to the error stream, after a name; None keeps them silent."""
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


def tell(words: Callable[[], str]) -> None:
    """Write a line where users ask for it; the words are put together only then."""
    name = _name.get()
    if name is not None:
        print(f"{name}: {words()}", file=sys.stderr)
