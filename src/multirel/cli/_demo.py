"""`multirel demo`: recover known relations between tasks from simulated weights."""

from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from multirel.cli._layout import Debug
from multirel.cli._run_folder import file_in_run

__all__ = ["DEMO_EXAMPLES", "demo"]

DEMO_EXAMPLES = """\
multirel demo
multirel demo --output my-run --seed 7
multirel demo --samples 500"""

PICTURE_NAME = "recovery.png"
MAX_SAMPLES = 10_000
MAX_SEED = 2**32 - 1


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="RUN", help="Folder for the picture.")
    ] = Path("multirel-demo"),
    samples: Annotated[
        str, typer.Option(metavar="N", help="How often all the weights are drawn.")
    ] = "20",
    seed: Annotated[str, typer.Option(metavar="S", help="Seed of the draws.")] = "0",
    _debug: Debug = False,
) -> None:
    """Show how tasks are related, as read off their weights.

    Draws weights for six related tasks from a tensor normal distribution, estimates the task,
    output and input covariances from the draws alone, and shows how close they come to the true
    ones: as numbers, as Hinton diagrams, and as a picture in the folder RUN.
    """
    n_samples = whole_number(samples, "--samples", low=1, high=MAX_SAMPLES)
    seed_number = whole_number(seed, "--seed", low=0, high=MAX_SEED)
    picture = file_in_run(output, PICTURE_NAME)
    # From here on each import is slow, and comes after what can be said or refused without it.
    from multirel.cli._console import make_console

    console = make_console()
    console.print("Which tasks are related?", style="bold")
    console.print(fill(_introduction(n_samples), console.width) + "\n")

    from multirel.cli._recovery_text import print_recovery
    from multirel.experiments import recover_covariances
    from multirel.reports import comparison_figure, save_figure

    recovery = recover_covariances(n_samples=n_samples, seed=seed_number)
    print_recovery(console, recovery)
    figure = comparison_figure(
        recovery.true_correlations,
        recovery.recovered_correlations,
        names=recovery.mode_names,
        labels=recovery.labels,
        title=f"Correlations recovered from {_draws(n_samples)} of simulated weights",
    )
    save_figure(figure, picture)
    # A path that was broken into lines could not be copied.
    console.print(f"Picture: {picture}", soft_wrap=True)


def whole_number(typed: str, option: str, *, low: int, high: int) -> int:
    """Return the whole number that was typed for an option.

    Args:
        typed: What was typed.
        option: The option it was typed for.
        low: Smallest number that makes sense.
        high: Largest number that makes sense.

    Raises:
        ValueError: If `typed` is not a whole number from `low` to `high`.
    """
    if typed.isdecimal() and low <= int(typed) <= high:
        return int(typed)
    raise ValueError(
        f"`{option}` must be a whole number: expected {low} to {high}, got {typed}. "
        f"Leave out `{option}` for the default."
    )


def _draws(n_samples: int) -> str:
    """Return the number of draws in words."""
    return "1 draw" if n_samples == 1 else f"{n_samples} draws"


def _introduction(n_samples: int) -> str:
    """Return what is about to happen."""
    return (
        "Six invented tasks: rate reviews of books, films, music, phones and laptops, and guess "
        "which articles are returned. Their weights (tasks x outputs x inputs) are drawn from a "
        "tensor normal distribution. How the tasks are related is estimated from "
        f"{_draws(n_samples)}, and compared with the truth."
    )
