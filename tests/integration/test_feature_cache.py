"""The cache of features survives kills and company, and serves the real weights."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from multirel.networks import Backbone, build_backbone
from multirel.training._feature_cache import cached_features
from tests.environment import run_python
from tests.integration.shared_data import find_shared, open_office_images

ROOT = Path(__file__).parents[2]

ALEXNET = "weights/alexnet-features-torchvision/alexnet_features.safetensors"

N_IMAGES = 12
BATCH_SIZE = 2

PROCESS = """
import os, sys, time
from pathlib import Path
import torch
from multirel.networks import build_backbone
from multirel.training._feature_cache import cached_features

torch.set_num_threads(1)
folder = Path({folder!r})
backbone = build_backbone("small-cnn", weights=folder / "weights.safetensors", frozen=True)
paths = sorted((folder / "images").iterdir())

n_calls = 0

def wait_at(number, name):
    real = getattr(os, name)
    def wait(*arguments):
        global n_calls
        n_calls += 1
        if n_calls == number:
            print("waiting", flush=True)
            time.sleep(60)
        return real(*arguments)
    setattr(os, name, wait)

{before}
found = cached_features(backbone, paths, folder=folder / "cache", batch_size={batch_size})
print(found.double().sum().item())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with random weights and random pictures."""
    torch.manual_seed(0)
    save_file(build_backbone("small-cnn").state_dict(), tmp_path / "weights.safetensors")
    generator = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(N_IMAGES):
        pixels = generator.integers(256, size=(40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number:02d}.png")
    return tmp_path


def program(folder: Path, *, before: str = "") -> str:
    return PROCESS.format(folder=str(folder), before=before, batch_size=BATCH_SIZE)


def start(code: str) -> subprocess.Popen:
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    )


def build(folder: Path) -> tuple[Backbone, list[Path], list[int]]:
    """Return the backbone, the images, and a list to which evaluations add their images."""
    backbone = build_backbone("small-cnn", weights=folder / "weights.safetensors", frozen=True)
    counts = []
    backbone.get_submodule("features").register_forward_pre_hook(
        lambda layer, inputs: counts.append(len(inputs[0]))
    )
    return backbone, sorted((folder / "images").iterdir()), counts


@pytest.mark.parametrize(
    ("call", "name", "n_stored"),
    [
        # Two calls of fsync per file: of the file, and of the folder.
        (5, "fsync", 2),
        (3, "replace", 2),
        (6, "fsync", 3),
    ],
    ids=["before the file is flushed", "before it gets its name", "after it has its name"],
)
def test_a_process_killed_while_it_writes_loses_one_batch_at_most(
    folder: Path, call: int, name: str, n_stored: int
):
    process = start(program(folder, before=f"wait_at({call}, {name!r})"))
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert len([*(folder / "cache").rglob("*.safetensors")]) == n_stored

    backbone, paths, counts = build(folder)
    found = cached_features(backbone, paths, folder=folder / "cache", batch_size=BATCH_SIZE)
    assert sum(counts) == N_IMAGES - n_stored * BATCH_SIZE
    expected = cached_features(backbone, paths, folder=folder / "other", batch_size=BATCH_SIZE)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_a_cache_that_is_right(folder: Path):
    begin = time.monotonic()
    run_python(program(folder))
    whole = time.monotonic() - begin
    backbone, paths, _ = build(folder)
    expected = backbone(backbone.preprocess([Image.open(path) for path in paths]))
    for moment in np.linspace(0.7, 1.0, 6):
        for path in (folder / "cache").rglob("*.safetensors"):
            path.unlink()
        process = start(program(folder))
        time.sleep(whole * moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = cached_features(backbone, paths, folder=folder / "cache", batch_size=BATCH_SIZE)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_two_processes_fill_one_cache(folder: Path):
    """Both begin with the first file at hand, and each finishes all that it asked for."""
    begin = f"Path({str(folder)!r}, str(os.getpid())).touch()\n"
    begin += f"while len([*Path({str(folder)!r}).glob('[0-9]*')]) < 2: time.sleep(0.01)"
    processes = [start(program(folder, before=begin)) for _ in range(2)]
    printed = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    backbone, paths, counts = build(folder)
    found = cached_features(backbone, paths, folder=folder / "cache", batch_size=BATCH_SIZE)
    assert counts == []
    assert not [*(folder / "cache").rglob("*.unfinished")]
    for line in printed:
        assert float(line) == pytest.approx(found.double().sum().item(), rel=1e-6)


def test_pool5_of_alexnet_is_evaluated_once(tmp_path: Path):
    images, _ = open_office_images("dslr")
    images = images[:40]
    backbone = build_backbone("alexnet", weights=find_shared(ALEXNET), frozen=True)
    counts = []
    backbone.get_submodule("features").register_forward_pre_hook(
        lambda layer, inputs: counts.append(len(inputs[0]))
    )
    first = cached_features(backbone, images, folder=tmp_path, batch_size=16)
    assert first.shape == (40, 9216)
    assert counts == [16, 16, 8]
    second = cached_features(backbone, images, folder=tmp_path, batch_size=5)
    assert counts == [16, 16, 8]
    assert torch.equal(first, second)
    for batch_size in (1, 40):
        some = images[:3] if batch_size == 1 else images
        chunks = [some[n : n + batch_size] for n in range(0, len(some), batch_size)]
        direct = torch.cat([backbone(backbone.preprocess(chunk)) for chunk in chunks])
        torch.testing.assert_close(first[: len(some)], direct, rtol=1e-4, atol=1e-4)
