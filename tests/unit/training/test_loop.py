"""The training loop: what a step minimizes, penalties, parts of a batch, precision, ends, and messages."""

from copy import deepcopy
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from multirel.exceptions import NotFiniteError
from multirel.networks import MultitaskNetwork
from multirel.priors import attach_prior
from multirel.training import (
    Callback,
    Checkpoint,
    DatasetRows,
    Losses,
    Recipe,
    TaskSampler,
    TrainingRows,
    build_optimizer,
    hold_out,
    train,
)
from tests.environment import DEVICE, DTYPE, assert_close
from tests.unit.training.builders import N_CLASSES, N_FEATURES, make_network, make_rows, weights_of

FACTOR = 100.0

RECIPE = Recipe(max_steps=12, batch_size=16, learning_rate=0.1)


def trained(network=None, rows=None, recipe=RECIPE, **options) -> nn.Module:
    network = make_network() if network is None else network
    train(network, make_rows() if rows is None else rows, recipe=recipe, **options)
    return network


class Recorder(Callback):
    """Writes down what is called."""

    def __init__(self):
        self.calls = []

    def on_train_start(self, state):
        self.calls.append("start")

    def on_step_end(self, state):
        self.calls.append(state.step)

    def on_epoch_end(self, state):
        self.calls.append(f"epoch {state.epoch}")

    def on_train_end(self, state):
        self.calls.append("end")


def test_a_step_is_that_of_a_plain_loop():
    """Twenty lines of torch give the same weights."""
    network, rows = make_network(), make_rows(weight=torch.linspace(0.5, 2, 60))
    other = deepcopy(network)
    train(network, rows, recipe=RECIPE, class_weight=[1.0, 2.0, 0.5])

    optimizer = build_optimizer(other, RECIPE)
    sampler = TaskSampler(rows.task, batch_size=16)
    class_weight = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64, device=DEVICE)
    for step in range(12):
        for group in optimizer.param_groups:
            group["lr"] = group["rate_multiplier"] * 0.1 * (1 + 10 * step / 12) ** -0.75
        batch = rows.take(next(sampler))
        losses = F.cross_entropy(other(batch.x, batch.task), batch.y, reduction="none")
        weight = (batch.weight.to(DEVICE) * class_weight[batch.y]).to(losses.dtype)
        optimizer.zero_grad()
        ((weight * losses).sum() / weight.sum()).backward()
        optimizer.step()
    assert_close(weights_of(network), weights_of(other), factor=FACTOR)


def test_training_learns():
    network, rows = make_network(hidden_sizes=()), make_rows(200)
    history = train(network, rows, recipe=Recipe(max_epochs=60, learning_rate=0.3))
    assert history.epoch_loss[-1] < 0.4 * history.epoch_loss[0]
    batch = rows.take(torch.arange(200))
    accuracy = (network(batch.x, batch.task).argmax(1) == batch.y).double().mean()
    assert accuracy > 0.9


@pytest.mark.parametrize("parts", [2, 5, 16, 40])
@pytest.mark.parametrize("sampling", ["proportional", "per-task"])
def test_a_batch_in_parts_gives_the_step_of_the_whole(parts, sampling):
    rows = make_rows(weight=torch.linspace(0.1, 3, 60))
    recipe = {"max_steps": 6, "batch_size": 16, "learning_rate": 0.1, "sampling": sampling}
    expected = trained(rows=rows, recipe=Recipe(**recipe), class_weight=[1, 2, 3])
    found = trained(rows=rows, recipe=Recipe(**recipe, accumulate=parts), class_weight=[1, 2, 3])
    assert_close(weights_of(found), weights_of(expected), factor=FACTOR)


def test_parts_and_penalties_in_the_gradient_count_once():
    weights = []
    for parts in (1, 4):
        network = make_network()
        prior = attach_prior(network, ["heads.fc8"], n_samples=6, application="gradient")
        trained(network, recipe=Recipe(max_steps=5, accumulate=parts), penalties=[prior])
        weights.append(weights_of(network))
    assert_close(*weights, factor=FACTOR)


def test_the_same_seed_gives_the_same_bits_and_another_others():
    def run(seed):
        network = make_network(dropout=0.5)
        prior = attach_prior(network, ["heads.fc7", "heads.fc8"], n_samples=60, update_every=5)
        recipe = Recipe(max_steps=12, seed=seed, validation_fraction=0.2, patience=2)
        torch.rand(seed + 3)
        return weights_of(trained(network, recipe=recipe, penalties=[prior]))

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))


def test_a_deterministic_recipe_trains():
    recipe = Recipe(max_steps=3, deterministic=True)
    assert torch.equal(weights_of(trained(recipe=recipe)), weights_of(trained(recipe=recipe)))


def test_the_callers_random_numbers_do_not_matter_nor_change():
    torch.manual_seed(3)
    expected = torch.rand(2)
    network = make_network(dropout=0.5)
    torch.manual_seed(3)
    trained(network)
    assert torch.equal(torch.rand(2), expected)


def test_proximal_penalties_act_after_the_optimizer():
    network, other = make_network(), make_network()
    rows = make_rows()
    prior = attach_prior(network, ["heads.fc8"], n_samples=60, strength=30.0, update_every=4)
    trained(network, rows, penalties=[prior])

    twin = attach_prior(other, ["heads.fc8"], n_samples=60, strength=30.0, update_every=4)
    optimizer, sampler = build_optimizer(other, RECIPE), TaskSampler(rows.task, batch_size=16)
    for step in range(12):
        for group in optimizer.param_groups:
            group["lr"] = group["rate_multiplier"] * RECIPE.rate_at(step / 12)
        batch = rows.take(next(sampler))
        optimizer.zero_grad()
        F.cross_entropy(other(batch.x, batch.task), batch.y).backward()
        optimizer.step()
        twin.step(optimizer)
    assert_close(weights_of(network), weights_of(other), factor=FACTOR)
    assert_close(prior.correlations("heads.fc8"), twin.correlations("heads.fc8"), factor=FACTOR)
    assert prior.n_updates == 1


class Pull:
    """A penalty that follows the protocol and has neither stacks nor a state."""

    application = "gradient"

    def __init__(self, weight):
        self.weight = weight
        self.steps = []

    def __call__(self):
        return 0.5 * self.weight.square().sum()

    def apply(self, optimizer):
        raise NotImplementedError

    def update(self):
        raise NotImplementedError

    def step(self, optimizer=None):
        self.steps.append(optimizer)


def test_penalties_in_the_gradient_add_to_the_objective():
    network, other = make_network(hidden_sizes=()), make_network(hidden_sizes=())
    rows, recipe = make_rows(), Recipe(max_steps=1, batch_size=60, momentum=0.0, learning_rate=0.1)
    penalty = Pull(network.heads["fc8"].weight)
    train(network, rows, recipe=recipe, penalties=[penalty])
    batch = rows.take(torch.arange(60))
    weight = other.heads["fc8"].weight
    loss = F.cross_entropy(other(batch.x, batch.task), batch.y)
    (gradient,) = torch.autograd.grad(loss, weight)
    assert_close(network.heads["fc8"].weight, weight - 0.1 * (gradient + weight), factor=FACTOR)
    assert penalty.steps == [None]


def test_a_proximal_penalty_gets_the_optimizer():
    network = make_network()
    penalty = Pull(network.heads["fc8"].weight)
    penalty.application = "proximal"
    history = train(network, make_rows(), recipe=RECIPE, penalties=[penalty])
    assert all(isinstance(step, torch.optim.SGD) for step in penalty.steps)
    assert history.penalty[-1] == pytest.approx(float(penalty().detach()))


def test_gradients_are_shortened_to_the_norm():
    norms = []

    class Norms(Callback):
        def on_step_end(self, state):
            gradients = [parameter.grad for parameter in state.network.parameters()]
            norms.append(float(torch.nn.utils.get_total_norm(gradients)))

    trained(recipe=Recipe(max_steps=5, clip_norm=0.01), callbacks=[Norms()])
    assert norms == pytest.approx([0.01] * 5, rel=1e-3)


def test_half_precision_is_used_and_weights_stay():
    seen = set()

    class Network(MultitaskNetwork):
        def forward(self, x, task):
            y = super().forward(x, task)
            seen.add(y.dtype)
            return y

    network = Network(N_FEATURES, 3, n_outputs=N_CLASSES).to(DEVICE)
    rows = make_rows()
    rows = TrainingRows(rows.take(torch.arange(60)).x.float(), rows.y, rows.task)
    history = train(network, rows, recipe=Recipe(max_steps=30, precision="bf16", learning_rate=0.3))
    assert seen == {torch.bfloat16}
    assert network.heads["fc8"].weight.dtype == torch.float32
    assert history.loss[-1] < history.loss[0]


def test_the_network_comes_back_in_evaluation_mode():
    network = trained(make_network(dropout=0.5))
    assert not any(module.training for module in network.modules())


def test_epochs_end_where_rows_do_and_callbacks_are_told():
    recorder = Recorder()
    history = train(
        make_network(),
        make_rows(),
        recipe=Recipe(max_steps=5, batch_size=32),
        callbacks=[recorder],
    )
    assert recorder.calls == ["start", 1, 2, "epoch 1", 3, 4, "epoch 2", 5, "epoch 3", "end"]
    assert history.epoch_end == [2, 4, 5]
    assert (history.n_steps, len(history.learning_rate), len(history.seconds)) == (5, 5, 3)
    assert history.learning_rate == [Recipe().rate_at(step / 5) for step in range(5)]
    assert history.sampling.startswith("proportional: 32 rows of a shuffled pass")
    assert history.recipe["batch_size"] == 32
    assert history.n_samples == 60


def test_a_callback_can_stop_training():
    class Stop(Callback):
        def on_step_end(self, state):
            state.stops = state.step == 3

    history = train(make_network(), make_rows(), recipe=RECIPE, callbacks=[Stop()])
    assert (history.n_steps, history.epoch_end) == (3, [3])


def test_training_stops_early_and_goes_back_to_the_best():
    """Weights and covariances are those of the best epoch, not of the last."""
    network, rows = make_network(), make_rows()
    prior = attach_prior(network, ["heads.fc8"], n_samples=60, update_every=1, n_updates=None)
    states = []

    class Keep(Callback):
        def on_epoch_end(self, state):
            states.append((weights_of(network), prior.correlations("heads.fc8")))

    history = train(
        network,
        rows,
        recipe=Recipe(
            max_epochs=200,
            learning_rate=1.0,
            decay="constant",
            validation_fraction=0.3,
            patience=3,
        ),
        penalties=[prior],
        callbacks=[Keep()],
    )
    scores = history.validation_score
    assert history.best_epoch == scores.index(max(scores)) + 1
    assert history.n_epochs == history.best_epoch + 3 < 200
    assert torch.equal(weights_of(network), states[history.best_epoch - 1][0])
    assert_close(prior.correlations("heads.fc8"), states[history.best_epoch - 1][1])
    assert history.n_samples == 60 - sum(round(0.3 * n) for n in rows.task_counts.tolist())


def test_the_score_is_minus_the_loss_of_the_rows_given():
    network, validation = make_network(dropout=0.5), make_rows(40, seed=1)
    history = train(network, make_rows(), recipe=RECIPE, validation=validation)
    batch = validation.take(torch.arange(40))
    expected = -F.cross_entropy(network(batch.x, batch.task), batch.y)
    assert history.validation_score[-1] == pytest.approx(float(expected.detach()), rel=1e-4)
    assert history.best_epoch is None


def test_rows_without_a_label_and_with_weight_zero_change_nothing():
    x, y = torch.randn(20, 4), torch.randn(20)
    task = torch.arange(20) % 2
    missing = torch.cat([y, torch.full((5,), torch.nan)])
    more = TrainingRows(torch.cat([x, torch.randn(5, 4)]), missing, torch.cat([task, task[:5]]))
    weights = []
    for rows in (TrainingRows(x, y, task), more):
        torch.manual_seed(0)
        network = MultitaskNetwork(4, 2, n_outputs=1)
        history = train(network, rows, recipe=Recipe(max_steps=10), losses="squared")
        weights.append(weights_of(network))
        assert history.n_samples == 20
    assert torch.equal(*weights)


def test_a_batch_of_weight_zero_changes_nothing():
    rows = make_rows(8, weight=[1.0] + [0.0] * 7)
    network = make_network()
    history = train(network, rows, recipe=Recipe(max_epochs=1, batch_size=1))
    assert sum(loss == 0 for loss in history.loss) == 7
    assert weights_of(network).isfinite().all()


@pytest.mark.parametrize("sampling", ["proportional", "equal", "square-root", "per-task"])
def test_tasks_of_very_different_sizes_train_together(sampling):
    """Ten thousand rows, one row, and none."""
    n_rows = 10_000
    task = torch.cat([torch.zeros(n_rows, dtype=torch.int64), torch.tensor([2])])
    x = torch.randn(n_rows + 1, 4)
    rows = TrainingRows(x, (x[:, 0] > 0).long(), task, n_tasks=4)
    network = MultitaskNetwork(4, 4, n_outputs=2)
    start = network.heads["fc8"].weight.detach().clone()
    recipe = Recipe(max_steps=40, sampling=sampling, validation_fraction=0.1, batch_size=200)
    train(network, rows, recipe=recipe)
    has_changed = (network.heads["fc8"].weight != start).flatten(1).any(1)
    is_drawn = sampling in ("equal", "per-task")
    assert has_changed[0]
    assert not has_changed[[1, 3]].any()
    assert has_changed[2] or not is_drawn


def test_kinds_of_tasks_are_mixed():
    torch.manual_seed(0)
    n_rows = 90
    x, task = torch.randn(n_rows, 4), torch.arange(n_rows) % 3
    y = torch.where(task == 2, x[:, 1], (x[:, 0] > 0).float())
    network = MultitaskNetwork(4, 3, n_outputs=[2, 1, 1])
    history = train(
        network,
        TrainingRows(x, y, task),
        recipe=Recipe(max_epochs=60, learning_rate=0.1),
        losses={0: "cross-entropy", 1: "binary", 2: "squared"},
        class_weight={0: [1.0, 2.0]},
    )
    assert history.epoch_loss[-1] < 0.3 * history.epoch_loss[0]


def test_data_sets_train_as_rows_in_memory_do():
    rows = make_rows()
    batch = rows.take(torch.arange(60))
    items = torch.utils.data.StackDataset(batch.x, batch.task, batch.y)
    weights = [weights_of(trained(rows=made)) for made in (rows, DatasetRows(items))]
    assert_close(*weights)


def test_adamw_trains():
    history = train(make_network(), make_rows(), recipe=Recipe(optimizer="adamw", max_epochs=20))
    assert history.epoch_loss[-1] < history.epoch_loss[0]


def test_a_network_of_the_users_own_trains():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(nn.Linear(N_FEATURES, N_CLASSES) for _ in range(3))

        def forward(self, x, task):
            return torch.stack([head(x) for head in self.heads])[task, torch.arange(len(x))]

    network = Own().to(device=DEVICE, dtype=DTYPE)
    prior = attach_prior(network, ["heads.*"], n_samples=60, update_every=5)
    history = train(network, make_rows(), recipe=RECIPE, penalties=[prior])
    assert history.loss[-1] < history.loss[0]
    assert prior.n_updates == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_before_weights_change(value):
    x, y = torch.randn(12, 4), torch.randn(12)
    x[7] = value
    network = MultitaskNetwork(4, 1, n_outputs=1)
    seen = []

    class Keep(Callback):
        def on_step_end(self, state):
            seen.append(weights_of(network))

    rows = TrainingRows(x, y, torch.zeros(12, dtype=torch.int64))
    recipe = Recipe(max_epochs=1, batch_size=1, learning_rate=0.125)
    step = next(
        number
        for number, batch in enumerate(TaskSampler(rows.task, batch_size=1), start=1)
        if batch.item() == 7
    )
    message = (
        rf"`loss` must stay finite: expected a number, got (nan|inf) at step {step}\. Use a lower"
    )
    with pytest.raises(NotFiniteError, match=message):
        train(network, rows, recipe=recipe, losses="squared", callbacks=[Keep()])
    assert torch.equal(weights_of(network), seen[-1])
    assert all(not torch.equal(one, other) for one, other in pairwise(seen))


def test_diverging_training_names_the_step_and_keeps_the_last_checkpoint(tmp_path):
    batch = make_rows().take(torch.arange(60))
    rows = TrainingRows(batch.x, batch.y.to(DTYPE), batch.task)
    network = MultitaskNetwork(N_FEATURES, 3, n_outputs=1).to(device=DEVICE, dtype=DTYPE)
    checkpoint = Checkpoint(tmp_path, every=1)
    recipe = Recipe(max_steps=3000, learning_rate=50.0, decay="constant")
    with pytest.raises(NotFiniteError, match=rf"The last checkpoint is whole: .*{tmp_path.name}"):
        train(network, rows, recipe=recipe, losses="squared", checkpoint=checkpoint)
    assert checkpoint.exists
    assert not (tmp_path / ".checkpoint.unfinished").exists()


def test_a_score_that_is_not_finite_stops():
    validation = TrainingRows(
        torch.full((2, N_FEATURES), torch.nan, dtype=DTYPE), torch.zeros(2), torch.tensor([0, 1])
    )
    with pytest.raises(NotFiniteError, match="`validation loss` must stay finite: .* after step 4"):
        train(make_network(), make_rows(), recipe=RECIPE, validation=validation)


def test_a_score_needs_rows_that_count():
    """Weights of classes, and labels of data sets that are not read ahead, are known when rows are scored."""
    message = "`validation` must have a row that counts: got none in 2 rows. Give rows with a label"
    features, task = torch.zeros(2, N_FEATURES, dtype=DTYPE), torch.tensor([0, 1])
    of_no_weight = TrainingRows(features, torch.zeros(2, dtype=torch.int64), task)
    with pytest.raises(ValueError, match=message):
        trained(validation=of_no_weight, class_weight=[0.0, 1.0, 1.0])
    items = [(row, 0, torch.tensor(torch.nan)) for row in features]
    with pytest.raises(ValueError, match=message):
        trained(validation=DatasetRows(items, task=task))


def test_rows_that_are_left_to_train_on_count():
    rows = make_rows(10, 1, weight=[1.0] + [0.0] * 9)
    seed = next(
        seed for seed in range(100) if hold_out(rows, fraction=0.5, seed=seed)[1].n_samples > 0
    )
    recipe = Recipe(max_steps=1, validation_fraction=0.5, seed=seed)
    with pytest.raises(ValueError, match="`rows` must have a row with a label and a weight above"):
        trained(make_network(1), rows, recipe)


def test_weights_that_are_not_finite_after_the_last_step_are_no_result():
    """The loss of the last step is finite; only its gradient is not."""

    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(N_FEATURES, N_CLASSES, device=DEVICE, dtype=DTYPE)

        def forward(self, x, task):
            return self.head(x) + (0 * self.head.weight).sum().sqrt()

    message = "`head.weight` must stay finite: .* got NaN or infinity after step 1. Use a lower"
    with pytest.raises(NotFiniteError, match=message):
        train(Broken(), make_rows(), recipe=Recipe(max_steps=1))


def test_a_penalty_that_fails_on_weights_that_are_not_finite_says_so_first(monkeypatch):
    """Where losses are looked at now and then, a penalty may fail before."""
    from multirel.training import _loss_meter

    network, rows = make_network(hidden_sizes=()), make_rows()
    penalty = Pull(network.heads["fc8"].weight)

    def fail(optimizer=None):
        if len(penalty.steps) == 3:
            raise ArithmeticError("no eigenvalues")
        penalty.steps.append(None)
        with torch.no_grad():
            penalty.weight.fill_(torch.nan)

    penalty.step = fail
    monkeypatch.setattr(
        _loss_meter.LossMeter, "add", lambda meter, loss: meter._waiting.append(loss)
    )
    with pytest.raises(NotFiniteError, match="got nan at step 2"):
        train(network, rows, recipe=RECIPE, penalties=[penalty])


def test_failures_of_penalties_with_finite_weights_are_their_own():
    penalty = Pull(torch.ones(2, requires_grad=True))

    def fail(optimizer=None):
        raise ArithmeticError("no eigenvalues")

    penalty.step = fail
    with pytest.raises(ArithmeticError, match="no eigenvalues"):
        train(make_network(), make_rows(), recipe=RECIPE, penalties=[penalty])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rows": [1, 2]}, TypeError, "`rows` must be TrainingRows or DatasetRows: got list. Wrap"),
        ({"validation": [1]}, TypeError, "`validation` must be TrainingRows or DatasetRows: got"),
        (
            {"penalties": Pull(None)},
            TypeError,
            "`penalties` must be a sequence: got one Pull. Write",
        ),
        (
            {"rows": TrainingRows(torch.zeros(2, 6), [torch.nan, torch.nan], [0, 1])},
            ValueError,
            "`rows` must have a row with a label and a weight above 0: got none in 2 rows",
        ),
        (
            {"rows": TrainingRows(torch.zeros(2, 6), [0, 1], [0, 1], weight=[0, 0])},
            ValueError,
            "`rows` must have a row with a label and a weight above 0: got none in 2 rows",
        ),
        (
            {"validation": TrainingRows(torch.zeros(1, 6), [torch.nan], [0])},
            ValueError,
            "`validation` must have a row with a label",
        ),
        (
            {"validation": TrainingRows(torch.zeros(1, 6), [0], [3])},
            ValueError,
            "`validation` must have no more tasks than `rows`: expected 3, got 4",
        ),
        (
            {"recipe": Recipe(patience=2)},
            ValueError,
            "`patience` must come with rows held out: got patience=2 and none",
        ),
        (
            {"recipe": Recipe(validation_fraction=0.2), "validation": make_rows()},
            ValueError,
            "`validation_fraction` must be 0 where `validation` is given: got 0.2",
        ),
        (
            {"network": nn.Identity()},
            ValueError,
            "`network` must have parameters that train: got none",
        ),
        ({"losses": "hinge"}, ValueError, "`losses` must be losses by name"),
        (
            {"recipe": Recipe.preset("frozen"), "network": nn.Linear(2, 2).requires_grad_(False)},
            ValueError,
            "`network` must have parameters that train",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options, error, message):
    arguments = {"network": make_network(), "rows": make_rows()} | options
    with pytest.raises(error, match=message):
        train(arguments.pop("network"), arguments.pop("rows"), **arguments)


def test_losses_of_history_are_those_of_the_batches():
    network, rows = make_network(), make_rows()
    losses = Losses("cross-entropy", n_tasks=3)
    batch = rows.take(next(TaskSampler(rows.task, batch_size=16)))
    expected = losses(network(batch.x, batch.task), batch.y, batch.task).mean()
    history = train(network, rows, recipe=RECIPE)
    assert history.loss[0] == pytest.approx(float(expected.detach()), rel=1e-5)


class Pretrained(nn.Sequential):
    """Convolution and a fully connected layer, of which the first can be frozen, or both."""

    n_features = 4

    def __init__(self, n_frozen: int):
        super().__init__(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(8, 4))
        for layer in (self[1], self[3])[:n_frozen]:
            layer.requires_grad_(False)


@pytest.mark.parametrize(("preset", "n_frozen"), [("frozen", 2), ("paper", 1), ("full", 0)])
def test_presets_train_what_they_say(preset, n_frozen):
    torch.manual_seed(0)
    network = MultitaskNetwork(Pretrained(n_frozen), 3, n_outputs=N_CLASSES, hidden_sizes=(5,))
    network.to(device=DEVICE, dtype=DTYPE)
    prior = attach_prior(network, ["heads.fc7", "heads.fc8"], n_samples=60)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    history = train(
        network, make_rows(), recipe=Recipe.preset(preset, max_steps=4), penalties=[prior]
    )
    changed = {
        name.removesuffix(".weight")
        for name, value in network.state_dict().items()
        if name.endswith("weight") and not torch.equal(value, before[name])
    }
    layers = ["backbone.1", "backbone.3", "heads.fc7", "heads.fc8"]
    assert changed == set(layers[n_frozen:])
    assert history.sampling.startswith("proportional" if preset == "frozen" else "per-task")


def test_a_preset_that_does_not_fit_the_network_is_refused():
    network = MultitaskNetwork(Pretrained(0), 3, n_outputs=N_CLASSES)
    with pytest.raises(
        ValueError, match="where the recipe trains 'fully-connected': 'backbone.1.w"
    ):
        train(network, make_rows(), recipe=Recipe.preset("paper"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": lambda x, task: x}, "`network` must be a Module: got function"),
        ({"recipe": {"learning_rate": 0.1}}, "`recipe` must be a Recipe: got dict"),
        ({"recipe": "paper"}, "`recipe` must be a Recipe: got str"),
        ({"checkpoint": "folder"}, "`checkpoint` must be a Checkpoint: got str"),
        ({"world": "ddp"}, "`world` must be a World: got str"),
        ({"penalties": [lambda: 0.0]}, "`penalties` must be penalties, .*: got function"),
        ({"callbacks": Callback()}, "`callbacks` must be a sequence: got one Callback"),
        ({"callbacks": [lambda state: None]}, "`callbacks` must be callbacks: got function"),
    ],
)
def test_arguments_of_another_type_are_refused(options, message):
    with pytest.raises(TypeError, match=message):
        trained(**options)


def test_a_penalty_counts_once():
    network = make_network()
    prior = attach_prior(network, ["heads.fc8"], n_samples=60)
    with pytest.raises(ValueError, match="`penalties` must have each penalty once"):
        trained(network, penalties=[prior, prior])


class Outputs(nn.Module):
    """A network that gives something that is made of its scores."""

    def __init__(self, make):
        super().__init__()
        self.layer = nn.Linear(N_FEATURES, N_CLASSES, device=DEVICE, dtype=DTYPE)
        self.make = make

    def forward(self, x, task):
        return self.make(self.layer(x))


def test_outputs_are_a_tensor():
    with pytest.raises(TypeError, match="`network` must give a tensor of outputs: got tuple"):
        trained(Outputs(lambda scores: (scores, 0)))


def test_outputs_depend_on_weights():
    with pytest.raises(ValueError, match="`network` must give outputs that depend on its weights"):
        trained(Outputs(lambda scores: scores.detach()))


def test_networks_take_rows_and_tasks():
    network = nn.Linear(N_FEATURES, N_CLASSES, device=DEVICE, dtype=DTYPE)
    with pytest.raises(TypeError, match=r"called as network\(x, task\): got Linear with forward\("):
        trained(network)


def test_a_layer_has_one_prior():
    network = MultitaskNetwork(3, 2, n_outputs=2)
    priors = [attach_prior(network, "heads.fc8", n_samples=10) for _ in range(2)]
    rows = TrainingRows(torch.randn(8, 3), torch.arange(8) % 2, torch.arange(8) // 4)
    with pytest.raises(ValueError, match="one prior per layer: got two on 'heads.fc8'"):
        train(network, rows, penalties=priors)
