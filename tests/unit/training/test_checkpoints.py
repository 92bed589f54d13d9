"""Checkpoints: resumed to the same bits, refused where they do not belong, whole whatever happens."""

import json
import os
import signal
import sys
from itertools import pairwise

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from multirel.priors import attach_prior
from multirel.training import Callback, Checkpoint, Recipe, TrainingRows, train
from tests.unit.training.builders import make_network, make_rows, weights_of

UPDATE_EVERY = 10


class Interruption(Exception):
    """Ends a training from outside."""


class InterruptAt(Callback):
    """Interrupts training after a step."""

    def __init__(self, step: int):
        self.step = step

    def on_step_end(self, state):
        if state.step == self.step:
            raise Interruption


def run(recipe, *, checkpoint=None, callbacks=(), application="proximal", rows=None, **options):
    """Train a small network with dropout and a prior from scratch; all that results."""
    network = make_network(dropout=0.3)
    prior = attach_prior(
        network,
        ["heads.fc7", "heads.fc8"],
        n_samples=60,
        strength=3.0,
        update_every=UPDATE_EVERY,
        n_updates=None,
        mean="initial",
        application=application,
    )
    history = train(
        network,
        make_rows() if rows is None else rows,
        recipe=recipe,
        penalties=[prior],
        checkpoint=checkpoint,
        callbacks=callbacks,
        **options,
    )
    return history, weights_of(network), prior


def assert_same_results(one, other):
    assert one[0] == other[0]
    assert torch.equal(one[1], other[1])
    states = [prior.state_dict() for *_, prior in (one, other)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


RECIPES = {
    "momentum": Recipe(max_steps=24, batch_size=16, learning_rate=0.1, nesterov=True),
    "adamw": Recipe(max_steps=24, batch_size=16, optimizer="adamw", weight_decay=0.1),
    "equal": Recipe(max_epochs=5, batch_size=13, sampling="equal", accumulate=2, clip_norm=0.5),
    "early stopping": Recipe(
        max_epochs=40,
        batch_size=10,
        learning_rate=0.5,
        decay="constant",
        validation_fraction=0.3,
        patience=3,
    ),
}


@pytest.mark.parametrize("application", ["proximal", "gradient"])
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("step", [1, 6, 9])
def test_training_goes_on_to_the_same_bits(recipe, application, step, tmp_path):
    """Interrupted in the middle of an epoch, and before the covariances are updated."""
    expected = run(recipe, application=application)
    assert expected[0].n_steps > UPDATE_EVERY
    assert step % expected[0].steps_per_epoch != 0
    checkpoint = Checkpoint(tmp_path, every=2)
    with pytest.raises(Interruption):
        run(
            recipe,
            application=application,
            checkpoint=checkpoint,
            callbacks=[InterruptAt(step)],
        )
    assert checkpoint.exists == (step > 1)
    found = run(recipe, application=application, checkpoint=checkpoint)
    assert_same_results(found, expected)
    assert recipe.patience or found[2].n_updates > 0


def test_training_may_be_interrupted_again_and_again(tmp_path):
    recipe = RECIPES["momentum"]
    expected, checkpoint = run(recipe), Checkpoint(tmp_path, every=1)
    for step in range(2, 24, 3):
        with pytest.raises(Interruption):
            run(recipe, checkpoint=checkpoint, callbacks=[InterruptAt(step)])
    assert_same_results(run(recipe, checkpoint=checkpoint), expected)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_finished_training_gives_the_same_again_without_a_step(recipe, tmp_path):
    expected = run(recipe, checkpoint=Checkpoint(tmp_path))
    found = run(recipe, checkpoint=Checkpoint(tmp_path), callbacks=[InterruptAt(1)])
    assert_same_results(found, expected)
    assert found[0].seconds == expected[0].seconds
    assert found[0].best_epoch == expected[0].best_epoch


def test_a_training_that_a_callback_stopped_stays_stopped(tmp_path):
    class Stop(Callback):
        def on_step_end(self, state):
            state.stops = state.step == 5

    expected = run(RECIPES["momentum"], checkpoint=Checkpoint(tmp_path), callbacks=[Stop()])
    assert_same_results(run(RECIPES["momentum"], checkpoint=Checkpoint(tmp_path)), expected)


def test_checkpoints_come_every_so_many_steps_or_every_epoch(tmp_path):
    written = []

    class Look(Callback):
        def __init__(self, path):
            self.path = path

        def on_step_end(self, state):
            if self.path.exists():
                with safe_open(self.path, framework="pt") as file:
                    written.append(json.loads(file.metadata()["progress"])["step"])

    for name, every in (("a", 3), ("b", None)):
        checkpoint = Checkpoint(tmp_path / name, every=every)
        run(Recipe(max_steps=10), checkpoint=checkpoint, callbacks=[Look(checkpoint.path)])
        assert sorted(set(written)) == ([3, 6, 9] if every else [2, 4, 6, 8])
        written.clear()


def test_a_checkpoint_holds_tensors_and_json_only(tmp_path):
    run(RECIPES["early stopping"], checkpoint=Checkpoint(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]
    with safe_open(tmp_path / "checkpoint.safetensors", framework="pt") as file:
        parts = {name.split(".")[0] for name in file.keys()}  # noqa: SIM118
        assert json.loads(file.metadata()["identity"])["recipe"]["patience"] == 3
    assert parts == {"weights", "optimizer", "sampler", "history", "stopping"}


def test_shared_weights_are_saved_and_come_back(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.one = torch.nn.Linear(4, 4)
            self.other = torch.nn.Linear(4, 4)
            self.other.weight = self.one.weight

        def forward(self, x, task):
            return self.other(self.one(x).relu())

    def go(checkpoint=None, callbacks=()):
        network = Tied()
        rows = TrainingRows(torch.arange(40.0).reshape(10, 4) / 40, [0, 1] * 5, [0] * 10)
        train(network, rows, recipe=Recipe(max_steps=9), checkpoint=checkpoint, callbacks=callbacks)
        assert network.one.weight is network.other.weight
        return weights_of(network)

    checkpoint = Checkpoint(tmp_path, every=2)
    with pytest.raises(Interruption):
        go(checkpoint, [InterruptAt(5)])
    assert torch.equal(go(checkpoint), go())


def interrupted(tmp_path) -> Checkpoint:
    checkpoint = Checkpoint(tmp_path, every=2)
    with pytest.raises(Interruption):
        run(RECIPES["momentum"], checkpoint=checkpoint, callbacks=[InterruptAt(5)])
    return checkpoint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"recipe": Recipe(max_steps=24, batch_size=16, learning_rate=0.2, nesterov=True)},
            r"must be of the same training: .* differs in recipe.learning_rate \(0.1 there, 0.2 here\)",
        ),
        (
            {"recipe": Recipe(max_epochs=6, batch_size=16, learning_rate=0.1, nesterov=True)},
            r"recipe.max_epochs \(None there, 6 here\), recipe.max_steps \(24 there, None here\)",
        ),
        ({"recipe": Recipe()}, r"here\) and \d+ more. Use another folder, or delete the file"),
        ({"rows": make_rows(seed=3)}, r"differs in rows.checksum \(\d+ there, \d+ here\)"),
        (
            {"validation": make_rows(seed=3)},
            r"differs in validation.n_rows \(nothing there, 60 here\), validation.n_samp",
        ),
        ({"application": "gradient"}, "differs in penalties"),
        (
            {"new_layers": ["heads.fc8"]},
            r"rate_multipliers.heads.fc8.weight \(1.0 there, 10.0 here\)",
        ),
        ({"losses": {0: "binary", 1: "squared", 2: "binary"}}, "differs in losses.of_task"),
        ({"class_weight": [1, 2, 3]}, r"losses.class_weight.0 \(nothing there, \[1.0, 2.0, 3.0\]"),
    ],
)
def test_checkpoints_of_another_training_are_refused(options, message, tmp_path):
    options = {"recipe": RECIPES["momentum"]} | options
    with pytest.raises(ValueError, match=message):
        run(options.pop("recipe"), checkpoint=interrupted(tmp_path), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hidden_sizes": (7,)},
            r"network.heads.fc7.weight \(float\d+ \(3, 5, 6\) there, float\d+ \(3, 7, 6\) here\)",
        ),
        ({"hidden_sizes": ()}, r"network.heads.fc7.weight \(float\d+ \(3, 5, 6\) there, nothing"),
    ],
)
def test_checkpoints_of_another_network_are_refused(options, message, tmp_path):
    network = make_network(**options)
    prior = attach_prior(network, ["heads.fc8"], n_samples=60)
    with pytest.raises(ValueError, match=message):
        train(
            network,
            make_rows(),
            recipe=RECIPES["momentum"],
            penalties=[prior],
            checkpoint=interrupted(tmp_path),
        )


def test_what_trains_belongs_to_the_network(tmp_path):
    network = make_network(dropout=0.3)
    network.heads["fc7"].requires_grad_(False)
    with pytest.raises(ValueError, match=r"differs in trained"):
        train(network, make_rows(), recipe=RECIPES["momentum"], checkpoint=interrupted(tmp_path))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
def test_a_file_cut_short_is_refused(share, tmp_path):
    checkpoint = interrupted(tmp_path)
    content = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(
        ValueError, match=r"must be a whole file: .* is damaged \(.*\). Delete it to"
    ):
        run(RECIPES["momentum"], checkpoint=checkpoint)


def test_a_file_with_other_bytes_is_refused(tmp_path):
    checkpoint = interrupted(tmp_path)
    content = bytearray(checkpoint.path.read_bytes())
    content[-9] ^= 4
    checkpoint.path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is damaged \(its checksum is another\)"):
        run(RECIPES["momentum"], checkpoint=checkpoint)


def test_a_file_of_another_program_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    save_file({"weight": torch.ones(2)}, checkpoint.path)
    with pytest.raises(ValueError, match="expected the format 'multirel-training-1', got None in"):
        run(RECIPES["momentum"], checkpoint=checkpoint)


def test_a_refused_checkpoint_leaves_the_network_as_it_was(tmp_path):
    network = make_network(hidden_sizes=(7,))
    before = weights_of(network)
    with pytest.raises(ValueError, match="must be of the same training"):
        train(network, make_rows(), checkpoint=interrupted(tmp_path))
    assert torch.equal(weights_of(network), before)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_last_checkpoint(failing, tmp_path, monkeypatch):
    checkpoint = interrupted(tmp_path)
    content = checkpoint.path.read_bytes()

    def fail(*arguments):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, failing, fail)
        with pytest.raises(OSError, match="no space left"):
            run(RECIPES["momentum"], checkpoint=checkpoint)
    assert checkpoint.path.read_bytes() == content
    assert_same_results(run(RECIPES["momentum"], checkpoint=checkpoint), run(RECIPES["momentum"]))


def test_every_must_be_a_step_or_more(tmp_path):
    with pytest.raises(ValueError, match="`every` must be at least 1 step, or None: got 0"):
        Checkpoint(tmp_path, every=0)


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    """The loss of the step was finite, so only the weights can tell."""
    from multirel.exceptions import NotFiniteError

    network, checkpoint = make_network(), Checkpoint(tmp_path, every=1)
    sizes = []

    class Break(Callback):
        def on_step_end(self, state):
            if checkpoint.exists:
                sizes.append(checkpoint.path.read_bytes())
            if state.step == 3:
                with torch.no_grad():
                    state.network.heads["fc8"].weight[0, 0, 0] = torch.inf

    message = (
        r"`heads.fc8.weight` must stay finite: .* got NaN or infinity after step 3. Use a lower"
    )
    with pytest.raises(NotFiniteError, match=message):
        train(network, make_rows(), checkpoint=checkpoint, callbacks=[Break()])
    assert checkpoint.path.read_bytes() == sizes[-1]
    assert all(one != other for one, other in pairwise(sizes))


def test_buffers_may_hold_infinity_but_not_nan(tmp_path):
    """A buffer of −∞ masks outputs."""
    from multirel.exceptions import NotFiniteError

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(4, 3)
            self.register_buffer("mask", torch.tensor([0.0, 0.0, -torch.inf]))

        def forward(self, x, task):
            return self.head(x) + self.mask

    class Break(Callback):
        def on_step_end(self, state):
            state.network.mask[0] = torch.nan

    network, rows = Masked(), TrainingRows(torch.rand(4, 4), [0, 1, 0, 1], [0] * 4)
    checkpoint = Checkpoint(tmp_path)
    train(network, rows, recipe=Recipe(max_steps=2), checkpoint=checkpoint)
    assert checkpoint.exists
    with pytest.raises(NotFiniteError, match="`mask` must stay finite: .* after step 1"):
        train(network, rows, recipe=Recipe(max_steps=1), callbacks=[Break()])


def test_a_state_that_is_no_tensor_is_refused_where_it_is_to_be_saved(tmp_path):
    class Counting(torch.nn.Linear):
        def forward(self, x, task):
            return super().forward(x)

        def get_extra_state(self):
            return {"n_calls": 3}

        def set_extra_state(self, state):
            raise NotImplementedError

    rows = TrainingRows(torch.randn(4, 3), [0, 1, 0, 1], [0] * 4)
    train(Counting(3, 2), rows, recipe=Recipe(max_steps=2))
    with pytest.raises(TypeError, match="keep its state in tensors, to be saved: got a dict for"):
        train(Counting(3, 2), rows, checkpoint=Checkpoint(tmp_path))


def test_folders_are_paths_and_steps_are_whole():
    with pytest.raises(TypeError, match="`folder` must be a path: got NoneType"):
        Checkpoint(None)
    with pytest.raises(
        TypeError, match="`every` must be a whole number of steps, or None: got '1'"
    ):
        Checkpoint("folder", every="1")


def test_folders_that_cannot_be_written_are_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("in the way")
    steps = Steps()
    with pytest.raises(OSError, match="`checkpoint` must be a folder .*nothing is there yet"):
        run(Recipe(max_steps=3), checkpoint=Checkpoint(tmp_path / "file"), callbacks=[steps])
    assert steps.n == 0


class Steps(Callback):
    """Counts the steps."""

    n = 0

    def on_step_end(self, state):
        self.n += 1


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files as POSIX does")
def test_a_full_disk_leaves_the_last_checkpoint_and_says_so(tmp_path):
    """Training goes on from there when there is room again."""
    import resource

    checkpoint = Checkpoint(tmp_path, every=2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    class Full(Callback):
        def on_step_end(self, state):
            if state.step == 3:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))

    try:
        with pytest.raises(
            OSError, match="cannot be written .*last whole file is still there. Make"
        ):
            run(Recipe(max_steps=6), checkpoint=checkpoint, callbacks=[Full()])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    steps = Steps()
    run(Recipe(max_steps=6), checkpoint=checkpoint, callbacks=[steps])
    assert steps.n == 4
