"""Ctrl-C during a fit: solvers stop at what they have, rather than lose it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interruptible", "is_interrupted"]


class _State:
    """Whether a fit that is going on shall stop."""

    is_requested = False


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, the first Ctrl-C asks solvers to stop; the second one raises KeyboardInterrupt as ever.

    Elsewhere than in the main thread, or where a program handles Ctrl-C in its own way, nothing changes.
    """
    _State.is_requested = False
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _request)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _State.is_requested = False


def is_interrupted() -> bool:
    """Whether solvers shall stop at what they have."""
    return _State.is_requested


def _request(number: int, frame: FrameType | None) -> None:
    if _State.is_requested:
        signal.default_int_handler(number, frame)
    _State.is_requested = True
