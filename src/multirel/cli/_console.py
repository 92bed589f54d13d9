"""The rich console that commands print to."""

from rich.console import Console

from multirel.cli._layout import is_plain

__all__ = ["make_console"]


def make_console() -> Console:
    """Return a console on stdout that adds nothing to the text it is given but line breaks.

    With `NO_COLOR` it writes no escape codes at all, not even bold.
    """
    return Console(
        color_system=None if is_plain() else "auto", highlight=False, markup=False, emoji=False
    )
