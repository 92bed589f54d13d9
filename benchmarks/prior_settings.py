"""What the settings of a prior change, on the simulated shops of examples/own_network.py.

Prints the mean accuracy on held-out rows for one changed setting at a time, and how much better than a
head per shop without a prior it is. It shows how much a setting matters, not which value to choose:
that is for cross-validation on training rows.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from multirel.priors import attach_prior

sys.path.append(str(Path(__file__).parents[1] / "examples"))

from own_network import BATCHES, EPOCHS, Network, Rows, accuracy, relations, simulate

PRIOR = {"strength": 3.0}

OPTIMIZERS = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.01}}

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "strength": [{"strength": value} for value in (0.3, 1.0, 3.0, 10.0, 30.0)],
    "start": [{"start": value} for value in (0.0, 0.3, 0.5, 0.6, 0.9)],
    "update_every": [{"update_every": value} for value in (10, 30, 50, 100, 140)],
    "n_updates": [{"n_updates": value, "update_every": 30} for value in (0, 1, 3, None)],
    "again": [{"again": False}, {"again": True}],
    "task shrinkage": [{"shrinkage": {"task": value}} for value in (0.01, 0.1, 0.3, 1.0)],
    "other shrinkage": [
        {"shrinkage": {"output": value, "input": value}} for value in (0.5, 0.9, 0.95, 1.0)
    ],
    "mean": [{"mean": value} for value in ("zero", "task-average", "initial")],
    "scale": [{"scale": "determinant", "strength": value} for value in (1.0, 3.0, 10.0)],
    "apply_every": [{"apply_every": value} for value in (1, 5, 10)],
    "SGD, in the gradient": [
        {"application": "gradient", "strength": value} for value in (1.0, 3.0, 10.0)
    ],
    "Adam, no prior": [{"optimizer": "Adam", "strength": None}],
    "Adam": [{"optimizer": "Adam", "strength": value} for value in (1.0, 10.0, 100.0, 300.0)],
    "Adam, in the gradient": [
        {"optimizer": "Adam", "application": "gradient", "strength": value}
        for value in (1.0, 3.0, 10.0)
    ],
}


def train(rows: Rows, *, optimizer: str = "SGD", again: bool = False, **settings: Any) -> Network:
    """Return a network trained on `rows`, the second time with the covariances held if `again`."""
    if settings.get("strength") is None:
        settings = {"strength": 0.0, "n_updates": 0}
    learned = None
    for _ in range(2 if again else 1):
        x, shop, y = rows
        torch.manual_seed(0)
        network = Network()
        steps = getattr(torch.optim, optimizer)(network.parameters(), **OPTIMIZERS[optimizer])
        prior = attach_prior(network, ["heads.*"], n_samples=len(y), **settings)
        if learned is not None:
            prior.load_state_dict(learned)
            prior.hold()
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(y)).chunk(BATCHES):
                steps.zero_grad()
                objective = cross_entropy(network(x[batch], shop[batch]), y[batch])
                if prior.application == "gradient":
                    objective = objective + prior()
                objective.backward()
                steps.step()
                prior.step(steps)
        learned = prior.state_dict()
    return network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=20)
    n_simulations = parser.parse_args().simulations
    torch.set_num_threads(1)
    correlations = relations(within=0.9, across=0.2)
    data = [simulate(correlations, seed) for seed in range(n_simulations)]
    plain = torch.tensor([accuracy(train(rows, strength=None), test) for rows, test in data])
    print(f"no prior: {plain.mean():.3f}\n")
    print("| setting | value | accuracy | gain |\n|---|---|---|---|")
    for name, variants in VARIANTS.items():
        for variant in variants:
            settings = PRIOR | variant
            scores = [accuracy(train(rows, **settings), test) for rows, test in data]
            gains = torch.tensor(scores) - plain
            error = gains.std() / n_simulations**0.5
            value = ", ".join(f"{key}={value}" for key, value in variant.items())
            mean = plain.mean() + gains.mean()
            print(f"| {name} | {value} | {mean:.3f} | {gains.mean():+.3f} ± {error:.3f} |")


if __name__ == "__main__":
    main()
