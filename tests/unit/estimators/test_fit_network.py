"""Networks of all methods, from rows to predictions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from torch import nn

from multirel.estimators import SingleTaskClassifier, SingleTaskRegressor
from multirel.estimators._network_plan import NetworkPlan
from multirel.exceptions import MultirelWarning
from multirel.networks import MultitaskNetwork
from multirel.training import Callback, Recipe
from tests.environment import DEVICE
from tests.unit.estimators.network_builders import (
    PLANS,
    Data,
    PlannedClassifier,
    PlannedRegressor,
    fit,
    make_data,
    make_images,
    make_module,
)

ROUNDOFF = 2e-5
"""Largest difference that sums in another order make, in single precision, relative to the largest output."""

SMALL = {"max_epochs": 4, "learning_rate": 0.01}

ALL_PLANS = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())


class Passing(nn.Module):
    """Gives what it gets, with a parameter that trains and does nothing: the network is a linear model."""

    n_features = 4

    def __init__(self):
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + 0 * self.nothing


def scores(estimator, data: Data, x=None) -> np.ndarray:
    return estimator.model_.scores(data.x if x is None else x, data.task)


def assert_near(actual, expected, *, tolerance: float = ROUNDOFF):
    scale = np.abs(expected[np.isfinite(expected)]).max()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


@ALL_PLANS
@pytest.mark.parametrize("n_classes", [None, 3], ids=["numbers", "classes"])
def test_every_method_learns(plan: NetworkPlan, n_classes):
    data, new = make_data(n_classes), make_data(n_classes, seed=1)
    if n_classes is None:
        estimator = fit(PlannedRegressor(plan=plan, device=DEVICE), data)
        assert estimator.score(new.x, new.y, tasks=new.tasks) > (
            0.5 if plan.sharing == "all" else 0.75
        )
    else:
        estimator = fit(PlannedClassifier(plan=plan, device=DEVICE), data)
        assert estimator.score(new.x, new.y, tasks=new.tasks) > 0.7
    assert scores(estimator, data).dtype == np.float64
    assert estimator.converged_
    assert estimator.n_iter_ >= estimator.history_.n_steps == 40
    assert 0 < estimator.objective_ < np.inf


@ALL_PLANS
def test_the_same_seed_gives_the_same_bits(plan: NetworkPlan):
    data = make_data()
    settings = {"plan": plan, "batch_size": 16, "max_epochs": 5}
    first, second = (fit(PlannedClassifier(**settings), data) for _ in range(2))
    np.testing.assert_array_equal(scores(first, data), scores(second, data))
    other = fit(PlannedClassifier(**settings, random_state=1), data)
    assert not np.array_equal(scores(first, data), scores(other, data))


@ALL_PLANS
@pytest.mark.parametrize("n_classes", [None, 3], ids=["numbers", "classes"])
def test_the_order_of_rows_does_not_matter_with_full_batches(plan: NetworkPlan, n_classes):
    data = make_data(n_classes)
    order = np.random.default_rng(5).permutation(len(data.y))
    make = PlannedRegressor if n_classes is None else PlannedClassifier
    expected = scores(fit(make(plan=plan, **SMALL), data), data)
    shuffled = replace(data, x=data.x[order], y=data.y[order], tasks=data.tasks[order])
    assert_near(scores(fit(make(plan=plan, **SMALL), shuffled), data), expected)


@ALL_PLANS
def test_the_names_of_tasks_do_not_matter(plan: NetworkPlan):
    data = make_data()
    renamed = replace(data, tasks=np.array(["z", "x", "y"])[data.task])
    expected = fit(PlannedClassifier(plan=plan, **SMALL), data)
    actual = fit(PlannedClassifier(plan=plan, **SMALL), renamed)
    assert_near(scores(actual, renamed), scores(expected, data))
    if plan.relates_tasks:
        order = [0, 2, 1]
        for name, matrix in expected.correlations_.items():
            there = actual.correlations_[name][np.ix_([2, 0, 1], [2, 0, 1])]
            np.testing.assert_allclose(there, matrix, atol=1e-3, err_msg=f"{name} {order}")


@ALL_PLANS
def test_the_names_of_classes_do_not_matter(plan: NetworkPlan):
    data = make_data()
    order = np.array([1, 2, 0])
    expected = scores(fit(PlannedClassifier(plan=plan, **SMALL), data), data)
    renamed = replace(data, y=order[data.y])
    actual = scores(fit(PlannedClassifier(plan=plan, **SMALL), renamed), data)
    assert_near(actual[:, order], expected)


@ALL_PLANS
@pytest.mark.parametrize("n_classes", [None, 3], ids=["numbers", "classes"])
def test_weights_of_rows_count_as_repetition(plan: NetworkPlan, n_classes):
    data = make_data(n_classes)
    counts = np.random.default_rng(6).integers(0, 3, len(data.y))
    index = np.repeat(np.arange(len(data.y)), counts)
    repeated = replace(data, x=data.x[index], y=data.y[index], tasks=data.tasks[index])
    make = PlannedRegressor if n_classes is None else PlannedClassifier
    expected = scores(fit(make(plan=plan, **SMALL), repeated), data)
    actual = fit(make(plan=plan, **SMALL), data, sample_weight=counts)
    assert_near(scores(actual, data), expected)


def test_tasks_can_weigh_the_same():
    data = make_data()
    counts = np.bincount(data.task)
    weight = (1 / counts)[data.task]
    expected = fit(PlannedClassifier(plan=PLANS["mrn"], **SMALL), data, sample_weight=weight)
    estimator = PlannedClassifier(plan=PLANS["mrn"], task_weighting="equal", **SMALL)
    assert_near(scores(fit(estimator, data), data), scores(expected, data))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_a_network_without_hidden_layers_finds_what_the_linear_solver_finds(loss, n_classes):
    """Single task, softmax and one output, both losses: another way to the same minimum."""
    data = make_data(n_classes)
    settings = {"loss": loss, "standardize": False, "strength": 5.0}
    linear = fit(SingleTaskClassifier(**settings), data)
    deep = SingleTaskClassifier(
        backbone=Passing(),
        max_epochs=400,
        learning_rate=0.03,
        batch_size=10_000,
        random_state=0,
        **settings,
    )
    fit(deep, data)
    assert_near(scores(deep, data), scores(linear, data), tolerance=2e-3)
    assert deep.objective_ == pytest.approx(linear.objective_, rel=1e-4)


def test_a_network_for_numbers_finds_what_the_linear_solver_finds():
    data = make_data(None)
    settings = {"standardize": False, "strength": 5.0}
    linear = fit(SingleTaskRegressor(**settings), data)
    deep = SingleTaskRegressor(
        backbone=Passing(),
        max_epochs=400,
        learning_rate=0.03,
        batch_size=10_000,
        random_state=0,
        **settings,
    )
    fit(deep, data)
    assert_near(scores(deep, data), scores(linear, data), tolerance=2e-3)
    assert deep.objective_ == pytest.approx(linear.objective_, rel=1e-4)


@pytest.mark.parametrize("name", ["single", "pooled", "shared", "mrn"])
def test_methods_start_from_the_same_function(name: str):
    """One step of next to no length: hidden layers have equal weights whoever owns them."""
    data = make_data()
    estimator = PlannedClassifier(plan=PLANS[name], max_epochs=1, learning_rate=1e-12)
    network = fit(estimator, data).network_
    layer = network.shared["fc7"] if "fc7" in network.shared else network.heads["fc7"]
    weight = layer.weight.detach() if layer.weight.ndim == 2 else layer.weight.detach()[1]
    reference = fit(clone(estimator).set_params(plan=PLANS["single"]), data).network_
    torch.testing.assert_close(weight, reference.heads["fc7"].weight.detach()[0])


@ALL_PLANS
def test_tasks_with_classes_of_their_own(plan: NetworkPlan):
    data = make_data(4)
    y = data.y.copy()
    y[data.task == 0] = y[data.task == 0] % 2 + 10
    y[data.task == 1] = y[data.task == 1] % 3 + 20
    own = replace(data, y=y)
    estimator = PlannedClassifier(plan=plan, classes="per-task")
    if plan.sharing == "all":
        with pytest.raises(ValueError, match="`classes` must be the same in all tasks"):
            fit(estimator, own)
        return
    if plan.layers == "output":
        with pytest.raises(ValueError, match="`layers` must be 'all' where tasks have different"):
            fit(estimator, own)
        return
    fit(estimator, own)
    assert estimator.score(own.x, own.y, tasks=own.tasks) > 0.6
    assert scores(estimator, own).shape == (len(y), 4)
    found = scores(estimator, own)
    assert np.isinf(found[data.task == 0, 1:]).all()
    assert np.isfinite(found[data.task == 2]).all()
    probabilities = estimator.predict_proba(own.x, tasks=own.tasks)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    if plan.relates_tasks:
        assert [*estimator.correlations_] == ["fc7"]


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("name", ["single", "shared", "mrn"])
def test_tasks_that_predict_numbers_beside_tasks_with_classes(name: str, loss: str):
    data, numbers = make_data(3), make_data(None)
    y = data.y.astype(object)
    y[data.task == 1] = numbers.y[data.task == 1]
    y[data.task == 2] = data.y[data.task == 2] > 0
    mixed = replace(data, y=y)
    estimator = PlannedClassifier(
        plan=PLANS[name], kinds={"b": "regression"}, classes="per-task", loss=loss
    )
    fit(estimator, mixed)
    predicted = estimator.predict(mixed.x, tasks=mixed.tasks)
    is_number = data.task == 1
    assert predicted.dtype == object
    errors = predicted[is_number].astype(float) - numbers.y[is_number]
    assert np.var(errors) < 0.3 * np.var(numbers.y[is_number])
    assert np.mean(predicted[~is_number] == y[~is_number]) > 0.6


@ALL_PLANS
def test_a_task_without_labels_is_predicted_from_the_others(plan: NetworkPlan):
    data = make_data(None)
    y = np.where(data.task == 1, np.nan, data.y)
    estimator = fit(PlannedRegressor(plan=plan), replace(data, y=y))
    predicted = estimator.predict(data.x, tasks=data.tasks)[data.task == 1]
    truth = data.y[data.task == 1]
    assert np.isfinite(predicted).all()
    if plan.is_single_task:
        # Nothing is known about its weights, so it has the average of the intercepts.
        assert np.ptp(predicted) < 1e-6
    else:
        assert np.corrcoef(predicted, truth)[0, 1] > 0.5
    assert estimator.network_.tasks == ("a", "b", "c")
    if plan.relates_tasks:
        correlations = [*estimator.correlations_.values()][-1]
        assert np.isnan(correlations[1]).all()
        assert np.isfinite(correlations[0, [0, 2]]).all()


@ALL_PLANS
def test_one_task_has_nothing_to_be_related_to(plan: NetworkPlan):
    data = make_data()
    estimator = PlannedClassifier(plan=plan).fit(data.x, data.y)
    assert estimator.prior_ is None
    assert estimator.score(data.x, data.y) > 0.6


def test_wide_labels_share_their_rows():
    data = make_data(None)
    wide = np.stack([data.y, data.y + 100, np.where(data.task == 0, np.nan, -data.y)], axis=1)
    estimator = PlannedRegressor(plan=PLANS["mrn"]).fit(data.x, wide)
    predicted = estimator.predict(data.x)
    assert predicted.shape == wide.shape
    assert np.mean(np.square(predicted - wide)[:, :2]) < 0.3 * np.var(data.y)


def test_sparse_features_are_those_of_the_array():
    data = make_data()
    x = np.where(np.abs(data.x) > 0.5, data.x, 0)
    settings = {"plan": PLANS["mrn"], "standardize": False, **SMALL}
    dense = fit(PlannedClassifier(**settings), replace(data, x=x))
    found = fit(PlannedClassifier(**settings), replace(data, x=sparse.csr_array(x)))
    assert_near(scores(found, data, sparse.csr_array(x)), scores(dense, data, x))


def test_units_of_features_and_targets_do_not_matter():
    data = make_data(None)
    scale, shift = np.array([1e3, 1e-3, 1, 7]), np.array([1e4, 0, 1, -5])
    expected = fit(PlannedRegressor(plan=PLANS["mrn"], **SMALL), data)
    moved = replace(data, x=data.x * scale + shift, y=1e4 * data.y - 3)
    actual = fit(PlannedRegressor(plan=PLANS["mrn"], **SMALL), moved)
    assert_near(scores(actual, moved), 1e4 * scores(expected, data) - 3)
    assert actual.objective_ == pytest.approx(1e8 * expected.objective_, rel=1e-3)


def test_constant_targets_and_features_are_no_trouble():
    data = make_data(None)
    constant = replace(data, y=np.full(len(data.y), 3.5), x=data.x * np.array([1, 0, 1, 1]))
    for plan in PLANS.values():
        predicted = fit(PlannedRegressor(plan=plan, **SMALL), constant).predict(
            data.x, tasks=data.tasks
        )
        np.testing.assert_allclose(predicted, 3.5)


def test_scores_of_a_row_do_not_depend_on_the_rows_beside_it():
    data = make_data()
    estimator = fit(PlannedClassifier(plan=PLANS["mrn"]), data)
    alone = [estimator.model_.scores(data.x[i : i + 1], data.task[i : i + 1])[0] for i in range(9)]
    np.testing.assert_allclose(alone, scores(estimator, data)[:9], rtol=1e-12, atol=1e-13)


@ALL_PLANS
def test_estimators_can_be_pickled(plan: NetworkPlan):
    data = make_data()
    estimator = fit(PlannedClassifier(plan=plan, **SMALL), data)
    copy = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(scores(copy, data), scores(estimator, data))
    assert copy.model_.network is copy.network_


def test_settings_and_rows_stay_as_they_are():
    data, module = make_images(), make_module()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = data.x.copy()
    state = torch.random.get_rng_state()
    fit(PlannedClassifier(plan=PLANS["mrn"], backbone=module, **SMALL), data)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    np.testing.assert_array_equal(data.x, x)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("name", ["single", "pooled", "shared", "mrn", "tucker"])
@pytest.mark.parametrize("hidden_sizes", [(), (12,)], ids=["linear-heads", "hidden"])
def test_a_backbone_that_trains_learns_with_the_heads(name: str, hidden_sizes):
    data = make_images(30)
    backbone = make_module()
    estimator = PlannedClassifier(
        plan=PLANS[name],
        backbone=backbone,
        hidden_sizes=hidden_sizes,
        batch_size=10,
        learning_rate=0.02,
    )
    fit(estimator, data)
    assert estimator.score(data.x, data.y, tasks=data.tasks) > 0.9
    trained = [
        value for key, value in estimator.network_.named_parameters() if key.startswith("backbone.")
    ]
    start = [*backbone.parameters()]
    n_copies = 3 if name == "single" else 1
    assert len(trained) == n_copies * len(start)
    assert not torch.equal(trained[0], start[0])


@pytest.mark.parametrize("name", ["single", "mrn"])
def test_images_through_a_backbone_by_name(name: str):
    data = make_images(side=16)
    estimator = PlannedClassifier(
        plan=PLANS[name],
        backbone="small-cnn",
        hidden_sizes=(),
        max_epochs=12,
        batch_size=16,
        learning_rate=0.01,
    )
    fit(estimator, data)
    assert estimator.score(data.x, data.y, tasks=data.tasks) > 0.9


def test_a_frozen_backbone_is_evaluated_once_and_stays_as_it_is():
    class Counting(nn.Module):
        n_features = 16
        n_images = 0

        def forward(self, x):
            type(self).n_images += len(x)
            return x.flatten(1)[:, ::4]

    data = make_images()
    estimator = PlannedClassifier(plan=PLANS["mrn"], backbone=Counting())
    fit(estimator, data)
    assert Counting.n_images == len(data.y)
    assert estimator.score(data.x, data.y, tasks=data.tasks) > 0.9
    assert isinstance(estimator.network_, MultitaskNetwork)


def test_a_frozen_backbone_without_hidden_layers_has_a_linear_model():
    data = make_images()
    frozen = make_module().requires_grad_(False)
    estimator = fit(SingleTaskClassifier(backbone=frozen), data)
    with torch.no_grad():
        features = frozen(torch.from_numpy(data.x) / 255).numpy()
    linear = fit(SingleTaskClassifier(), replace(data, x=features))
    np.testing.assert_allclose(estimator.coef_, linear.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scores(estimator, data), scores(linear, data, features), atol=1e-6)


def test_relations_belong_to_the_last_layer_with_the_prior():
    data = make_data()
    estimator = fit(PlannedClassifier(plan=PLANS["mrn"]), data)
    assert [*estimator.correlations_] == ["fc7", "fc8"]
    prior = estimator.prior_.correlations("heads.fc8", raw=True)
    np.testing.assert_allclose(estimator.correlations_["fc8"], prior)
    assert estimator.n_updates_ == 1
    hidden = fit(PlannedClassifier(plan=PLANS["mrn-hidden"]), data)
    assert [*hidden.correlations_] == ["fc7"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"weights": "file"}, ValueError, "`weights` must be None without a backbone"),
        ({"backbone": 3}, TypeError, "`backbone` must be a module, or the name of a backbone"),
        ({"backbone": "no-net"}, ValueError, "`name` must name a backbone"),
        (
            {"backbone": nn.Flatten(), "weights": "file"},
            ValueError,
            "`weights` must be None where `backbone` is a module",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        fit(PlannedClassifier(plan=PLANS["mrn"], **settings), make_data())


def test_progress_is_shown_on_request(capsys):
    fit(PlannedClassifier(plan=PLANS["shared"], **SMALL), make_data())
    assert capsys.readouterr().err == ""
    fit(PlannedClassifier(plan=PLANS["shared"], verbose=True, **SMALL), make_data())
    assert capsys.readouterr().err != ""


class _Interrupt(Callback):
    """Ctrl-C after some steps, counted over all trainings."""

    def __init__(self, after: int):
        self.left = after

    def on_step_end(self, state):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture
def interrupt(monkeypatch):
    def after(n_steps: int) -> None:
        import multirel.estimators._network_training as module

        caller, train = _Interrupt(n_steps), module.train

        def interrupted(*args, callbacks, **options):
            return train(*args, callbacks=[*callbacks, caller], **options)

        monkeypatch.setattr(module, "train", interrupted)

    return after


@ALL_PLANS
@pytest.mark.parametrize("after", [1, 60])
def test_an_interrupt_leaves_a_partial_fit(plan: NetworkPlan, after: int, interrupt):
    data = make_data()
    interrupt(after)
    estimator = PlannedClassifier(plan=plan)
    n_trainings = 2 if plan.factorization else 1 + (plan.n_updates or 0)
    if after > 40 * n_trainings:
        assert fit(estimator, data).converged_
        return
    with pytest.warns(MultirelWarning, match="was interrupted after .* steps of training"):
        fit(estimator, data)
    assert not estimator.converged_
    assert not estimator.network_.training
    assert np.isfinite(scores(estimator, data)).all()
    if after > 1:
        assert estimator.score(data.x, data.y, tasks=data.tasks) > 0.55


def test_an_interrupt_of_the_second_training_goes_back_to_the_first(interrupt):
    data = make_data()
    expected = fit(PlannedClassifier(plan=NetworkPlan(prior={"n_updates": 0})), data)
    interrupt(41)
    estimator = PlannedClassifier(plan=PLANS["mrn"])
    with pytest.warns(MultirelWarning, match="was interrupted"):
        fit(estimator, data)
    np.testing.assert_array_equal(scores(estimator, data), scores(expected, data))


def test_an_interrupt_before_the_first_step_is_passed_on(monkeypatch):
    def train(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("multirel.estimators._network_training.train", train)
    with pytest.raises(KeyboardInterrupt):
        fit(PlannedClassifier(plan=PLANS["mrn"]), make_data())


def test_layers_that_start_from_random_weights_have_ten_times_the_rate():
    data = make_images()
    estimator = PlannedClassifier(plan=PLANS["shared"], max_epochs=1, learning_rate=0.003)
    features = fit(clone(estimator), replace(data, x=data.x.reshape(len(data.y), -1) / 255.0))
    multiple = Recipe().new_layer_multiplier
    assert features.history_.learning_rate[0] == pytest.approx(0.003 * multiple)
    module = fit(clone(estimator).set_params(backbone=make_module()), data)
    assert module.history_.learning_rate[0] == pytest.approx(0.003)
    random = fit(
        clone(estimator).set_params(backbone="small-cnn", hidden_sizes=()), make_images(4, side=16)
    )
    assert random.history_.learning_rate[0] == pytest.approx(0.003 * multiple)
