"""Many heads at once: copies with seeds and strengths of their own, beside training one after the other."""

from collections.abc import Iterator, Sequence

import torch
from prior_cost_timing import Setup, elapsed, mebibytes, number, peak_memory, table

from multirel.networks import MultitaskNetwork, NetworkCopies
from multirel.priors import attach_prior
from multirel.training import Recipe, TrainingRows, train, train_copies

N_TASKS, N_CLASSES, N_ROWS = 4, 10, 1000
N_SEEDS = 10
BATCH_SIZE = 128


def print_copies(setup: Setup) -> None:
    """Milliseconds per copy and step, for more and more copies."""
    header = [
        "copies", "steps", "whole training (s)", "ms per copy and step", "times as fast as one by one",
        "peak memory (MiB)",
    ]  # fmt: skip
    counts = setup.size((1, 10, 100, 400), (1, 4))
    for n_features, hidden_sizes in setup.size(((2048, (256,)), (2048, ())), ((64, (16,)),)):
        shape = " → ".join(map(str, (n_features, *hidden_sizes, N_CLASSES)))
        table(
            f"Copies of {shape}, T = {N_TASKS}, {N_ROWS} rows, batch {BATCH_SIZE}, {setup.float32}",
            header,
            _rows(setup, counts, n_features=n_features, hidden_sizes=hidden_sizes),
        )


def _rows(
    setup: Setup, counts: Sequence[int], *, n_features: int, hidden_sizes: tuple[int, ...]
) -> Iterator[list[str]]:
    n_steps = setup.size(60, 6)
    rows = _data(setup, n_features)
    recipe = Recipe(
        max_steps=n_steps, batch_size=BATCH_SIZE, precision=setup.size("tf32", "float32")
    )

    def networks(n: int) -> list[MultitaskNetwork]:
        found = []
        for seed in range(n):
            torch.manual_seed(seed)
            network = MultitaskNetwork(
                n_features, N_TASKS, n_outputs=N_CLASSES, hidden_sizes=hidden_sizes
            )
            found.append(network.to(setup.device))
        return found

    def attach(network: torch.nn.Module, strength: object) -> object:
        layers = [f"heads.{name}" for name in network.heads]
        return attach_prior(
            network, layers, n_samples=N_ROWS, strength=strength, update_every=n_steps // 2
        )

    def alone() -> None:
        (network,) = networks(1)
        train(network, rows, recipe=recipe, penalties=[attach(network, 1.0)], progress=False)

    alone()
    single = elapsed(alone, setup)
    yield ["one by one", n_steps, number(single), number(1e3 * single / n_steps), "1", "–"]
    for n in counts:
        starts = networks(n)

        def together(starts: list[MultitaskNetwork] = starts, n: int = n) -> None:
            copies = NetworkCopies(starts)
            prior = attach(copies, torch.linspace(0.1, 10, n))
            recipes = [
                Recipe(**{**recipe.to_dict(), "seed": number % N_SEEDS}) for number in range(n)
            ]
            train_copies(copies, rows, recipes=recipes, penalties=[prior], progress=False)

        together()
        whole = elapsed(together, setup)
        each = whole / n
        peak = peak_memory(together, setup)
        yield [
            n, n_steps, number(whole), number(1e3 * each / n_steps), number(single / each), mebibytes(peak),
        ]  # fmt: skip


def _data(setup: Setup, n_features: int) -> TrainingRows:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N_ROWS, n_features, generator=generator).to(setup.device)
    y = torch.randint(N_CLASSES, (N_ROWS,), generator=generator).to(setup.device)
    return TrainingRows(x, y, torch.randint(N_TASKS, (N_ROWS,), generator=generator))


SECTIONS = {"copies": print_copies}
