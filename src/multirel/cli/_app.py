"""The commands of multirel and the options that stand before them."""

from typing import Annotated

import typer

from multirel import __version__
from multirel.cli._demo import DEMO_EXAMPLES, demo
from multirel.cli._layout import CONTEXT_SETTINGS, Command, Debug, Group

__all__ = ["app"]

EXAMPLES = """\
multirel demo
multirel demo --help
multirel --version"""

app = typer.Typer(
    cls=Group,
    context_settings=CONTEXT_SETTINGS,
    epilog=EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    # Rich's help and tracebacks import markdown and syntax highlighting: more than `multirel
    # --help` may cost. The layout has what is needed of them.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    """Print the version and end the command, if asked to."""
    if value:
        typer.echo(f"multirel {__version__}")
        raise typer.Exit


@app.callback()
def multirel(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    _debug: Debug = False,
) -> None:
    """Learn several related prediction tasks together, and see how they are related."""


app.command(cls=Command, epilog=DEMO_EXAMPLES)(demo)
