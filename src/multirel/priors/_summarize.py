"""The rows of a prior's summary."""

from collections.abc import Sequence
from math import prod

import torch

from multirel.priors._settings import PriorSettings
from multirel.priors._stack_prior import StackPrior
from multirel.priors._summary import PriorSummary, SummaryRow

__all__ = ["summarize"]

GIGA = 1e9
MANY = 0.01 * GIGA
"""Operations that are counted in billions."""


def summarize(
    priors: Sequence[StackPrior], settings: PriorSettings, *, n_updates: int
) -> PriorSummary:
    """One row per stack: what is learned, how strongly it acts, what it costs."""
    return PriorSummary([_row(prior, settings, n_updates) for prior in priors])


def _row(prior: StackPrior, settings: PriorSettings, n_updates: int) -> SummaryRow:
    stack = prior.stack
    learned = [
        mode for mode, step in zip(stack.modes, prior.steps, strict=True) if step is not None
    ]
    ranks = dict(zip(stack.modes, stack.shape, strict=True))
    smallest, largest, mean = _eigenvalues(prior)
    limit = "no end" if settings.n_updates is None else str(settings.n_updates)
    return SummaryRow(
        layer=stack.layer,
        shape=" × ".join(map(str, stack.shape)),
        modes=", ".join(f"{mode} {settings.shrinkage_of(mode):g}" for mode in learned),
        rank=", ".join(str(settings.rank_of(mode, ranks[mode]) or "full") for mode in learned),
        condition=largest / smallest if smallest > 0 else float("inf"),
        strength=float(torch.as_tensor(settings.strength / settings.n_samples).mean()) * mean,
        cost=_cost(prior, settings),
        updates=f"{n_updates} of {limit}",
        correlations="change" if prior.reports_change else "weights",
    )


def _eigenvalues(prior: StackPrior) -> tuple[float, float, float]:
    """Smallest, largest and mean eigenvalue of the precision; averages over the copies."""
    smallest, largest, mean = 1.0, 1.0, 1.0
    for spectrum in prior.spectra:
        rank = spectrum.basis.shape[-1]
        n_outside = spectrum.size - rank
        values = spectrum.inside
        if n_outside:
            values = torch.cat(
                [values, spectrum.outside.expand(values.shape[:-1]).unsqueeze(-1)], -1
            )
        smallest *= float(values.min(-1).values.mean())
        largest *= float(values.max(-1).values.mean())
        total = spectrum.inside.sum(-1) + n_outside * spectrum.outside
        mean *= float(total.mean()) / spectrum.size
    return smallest, largest, mean


def _cost(prior: StackPrior, settings: PriorSettings) -> str:
    """Operations of one application, or of one gradient."""
    ranks = [spectrum.basis.shape[-1] for spectrum in prior.spectra]
    n_operations = 4 * prod(prior.stack.shape) * sum(ranks)
    amount = (
        f"{n_operations / GIGA:.2g} GFLOP" if n_operations >= MANY else f"{n_operations:.2g} FLOP"
    )
    if settings.application == "gradient":
        return f"{amount} per gradient"
    every = settings.apply_every_of(prior.stack.n_weights)
    return f"{amount} every {'step' if every == 1 else f'{every} steps'}"
