"""Trainings in rounds, and which layers have the prior."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from multirel.estimators._network_build import build_network, task_layers
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._network_rows import LabelledRows
from multirel.estimators._network_training import (
    Training,
    mean_loss,
    prior_layers,
    train_in_rounds,
    train_once,
)
from multirel.priors import attach_prior
from multirel.training import Recipe, train
from tests.unit.estimators.network_builders import PLANS, make_data


def make_training(plan: NetworkPlan, *, max_epochs: int = 6) -> Training:
    data = make_data()
    n_rows = len(data.y)
    rows = LabelledRows(
        torch.from_numpy(data.x).float(),
        torch.arange(n_rows),
        torch.from_numpy(data.y),
        task=torch.from_numpy(data.task),
        weight=torch.linspace(0.5, 1.5, n_rows, dtype=torch.float64),
        n_tasks=3,
    )
    return Training(
        plan=plan,
        rows=rows,
        losses=dict.fromkeys(range(3), "cross-entropy"),
        recipe=Recipe(max_epochs=max_epochs, batch_size=30, learning_rate=0.1),
        strength=2.0,
        divisor=rows.n_samples,
        is_alike=True,
        progress=False,
    )


def make_network(plan: NetworkPlan, *, n_outputs=(3, 3, 3), sizes=(5,)):
    return build_network(
        plan,
        None,
        n_features=4,
        tasks=["a", "b", "c"],
        n_outputs=n_outputs,
        hidden_sizes=sizes,
        seed=0,
    )


def test_the_second_training_starts_again_with_the_covariances_held():
    """Written out: train at the start, update, put the first weights back, and train with the update."""
    plan = PLANS["mrn-shared-covariance"]
    training, network = make_training(plan), make_network(plan)
    done = train_in_rounds(training, network)

    reference = make_network(plan)
    settings = {
        "n_samples": training.divisor,
        "strength": 2.0,
        "n_updates": 0,
        "share_task_covariance": True,
    }
    prior = attach_prior(reference, ["heads.fc7", "heads.fc8"], **settings)
    options = {"recipe": training.recipe, "losses": training.losses, "progress": False}
    train(reference, training.rows, penalties=[prior], **options)
    prior.update()
    state = prior.state_dict()
    second = make_network(plan)
    again = attach_prior(second, ["heads.fc7", "heads.fc8"], **settings)
    again.load_state_dict(state)
    train(second, training.rows, penalties=[again], **options)
    for name, value in second.state_dict().items():
        torch.testing.assert_close(network.state_dict()[name], value)
    assert done.n_steps == 2 * done.history.n_steps
    assert done.prior.n_updates == 1
    np.testing.assert_array_equal(
        done.prior.correlations("heads.fc8", raw=True), prior.correlations("heads.fc8", raw=True)
    )


@pytest.mark.parametrize(("n_updates", "n_trainings"), [(0, 1), (1, 2), (3, 4), (None, 1)])
def test_every_update_is_followed_by_a_training(n_updates, n_trainings):
    plan = NetworkPlan(prior={"n_updates": n_updates})
    done = train_in_rounds(make_training(plan), make_network(plan))
    assert done.n_steps == n_trainings * done.history.n_steps
    if n_updates is None:
        assert done.prior.n_updates == done.history.n_steps
    else:
        assert done.prior.n_updates == n_updates


@pytest.mark.parametrize(
    ("name", "is_alike", "expected"),
    [
        ("mrn", True, ["fc7", "fc8"]),
        ("mrn", False, ["fc7"]),
        ("mrn-8", True, ["fc8"]),
        ("mrn-hidden", True, ["fc7"]),
        ("single", True, ["fc7", "fc8"]),
        ("shared", True, []),
        ("pooled", True, []),
        ("tucker", True, []),
    ],
)
def test_layers_with_the_prior(name: str, is_alike: bool, expected):
    plan = PLANS[name]
    layers = task_layers(make_network(plan))
    assert prior_layers(plan, layers, is_alike=is_alike) == expected


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("mrn", (), "`hidden_sizes` must have a layer to relate"),
        ("mrn-hidden", (), "`hidden_sizes` must have a layer to relate"),
        ("mrn-8", (5,), "`layers` must be 'all' where tasks have different classes"),
    ],
)
def test_a_prior_that_relates_tasks_needs_a_layer(name: str, sizes, message):
    layers = task_layers(make_network(PLANS[name], sizes=sizes))
    with pytest.raises(ValueError, match=message):
        prior_layers(PLANS[name], layers, is_alike=False)


def test_single_tasks_need_none():
    layers = task_layers(make_network(PLANS["single"], sizes=()))
    assert prior_layers(PLANS["single"], layers, is_alike=False) == []


@pytest.mark.parametrize(
    ("plan", "rate"),
    [
        (PLANS["shared"], 2.0),
        (NetworkPlan(prior={"strength": 5.0}), 5.0),
        (NetworkPlan(prior={"strength": 5.0}, ridge=0.5), 0.5),
    ],
)
def test_the_ridge_has_the_strength_of_the_prior_unless_it_has_its_own(plan, rate):
    training = make_training(plan)
    assert training.ridge == pytest.approx(rate / training.divisor)


@pytest.mark.parametrize("name", ["single", "shared", "pooled", "laf"])
def test_all_weights_are_penalized_once(name: str):
    plan = PLANS[name]
    network = make_network(plan)
    training = make_training(plan, max_epochs=1)
    done = train_once(training, network, None)
    total = sum(float(penalty().detach()) for penalty in done.penalties)
    weights = [p for n, p in network.named_parameters() if "bias" not in n]
    expected = sum(float(p.detach().square().sum()) for p in weights)
    assert total == pytest.approx(0.5 * training.ridge * expected, rel=1e-5)


def test_the_mean_loss_is_weighted():
    training = make_training(PLANS["shared"])
    network = make_network(PLANS["shared"])
    # Outputs are zero: the loss is ln 3 for every row, whatever it counts.
    assert mean_loss(training, network) == pytest.approx(np.log(3))
    few = replace(training, rows=training.rows.select(torch.tensor([0, 5])))
    assert mean_loss(few, network) == pytest.approx(np.log(3))
