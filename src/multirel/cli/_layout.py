"""Commands whose help ends with examples, whose errors suggest, and that take `--debug`."""

import difflib
import os
import re
import shutil
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["CONTEXT_SETTINGS", "Command", "Debug", "Group"]

MAX_WIDTH = 88

# The default for `help` says what is true anyway. Without it typer converts "not given" to bool
# by pydantic, whose import doubles the time that `multirel COMMAND --help` takes.
CONTEXT_SETTINGS: dict[str, Any] = {
    "help_option_names": ["--help", "-h"],
    "default_map": {"help": False},
}

_HEADING = re.compile(r"^\w+(?=:)", flags=re.MULTILINE)
_NAME = re.compile(r"^  (-{1,2}[\w-]+(?:, -{1,2}[\w-]+)*|[a-z]\w*(?=  ))", flags=re.MULTILINE)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
"""Type of the option that every command takes. `main` is who acts on it."""


class _Layout:
    """Help and suggestions, the same for the command line as a whole and for each command."""

    epilog: str | None

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Return what is left of `args`; an unknown option fails with the nearest known one."""
        # Left to itself typer makes help at least 50 columns wide, also where the terminal is not.
        ctx.terminal_width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except Exception as error:
            # Only "no such option" has possibilities, and typer does not export its class.
            if not hasattr(error, "possibilities"):
                raise
            options = [option for param in self.get_params(ctx) for option in param.opts]  # type: ignore[attr-defined]
            name = getattr(error, "option_name", "")
            ctx.fail(f"No such option '{name}'. {suggestion(name, options, 'Known options:')}")

    def get_help(self, ctx: Any) -> str:
        """Return the help text, with its headings and names marked where a person reads it."""
        text: str = super().get_help(ctx)  # type: ignore[misc]
        if not sys.stdout.isatty() or is_plain():
            return text
        text = _HEADING.sub(lambda found: typer.style(found[0], bold=True), text)
        return _NAME.sub(lambda found: f"  {typer.style(found[1], fg='cyan')}", text)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they are: a line that was wrapped could not be pasted."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"  {line}\n")


class Command(_Layout, TyperCommand):
    """One command of multirel. Its epilog is its examples, one per line."""


class Group(_Layout, TyperGroup):
    """`multirel` itself, which finds the command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` name, or fail with the nearest known one."""
        if self.get_command(ctx, args[0]) is None:
            names = self.list_commands(ctx)
            nearest = suggestion(args[0], names, "Known commands:")
            ctx.fail(f"No such command '{args[0]}'. {nearest}")
        return super().resolve_command(ctx, args)


def is_plain() -> bool:
    """Return whether the environment asks for text without escape codes."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def suggestion(typed: str, known: list[str], else_: str) -> str:
    """Return "Did you mean …?" with the nearest of `known`, or all of them if none is near."""
    bare = {name.lstrip("-").lower(): name for name in known}
    near = difflib.get_close_matches(typed.lstrip("-").lower(), bare, n=1)
    if near:
        return f"Did you mean '{bare[near[0]]}'?"
    return f"{else_} {', '.join(known)}."
