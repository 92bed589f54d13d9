"""Low rank against full rank on real features: penalty, gradient and final accuracy."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from prior_cost_timing import Setup, number, table, use_tf32
from torch import Tensor

from multirel.networks import MultitaskNetwork
from multirel.priors import attach_prior

LAYERS = {"fc7": "heads.fc7", "fc8": "heads.fc8"}
FRACTION = 0.1
STRENGTH = 10.0
"""Not tuned: ranks are compared at one strength."""

LEARNING_RATE = 0.02

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "shrinkage .1 in all modes, updates without end": {"shrinkage": 0.1, "n_updates": None},
}
"""The defaults shrink outputs and inputs by .95, which hides the rank; the other setting does not."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of features that are ready to use."""

    x: Tensor
    y: Tensor
    task: Tensor


@dataclass(frozen=True, kw_only=True)
class Split:
    """A random split of real data, standardized by its training rows."""

    train: Rows
    test: Rows
    n_tasks: int
    n_classes: int


def load(path: Path) -> dict[str, np.ndarray]:
    """`X`, `y` and `task` of a file; counts become square roots of shares."""
    with np.load(path) as file:
        data = {name: file[name] for name in ("X", "y", "task")}
    x = data["X"].astype(np.float64)
    if np.issubdtype(data["X"].dtype, np.integer):
        x = np.sqrt(x / np.maximum(x.sum(axis=1, keepdims=True), 1))
    for name in ("y", "task"):
        data[name] = np.unique(data[name], return_inverse=True)[1]
    return {**data, "X": x}


def make_split(data: dict[str, np.ndarray], *, seed: int, device: str) -> Split:
    """A tenth of every class of every task to train on, at least one row; the rest to test on."""
    generator = np.random.default_rng(seed)
    is_train = np.zeros(len(data["y"]), dtype=bool)
    for task in np.unique(data["task"]):
        for label in np.unique(data["y"]):
            found = np.flatnonzero((data["task"] == task) & (data["y"] == label))
            n_train = min(len(found), max(1, round(FRACTION * len(found))))
            is_train[generator.permutation(found)[:n_train]] = True
    mean, scale = data["X"][is_train].mean(axis=0), data["X"][is_train].std(axis=0)
    x = (data["X"] - mean) / np.where(scale > 0, scale, 1)

    def rows(chosen: np.ndarray) -> Rows:
        index = np.flatnonzero(chosen)
        index = index[np.argsort(data["task"][index], kind="stable")]
        return Rows(
            x=torch.as_tensor(x[index], dtype=torch.float32, device=device),
            y=torch.as_tensor(data["y"][index], device=device),
            task=torch.as_tensor(data["task"][index]),
        )

    return Split(
        train=rows(is_train),
        test=rows(~is_train),
        n_tasks=len(np.unique(data["task"])),
        n_classes=len(np.unique(data["y"])),
    )


def train(
    split: Split, settings: dict[str, Any] | None, setup: Setup, *, seed: int
) -> MultitaskNetwork:
    """A network trained with all rows at every step; `settings` None attaches no prior."""
    torch.manual_seed(seed)
    network = MultitaskNetwork(
        split.train.x.shape[1],
        split.n_tasks,
        n_outputs=split.n_classes,
        hidden_sizes=(setup.size(1024, 128),),
    ).to(setup.device)
    n_steps = setup.size(400, 200)
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=0.9)
    prior = None
    if settings is not None:
        prior = _attach(
            network, [*LAYERS.values()], split, {"update_every": n_steps // 6, **settings}
        )
    for _ in range(n_steps):
        optimizer.zero_grad()
        F.cross_entropy(network(split.train.x, split.train.task), split.train.y).backward()
        optimizer.step()
        if prior is not None:
            prior.step(optimizer)
    return network


def _attach(
    network: MultitaskNetwork, layers: Sequence[str], split: Split, settings: dict[str, Any]
) -> Any:
    return attach_prior(
        network, layers, n_samples=len(split.train.y), strength=STRENGTH, **settings
    )


@torch.no_grad()
def accuracy(network: MultitaskNetwork, split: Split) -> float:
    """Share of right test rows in percent, averaged over the tasks."""
    network.eval()
    is_right = (network(split.test.x, split.test.task).argmax(1) == split.test.y).cpu()
    shares = [is_right[split.test.task == task].double().mean() for task in range(split.n_tasks)]
    return 100 * float(torch.stack(shares).mean())


def differences(
    network: MultitaskNetwork, split: Split, settings: dict[str, Any], *, ranks: Sequence[int]
) -> dict[int, list[float]]:
    """By rank: for each layer, the relative difference of penalty and of gradient from full rank.

    All are of the same trained weights, after one update of a prior that is newly attached.
    """
    found: dict[int, list[float]] = {rank: [] for rank in ranks}
    for layer in LAYERS.values():
        full, full_gradient = _penalty(network, layer, split, {**settings, "rank": None})
        for rank in ranks:
            low, gradient = _penalty(network, layer, split, {**settings, "rank": rank})
            found[rank] += [
                low / full - 1,
                float((gradient - full_gradient).norm() / full_gradient.norm()),
            ]
    return found


def _penalty(
    network: MultitaskNetwork, layer: str, split: Split, settings: dict[str, Any]
) -> tuple[float, Tensor]:
    prior = _attach(network, [layer], split, {**settings, "application": "gradient"})
    prior.update()
    penalty = prior()
    (gradient,) = torch.autograd.grad(penalty, prior.stacks[0].parameters)
    return float(penalty), gradient


def print_ranks(setup: Setup, features: Path | None) -> None:
    """Two tables per setting: what the rank does to the prior, and to the accuracy."""
    if features is None:
        print("\nThe section `rank` needs real data: give --features FILE.npz with X, y and task.")
        return
    use_tf32(False)
    data = load(features)
    seeds = (0, 1, 2)
    ranks = setup.size((4, 16, 64, 256), (4, 16, 64))
    splits = [make_split(data, seed=seed, device=setup.device) for seed in seeds]
    bare = [_score(split, None, setup, seed=s) for split, s in zip(splits, seeds, strict=True)]
    for name, settings in SETTINGS.items():
        _print_setting(name, settings, splits, seeds=seeds, ranks=ranks, bare=bare, setup=setup)


def _print_setting(
    name: str,
    settings: dict[str, Any],
    splits: Sequence[Split],
    *,
    seeds: Sequence[int],
    ranks: Sequence[int],
    bare: Sequence[float],
    setup: Setup,
) -> None:
    pairs = list(zip(splits, seeds, strict=True))
    full = {**settings, "rank": None}
    networks = [train(split, full, setup, seed=seed) for split, seed in pairs]
    of_full = [
        accuracy(network, split) for network, (split, _) in zip(networks, pairs, strict=True)
    ]
    found = [
        differences(network, split, settings, ranks=ranks)
        for network, (split, _) in zip(networks, pairs, strict=True)
    ]
    shapes = ", ".join(
        "×".join(map(str, stack.weight.shape)) for stack in networks[0].heads.values()
    )
    header = [
        "rank", "fc7: penalty ÷ full − 1", "fc7: gradient, relative difference",
        "fc8: penalty ÷ full − 1", "fc8: gradient, relative difference",
        "accuracy (%)", "minus full rank, ± standard error",
    ]  # fmt: skip

    def rows() -> Iterator[list[str]]:
        for rank in ranks:
            scores = [
                _score(split, {**settings, "rank": rank}, setup, seed=s) for split, s in pairs
            ]
            middle = [
                _signed(statistics.fmean(each[rank][column] for each in found))
                for column in range(2 * len(LAYERS))
            ]
            yield [
                str(rank),
                *middle,
                number(statistics.fmean(scores)),
                _difference(scores, of_full),
            ]
        yield ["full", *["0"] * 4, number(statistics.fmean(of_full)), "0"]
        yield ["no prior", *["–"] * 4, number(statistics.fmean(bare)), _difference(bare, of_full)]

    split = splits[0]
    title = (
        f"Low rank against full rank, {name}: stacks {shapes}, {len(split.train.y)} training rows, "
        f"strength {STRENGTH:g}, {len(seeds)} seeds, float32"
    )
    table(title, header, rows())


def _score(split: Split, settings: dict[str, Any] | None, setup: Setup, *, seed: int) -> float:
    return accuracy(train(split, settings, setup, seed=seed), split)


def _difference(scores: Sequence[float], others: Sequence[float]) -> str:
    """Mean difference of pairs and its standard error."""
    values = [score - other for score, other in zip(scores, others, strict=True)]
    deviation = statistics.stdev(values) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):+.2f} ± {deviation / math.sqrt(len(values)):.2f}"


def _signed(value: float) -> str:
    return f"{value:+.1e}" if value < 0 else f"{value:.1e}"
