"""Copies that train side by side come out as if each had trained alone."""

from math import isnan

import pytest
import torch
from torch import Tensor

from multirel.networks import MultitaskNetwork, NetworkCopies
from multirel.priors import attach_prior
from multirel.training import Recipe, TrainingRows, train, train_copies
from tests.environment import DTYPE, assert_close

N_ROWS, N_FEATURES, N_TASKS, N_CLASSES = 120, 9, 3, 4
N_COPIES = 4
STRENGTHS = torch.tensor([0.1, 1.0, 5.0, 2.0], dtype=torch.float64)


def make_rows(*, n_missing: int = 0) -> TrainingRows:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N_ROWS, N_FEATURES, generator=generator, dtype=DTYPE)
    y = torch.randint(N_CLASSES, (N_ROWS,), generator=generator)
    y[:n_missing] = -1
    task = torch.randint(N_TASKS, (N_ROWS,), generator=generator)
    return TrainingRows(x, y, task, missing_label=-1)


def make_networks(*, shared_layers: int = 0, n: int = N_COPIES) -> list[MultitaskNetwork]:
    networks = []
    for seed in range(n):
        torch.manual_seed(seed)
        network = MultitaskNetwork(
            N_FEATURES,
            N_TASKS,
            n_outputs=N_CLASSES,
            hidden_sizes=(8, 6),
            shared_layers=shared_layers,
        )
        networks.append(network.to(DTYPE))
    return networks


def make_index() -> list[Tensor]:
    """Two seeds choose the rows, two copies each."""
    generators = [torch.Generator().manual_seed(b // 2) for b in range(N_COPIES)]
    return [torch.randperm(N_ROWS, generator=generator)[:80] for generator in generators]


def make_recipes(rates: list[float], **settings) -> list[Recipe]:
    settings = {"max_steps": 24, "batch_size": 16} | settings
    return [
        Recipe(learning_rate=rate, seed=number // 2, **settings)
        for number, rate in enumerate(rates)
    ]


SGD = [0.1, 0.03, 0.05, 0.01]
ADAMW = [1e-2, 1e-3, 3e-3, 1e-3]


@pytest.mark.parametrize("application", ["proximal", "gradient"])
@pytest.mark.parametrize(
    ("rates", "settings"),
    [
        (SGD, {}),
        (SGD, {"clip_norm": 0.5, "weight_decay": 0.01, "sampling": "equal"}),
        (SGD, {"sampling": "per-task", "batch_size": 4, "decay": "cosine", "nesterov": True}),
        (ADAMW, {"optimizer": "adamw", "weight_decay": 0.1}),
    ],
)
@pytest.mark.parametrize("shared_layers", [0, 1])
def test_copies_train_as_if_alone(rates, settings, application: str, shared_layers: int):
    layers = ["heads.fc7", "heads.fc8"][shared_layers:]
    schedule = {"update_every": 10, "n_updates": 2, "application": application}
    rows, index, recipes = make_rows(), make_index(), make_recipes(rates, **settings)
    n_samples = torch.tensor([len(mine) for mine in index], dtype=torch.float64)

    copies = NetworkCopies(make_networks(shared_layers=shared_layers))
    prior = attach_prior(copies, layers, n_samples=n_samples, strength=STRENGTHS, **schedule)
    histories = train_copies(copies, rows, index=index, recipes=recipes, penalties=[prior])
    together = make_networks(shared_layers=shared_layers)
    copies.write_to(together)

    alone = make_networks(shared_layers=shared_layers)
    for b, network in enumerate(alone):
        own = attach_prior(network, layers, n_samples=80, strength=float(STRENGTHS[b]), **schedule)
        history = train(network, rows.select(index[b]), recipe=recipes[b], penalties=[own])
        for name, value in network.state_dict().items():
            assert_close(together[b].state_dict()[name], value, factor=100)
        assert_close(histories[b].loss, history.loss, factor=100)
        assert_close(histories[b].penalty, history.penalty, factor=100)
        assert histories[b].learning_rate == history.learning_rate
        assert histories[b].sampling == history.sampling
        assert histories[b].epoch_end == history.epoch_end
        assert histories[b].validation_score == history.validation_score
        assert histories[b].n_samples == history.n_samples
        for layer in layers:
            assert_close(prior.correlations(layer)[b], own.correlations(layer), factor=1000)


def test_without_an_index_every_copy_has_all_rows_with_labels():
    copies = NetworkCopies(make_networks())
    histories = train_copies(copies, make_rows(n_missing=20), recipes=Recipe(max_epochs=2))
    assert [history.n_samples for history in histories] == [N_ROWS - 20] * N_COPIES
    assert [history.n_epochs for history in histories] == [2] * N_COPIES


def test_a_copy_that_diverges_stops_and_the_others_go_on():
    recipes = make_recipes([0.05, 1e30, 0.05, 0.05], decay="constant")
    networks = make_networks()
    copies = NetworkCopies(networks)
    prior = attach_prior(copies, "heads.fc8", n_samples=80, update_every=10, n_updates=None)
    histories = train_copies(
        copies, make_rows(), index=make_index(), recipes=recipes, penalties=[prior]
    )
    copies.write_to(networks)
    assert [isnan(history.loss[-1]) for history in histories] == [False, True, False, False]
    for network in networks:
        assert all(bool(value.isfinite().all()) for value in network.state_dict().values())
    assert histories[2].loss[-1] < histories[2].loss[0]


def test_squared_losses_and_weights_of_rows_count_as_for_one_network():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, N_FEATURES, generator=generator, dtype=DTYPE)
    y = torch.randn(60, generator=generator, dtype=DTYPE)
    rows = TrainingRows(x, y, torch.arange(60) % N_TASKS, weight=torch.rand(60) + 0.5)
    recipe = Recipe(max_steps=10, batch_size=12)

    def start() -> MultitaskNetwork:
        torch.manual_seed(3)
        return MultitaskNetwork(N_FEATURES, N_TASKS, n_outputs=1).to(DTYPE)

    networks = [start(), start()]
    copies = NetworkCopies(networks)
    train_copies(copies, rows, recipes=recipe, losses="squared")
    copies.write_to(networks)
    alone = start()
    train(alone, rows, recipe=recipe, losses="squared")
    for network in networks:
        assert_close(network.heads["fc8"].weight, alone.heads["fc8"].weight, factor=100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipes": [Recipe()] * 2}, "`recipes` must be one per copy: expected 4, got 2"),
        ({"index": [torch.arange(3)]}, "`index` must be one per copy: expected 4, got 1"),
        (
            {"recipes": [Recipe(momentum=b / 10) for b in range(N_COPIES)]},
            "must differ in learning_rate and seed only: got momentum 0.0, 0.1",
        ),
        ({"recipes": Recipe(accumulate=2)}, "`accumulate` must be left alone .* got 2"),
        ({"recipes": Recipe(validation_fraction=0.2)}, "`validation_fraction` must be left alone"),
        ({"recipes": Recipe(patience=3)}, "`patience` must be left alone .* got 3"),
        (
            {"index": [torch.arange(10 * b + 40) for b in range(N_COPIES)]},
            "the same number of steps: got 100 to 150. Set `max_steps`",
        ),
        ({"index": [torch.arange(0)] * N_COPIES}, "a row with a label: got none in 0 rows"),
    ],
)
def test_copies_that_cannot_train_together_are_refused(options, message: str):
    options = {"recipes": Recipe()} | options
    with pytest.raises(ValueError, match=message):
        train_copies(NetworkCopies(make_networks()), make_rows(), **options)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"strength": torch.ones(3)},
            r"`strength` must be one number, or one per copy: expected 4",
        ),
        ({"n_samples": torch.ones(4, 2)}, r"`n_samples` must be one number, or one per copy"),
        ({"n_samples": torch.tensor([1.0, 2, 3, 0])}, "expected more than 0, got 0.0"),
        ({"inverse": "pseudo"}, "`inverse` must be 'ridge' for layers that hold copies"),
    ],
)
def test_priors_that_do_not_fit_the_copies_are_refused(settings, message: str):
    copies = NetworkCopies(make_networks())
    with pytest.raises(ValueError, match=message):
        attach_prior(copies, "heads.fc8", **({"n_samples": 80} | settings))


def test_numbers_per_copy_are_refused_for_a_network_alone():
    (network,) = make_networks(n=1)
    with pytest.raises(
        ValueError, match="`strength` must be one number, or one per copy: expected one"
    ):
        attach_prior(network, "heads.fc8", n_samples=80, strength=torch.ones(2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"recipes": None}, TypeError, "`recipes` must be a Recipe, or one per copy: got None"),
        ({"index": ["a"] * N_COPIES}, TypeError, "`index` must hold numbers"),
        ({"index": [torch.ones(N_ROWS).bool()] * N_COPIES}, TypeError, "`mask.nonzero"),
        ({"index": [[0, N_ROWS]] * N_COPIES}, ValueError, "expected 0 to 119, got 120"),
        ({"index": [[0, -1]] * N_COPIES}, ValueError, "expected 0 to 119, got -1"),
    ],
)
def test_rows_and_recipes_of_copies_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        train_copies(
            NetworkCopies(make_networks()),
            make_rows(),
            **{"recipes": Recipe(max_steps=1)} | options,
        )


def test_copies_and_rows_have_their_types():
    with pytest.raises(TypeError, match="`copies` must be NetworkCopies: got list"):
        train_copies(make_networks(), make_rows(), recipes=Recipe(max_steps=1))
    with pytest.raises(TypeError, match="`rows` must be TrainingRows: got tuple"):
        train_copies(NetworkCopies(make_networks()), (1, 2), recipes=Recipe(max_steps=1))
