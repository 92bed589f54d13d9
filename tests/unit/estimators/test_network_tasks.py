"""Tasks without labels in networks, against the conditional mean written out."""

import numpy as np
import pytest
import torch

from multirel.estimators._network_build import build_network
from multirel.estimators._network_plan import NetworkPlan
from multirel.estimators._network_tasks import AllTasks, plan_of_tasks, with_all_tasks
from tests.unit.estimators.network_builders import PLANS

N_TASKS = 5
LABELLED = np.array([0, 2, 3])
UNLABELLED = np.array([1, 4])
CORRELATION = (
    0.3 + 0.7 * np.eye(N_TASKS) + 0.1 * (np.arange(N_TASKS)[:, None] == 4 - np.arange(N_TASKS))
)
np.fill_diagonal(CORRELATION, 1.0)

TASKS = AllTasks(
    names=tuple("abcde"), n_outputs=(2,) * 5, kinds=("classification",) * 5, labelled=LABELLED
)


def build(plan: NetworkPlan):
    return build_network(
        plan,
        None,
        n_features=4,
        tasks=TASKS.pick(TASKS.names),
        n_outputs=(2,) * 3,
        hidden_sizes=(3,),
        seed=0,
    )


def expand(plan: NetworkPlan, layers=("fc7", "fc8")):
    """The network of some tasks with random weights, that of all tasks, and the first before training."""
    network, initial = build(plan), build(plan)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return (
        network,
        with_all_tasks(network, TASKS, plan=plan, layers=layers, initial=initial),
        initial,
    )


def conditional_mean(weights, covariance):
    """E[W_u | W_l] with mean 0: Σ_ul Σ_ll⁻¹ W_l."""
    between = covariance[np.ix_(UNLABELLED, LABELLED)]
    within = covariance[np.ix_(LABELLED, LABELLED)]
    return np.einsum("ul,loi->uoi", between @ np.linalg.inv(within), weights)


def numbers(tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


@pytest.mark.parametrize("start", [0.0, 0.4, CORRELATION], ids=["apart", "number", "matrix"])
def test_weights_are_the_conditional_mean_at_the_start_correlation(start):
    plan = NetworkPlan(prior={"start": start, "modes": ("task",)})
    few, full, _ = expand(plan)
    covariance = CORRELATION if np.ndim(start) else start + (1 - start) * np.eye(N_TASKS)
    for name in ("fc7", "fc8"):
        weight = numbers(full.heads[name].weight)
        np.testing.assert_array_equal(weight[LABELLED], numbers(few.heads[name].weight))
        expected = conditional_mean(weight[LABELLED], covariance)
        np.testing.assert_allclose(weight[UNLABELLED], expected, rtol=1e-5, atol=1e-6)
        bias = numbers(full.heads[name].bias)
        np.testing.assert_allclose(
            bias[UNLABELLED], np.tile(bias[LABELLED].mean(0), (2, 1)), rtol=1e-5
        )


def test_the_mean_of_the_prior_is_where_weights_are_pulled_to():
    _, full, initial = expand(NetworkPlan(prior={"start": 0.4, "mean": "initial"}))
    start = numbers(initial.heads["fc7"].weight)[0]
    weight = numbers(full.heads["fc7"].weight)
    expected = start + conditional_mean(weight[LABELLED] - start, 0.4 + 0.6 * np.eye(N_TASKS))
    np.testing.assert_allclose(weight[UNLABELLED], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mean_strength", [0.0, 2.0])
def test_with_the_average_as_mean_the_penalty_is_smallest(mean_strength):
    """Any change of the weights of tasks without labels raises tr Wᵀ(C Σ⁻¹ C + μ 11ᵀ/T)W."""
    prior = {"start": CORRELATION, "mean": "task-average", "mean_strength": mean_strength}
    _, full, _ = expand(NetworkPlan(prior=prior))
    weight = numbers(full.heads["fc8"].weight).reshape(N_TASKS, -1)
    centering = np.eye(N_TASKS) - 1 / N_TASKS
    precision = centering @ np.linalg.inv(CORRELATION) @ centering + mean_strength / N_TASKS
    np.testing.assert_allclose((precision @ weight)[UNLABELLED], 0, atol=1e-5)


@pytest.mark.parametrize("name", ["shared", "pooled", "laf", "tucker"])
def test_without_a_prior_they_have_the_average(name: str):
    _, full, _ = expand(PLANS[name], layers=())
    weight = numbers(full.heads["fc8"].weight)
    average = np.tile(weight[LABELLED].mean(0), (2, 1, 1))
    np.testing.assert_allclose(weight[UNLABELLED], average, rtol=1e-4, atol=1e-6)


def test_only_tasks_of_the_same_kind_are_averaged():
    plan = NetworkPlan(sharing="hidden", prior=None)
    kinds = ("regression", "regression", "classification", "regression", "classification")
    tasks = AllTasks(
        names=tuple("abcde"), n_outputs=(1, 1, 3, 1, 1), kinds=kinds, labelled=LABELLED
    )
    network = build_network(
        plan,
        None,
        n_features=4,
        tasks=["a", "c", "d"],
        n_outputs=(1, 3, 1),
        hidden_sizes=(3,),
        seed=0,
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    full = with_all_tasks(network, tasks, plan=plan, layers=(), initial=build(plan))
    known, heads = network.heads["fc8"].layers, full.heads["fc8"].layers
    torch.testing.assert_close(heads[1].weight, (known[0].weight + known[2].weight) / 2)
    # No task with classes has as many outputs.
    assert not bool(heads[4].weight.any())


def test_with_labels_everywhere_the_network_stays_what_it_is():
    tasks = AllTasks(
        names=tuple("abc"), n_outputs=(2,) * 3, kinds=("classification",) * 3, labelled=np.arange(3)
    )
    network = build(PLANS["mrn"])
    assert (
        with_all_tasks(network, tasks, plan=PLANS["mrn"], layers=["fc8"], initial=network)
        is network
    )


def test_a_start_given_as_a_matrix_loses_the_rows_of_tasks_without_labels():
    plan = plan_of_tasks(NetworkPlan(prior={"start": CORRELATION}, layers="output"), TASKS)
    np.testing.assert_array_equal(plan.prior["start"], CORRELATION[np.ix_(LABELLED, LABELLED)])
    assert plan.layers == "output"
    assert plan_of_tasks(PLANS["mrn"], TASKS) is PLANS["mrn"]
