"""What plans say about networks."""

from types import SimpleNamespace

import numpy as np
import pytest

from multirel.estimators._network_plan import NetworkPlan, uses_network
from tests.unit.estimators.network_builders import PLANS


@pytest.mark.parametrize(
    ("name", "relates", "n_updates", "is_single"),
    [
        ("single", False, 0, True),
        ("pooled", False, 0, False),
        ("shared", False, 0, False),
        ("fixed", True, 0, False),
        ("mrn", True, 1, False),
        ("mrn-8", True, 1, False),
        ("mrn-on", True, None, False),
        ("tucker", False, 0, False),
    ],
)
def test_plans_know_whether_they_relate_tasks(name, relates, n_updates, is_single):
    plan = PLANS[name]
    assert plan.relates_tasks is relates
    assert plan.n_updates == n_updates
    assert plan.is_single_task is is_single


def test_a_start_given_as_a_matrix_relates_tasks():
    assert NetworkPlan(prior={"start": np.eye(2), "n_updates": 0}).relates_tasks


def test_tasks_that_start_apart_are_related_by_an_update():
    assert NetworkPlan(prior={"start": 0.0, "n_updates": 1}).relates_tasks


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"hidden_sizes": (), "backbone": None}, False),
        ({"hidden_sizes": (3,), "backbone": None}, True),
        ({"hidden_sizes": (), "backbone": "small-cnn"}, True),
        ({}, False),
    ],
)
def test_hidden_layers_and_backbones_need_a_network(settings, expected):
    assert uses_network(SimpleNamespace(**settings)) is expected
