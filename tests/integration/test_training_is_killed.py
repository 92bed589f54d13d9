"""Training that is killed at any moment, and goes on to the same weights."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

MAX_KILLED = 8

ROOT = Path(__file__).parents[2]

CODE = """
import sys
import torch
from safetensors.torch import save_file
from multirel.networks import MultitaskNetwork
from multirel.priors import attach_prior
from multirel.training import Callback, Checkpoint, Recipe, TrainingRows, train

torch.set_num_threads(1)
torch.manual_seed(0)
x, task = torch.randn(300, 200), torch.arange(300) % 3
rows = TrainingRows(x, (x[:, :4].sum(1) > 0).long(), task)
network = MultitaskNetwork(200, 3, n_outputs=2, hidden_sizes=(150,), dropout=0.2)
prior = attach_prior(network, ["heads.fc8"], n_samples=300, update_every=20, n_updates=None)
recipe = Recipe(max_steps=300, batch_size=32, validation_fraction=0.2, patience=50)


class Ready(Callback):
    def on_train_start(self, state):
        print("ready", flush=True)


history = train(
    network, rows, recipe=recipe, penalties=[prior], checkpoint=Checkpoint(sys.argv[1], every=1),
    callbacks=[Ready()],
)
results = {**network.state_dict(), **prior.state_dict(), "loss": torch.tensor(history.loss)}
save_file(results, sys.argv[2])
"""


def start(folder: Path, result: Path) -> subprocess.Popen:
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", CODE, str(folder), str(result)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_training_killed_at_random_moments_ends_with_the_same_weights(tmp_path):
    """It writes a checkpoint after every step, so most of the time goes into writing."""
    expected = tmp_path / "expected.safetensors"
    with start(tmp_path / "whole", expected) as process:
        assert process.wait() == 0
    result = tmp_path / "result.safetensors"
    moments = random.Random(0)
    n_killed, steps = 0, []
    while not result.exists():
        with start(tmp_path / "killed", result) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(moments.uniform(0.02, 0.2))
            if process.poll() is None and n_killed < MAX_KILLED:
                process.kill()
                n_killed += 1
            process.wait()
        path = tmp_path / "killed" / "checkpoint.safetensors"
        if path.exists():
            with safe_open(path, framework="pt") as file:
                steps.append(len(file.get_tensor("history.loss")))
    assert n_killed == MAX_KILLED
    assert steps == sorted(steps)
    found, wanted = load_file(result), load_file(expected)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
