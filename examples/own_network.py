"""A tensor normal prior on the heads of a network that knows nothing of it.

Six shops ask their customers which of four products they like. One network serves them all: a
body that they share, and a head for each. The tables compare training it as it is, with weight
decay, with one head for all shops, and with the prior, by the accuracy on rows that no training
has seen: where the shops are related in two groups, where all of them are alike, and where
each is on its own. Settings are chosen on the training rows alone.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from multirel.priors import attach_prior
from multirel.tensor_normal import TensorNormal

SHOPS = ("oslo", "bergen", "tromso", "lyon", "nice", "lille")
PRODUCTS, INPUTS, HIDDEN = 4, 20, 32
TRAINING_ROWS, HELD_OUT_ROWS = 30, 500
EPOCHS, BATCHES = 50, 3
FOLDS = 3
SIMULATIONS = 3

Rows = tuple[Tensor, Tensor, Tensor]  # x, shop, y


class Network(nn.Module):
    """A body for all shops, and a head for each."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU())
        self.heads = nn.ModuleDict({shop: nn.Linear(HIDDEN, PRODUCTS) for shop in SHOPS})

    def forward(self, x: Tensor, shop: Tensor) -> Tensor:
        features = self.body(x)
        outputs = torch.stack([head(features) for head in self.heads.values()])
        return outputs[shop, torch.arange(len(x))]


def relations(*, within: float, across: float) -> Tensor:
    """Return correlations between the first three shops, the last three, and across."""
    correlations = torch.full((6, 6), across)
    correlations[:3, :3] = correlations[3:, 3:] = within
    return correlations.fill_diagonal_(1.0)


def simulate(correlations: Tensor, seed: int) -> tuple[Rows, Rows]:
    """Return training rows and held-out rows of shops whose customers are so related."""
    torch.manual_seed(seed)
    covariances = [correlations, torch.eye(PRODUCTS), torch.eye(INPUTS)]
    tastes = TensorNormal(torch.zeros(6, PRODUCTS, INPUTS), covariances).sample()

    def draw(n_rows: int) -> Rows:
        shop = torch.arange(6).repeat_interleave(n_rows)
        x = torch.randn(len(shop), INPUTS)
        logits = torch.einsum("noi,ni->no", tastes[shop], x)
        return x, shop, torch.distributions.Categorical(logits=logits).sample()

    return draw(TRAINING_ROWS), draw(HELD_OUT_ROWS)


def train(rows: Rows, *, weight_decay: float = 0.0, strength: float | None = None) -> Network:
    """Return a network trained on `rows`; with a prior on its heads if it has a strength."""
    x, shop, y = rows
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.1, momentum=0.9, weight_decay=weight_decay
    )
    prior = None
    if strength is not None:
        prior = attach_prior(network, ["heads.*"], n_samples=len(y), strength=strength)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(y)).chunk(BATCHES):
            optimizer.zero_grad()
            cross_entropy(network(x[batch], shop[batch]), y[batch]).backward()
            optimizer.step()
            if prior is not None:
                prior.step(optimizer)
    return network


def pooled(rows: Rows) -> Rows:
    """Return the rows as if they came from one shop."""
    x, shop, y = rows
    return x, torch.zeros_like(shop), y


@torch.no_grad()
def accuracy(network: Network, rows: Rows) -> float:
    """Return the share of rows whose product is predicted."""
    x, shop, y = rows
    return float((network(x, shop).argmax(1) == y).float().mean())


def train_best(rows: Rows, name: str, values: tuple[float, ...]) -> Network:
    """Return a network with the setting that cross-validation on its rows likes best."""
    fold = torch.arange(len(rows[0])) % FOLDS

    def score(value: float) -> float:
        total = 0.0
        for left_out in range(FOLDS):
            network = train(select(rows, fold != left_out), **{name: value})
            total += accuracy(network, select(rows, fold == left_out))
        return total

    return train(rows, **{name: max(values, key=score)})


def select(rows: Rows, mask: Tensor) -> Rows:
    """Return some of the rows."""
    x, shop, y = rows
    return x[mask], shop[mask], y[mask]


def compare(correlations: Tensor, seed: int) -> dict[str, float]:
    """Return the held-out accuracy of each way to train, in one simulation."""
    training, held_out = simulate(correlations, seed)
    as_one = pooled(training)
    decays, strengths = (0.01, 0.03), (0.3, 1.0, 3.0)
    networks = {
        "a head per shop": train(training),
        "the same, weight decay": train_best(training, "weight_decay", decays),
        "one head, weight decay": train_best(as_one, "weight_decay", decays),
        "prior, strength 1": train(training, strength=1.0),
        "prior, strength chosen": train_best(training, "strength", strengths),
    }
    return {
        name: accuracy(network, pooled(held_out) if name.startswith("one") else held_out)
        for name, network in networks.items()
    }


def print_table(title: str, correlations: Tensor) -> None:
    """Print the mean accuracy of each way, and its gain over a head per shop."""
    results = [compare(correlations, seed) for seed in range(SIMULATIONS)]
    print(title)
    print(f"{'training':<24}accuracy   gain over a head per shop")
    for name in results[0]:
        scores = torch.tensor([result[name] for result in results])
        gains = scores - torch.tensor([result["a head per shop"] for result in results])
        error = gains.std() / SIMULATIONS**0.5
        gain = "" if name == "a head per shop" else f"{gains.mean():+.3f} ± {error:.3f}"
        print(f"{name:<24}{scores.mean():.3f}      {gain}".rstrip())


if __name__ == "__main__":
    torch.set_num_threads(1)  # more threads are slower on tensors this small
    print_table("Two groups of shops", relations(within=0.9, across=0.2))
    print()
    print_table("All shops alike", relations(within=0.99, across=0.99))
    print()
    print_table("Every shop on its own", relations(within=0.0, across=0.0))
