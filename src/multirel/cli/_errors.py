"""What a person reads when a command fails, and the exit code that goes with it."""

import traceback

import typer

from multirel.exceptions import MultirelError

__all__ = ["EXIT_FAILURE", "EXIT_WRONG_USE", "report_error"]

EXIT_FAILURE = 1
EXIT_WRONG_USE = 2


def report_error(error: Exception, *, debug: bool) -> int:
    """Return the exit code for `error`, after one sentence about it on stderr.

    Args:
        error: What stopped the command.
        debug: Print the traceback instead of the sentence.
    """
    if debug:
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    else:
        typer.echo(f"Error: {_sentence(error)}", err=True)
    is_wrong_use = isinstance(error, ValueError) and not isinstance(error, MultirelError)
    return EXIT_WRONG_USE if is_wrong_use else EXIT_FAILURE


def _sentence(error: Exception) -> str:
    """Return what `error` says, on one line, in words that help the person who sees it."""
    if isinstance(error, OSError) and error.strerror is not None:
        where = "" if error.filename is None else f"`{error.filename}`: "
        return f"{where}{error.strerror}."
    message = " ".join(str(error).split())
    if isinstance(error, (MultirelError, ValueError, OSError)) and message:
        return message
    return (
        f"multirel met an error that it did not expect, {type(error).__name__}: {message or '-'}. "
        "Add --debug to the same command to see where."
    )
