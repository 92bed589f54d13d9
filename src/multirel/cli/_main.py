"""The process around the command line: Ctrl-C, closed pipes, odd encodings, the exit code."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

__all__ = ["main"]

EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 1


def main() -> NoReturn:
    """Leave the process with the exit code of the command in `sys.argv`.

    0 is success, 1 a failure, 2 a wrong use of the command line, 130 Ctrl-C.
    """
    _answer_interrupts()
    _print_any_character()
    # After the signal handler: these imports take long enough for a Ctrl-C to strike.
    from multirel.cli._app import app
    from multirel.cli._errors import report_error

    code: int | str | None = None
    try:
        app(prog_name="multirel")
    except SystemExit as leaving:
        code = leaving.code
    except Exception as error:
        # Read here rather than by typer, so that also errors while typer parses are covered.
        code = report_error(error, debug="--debug" in sys.argv)
    code = _flush(code)
    # The work is done and said: what is left of the interpreter's shutdown cannot be interrupted
    # without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _answer_interrupts() -> None:
    """Make Ctrl-C end the process at once, unless whoever started it said to ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave_at_once)


def _leave_at_once(_signal_number: int, _frame: FrameType | None) -> None:
    """End the process with exit code 130.

    Not by `KeyboardInterrupt`: extension modules that are being imported may turn it into an
    `ImportError`, callbacks swallow it, and both print a traceback. Files are written under a
    temporary name and then renamed, so leaving at any moment leaves no half of one.
    """
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, RuntimeError, ValueError):
        pass  # There is no stdout, it is closed, or the signal came in the middle of a write.
    try:
        os.write(2, b"\nInterrupted.\n")
    except OSError:
        pass  # Nobody is listening.
    os._exit(EXIT_INTERRUPTED)


def _print_any_character() -> None:
    """Make stdout escape what its encoding lacks, such as an accent in a path, as stderr does."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _flush(code: int | str | None) -> int | str | None:
    """Flush stdout and return `code`, or 1 if nobody reads what was still to be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more while it shuts down, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_CLOSED_PIPE
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"Error: Output cannot be written: {error.strerror}.", file=sys.stderr)
        return 1
    return code
