"""Two processes end with what one ends with, and hold the same bits; what cannot be shared is refused."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch
import torch.distributed as dist

from multirel.priors import attach_prior
from multirel.training import DistributedWorld, distribute, train
from multirel.training._distributed import BUCKET_SIZE, _buckets, _in_buckets
from tests.environment import run_python
from tests.integration.distributed_cases import (
    CASES,
    Outcome,
    deep,
    heads,
    make_rows,
    own_loop,
    run_case,
)

ROOT = Path(__file__).parents[2]

TIMEOUT = 200.0
"""Seconds that all cases together may take."""

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
"""Largest difference from one process, whose sums are rounded in another order."""

TRAINED = [
    (name, strategy)
    for name, case in CASES.items()
    if case.run in (None, own_loop)
    for strategy in case.strategies
]

EQUAL_TO_ONE = [(name, strategy) for name, strategy in TRAINED if name != "normalization"]

BOTH = pytest.mark.parametrize("strategy", ["ddp", "fsdp"])


def environment() -> dict[str, str]:
    """Settings of the processes, which find each other on this machine."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes have left what they ended with in all cases; workers of pytest share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "distributed"
    try:
        folder.mkdir()
    except FileExistsError:
        deadline = monotonic() + TIMEOUT
        while not (folder / "errors").exists() and monotonic() < deadline:
            sleep(0.1)
    else:
        (folder / "unfinished").write_text(errors_of_two_processes(folder))
        (folder / "unfinished").rename(folder / "errors")
    errors = (folder / "errors").read_text()
    assert errors == ""
    return folder


def errors_of_two_processes(folder: Path) -> str:
    """Run all cases in two processes, and return what those that failed say."""
    command = [sys.executable, "-m", "tests.integration.distributed_cases"]
    with ExitStack() as stack:
        logs = [stack.enter_context((folder / f"log-{rank}").open("w+")) for rank in range(2)]
        processes = [
            subprocess.Popen(
                [*command, str(rank), "2", str(folder), *CASES], env=environment(), stderr=log
            )
            for rank, log in enumerate(logs)
        ]
        try:
            codes = [process.wait(timeout=TIMEOUT) for process in processes]
        finally:
            for process in processes:
                process.kill()
        for log in logs:
            log.seek(0)
        return "".join(log.read() for log, code in zip(logs, codes, strict=True) if code != 0)


@pytest.fixture
def one_process(tmp_path: Path):
    """A process group of this process alone."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def outcome(folder: Path, name: str) -> Outcome:
    """What a process ended with: "case alone", or "case strategy rank"."""
    return Outcome(**torch.load(folder / f"{name}.pt", weights_only=True))


def outcomes(folder: Path, name: str, strategy: str) -> list[Outcome]:
    """What each of the processes ended with."""
    return [outcome(folder, f"{name} {strategy} {rank}") for rank in range(2)]


def assert_same_bits(one: Outcome, other: Outcome) -> None:
    assert torch.equal(one.weights, other.weights)
    assert all(torch.equal(a, b) for a, b in zip(one.buffers, other.buffers, strict=True))
    assert one.prior.keys() == other.prior.keys()
    assert [name for name in one.prior if not torch.equal(one.prior[name], other.prior[name])] == []
    assert (one.loss, one.scores, one.best_epoch) == (other.loss, other.scores, other.best_epoch)


def assert_equal_up_to_rounding(one: Outcome, other: Outcome) -> None:
    tolerance = TOLERANCE[other.weights.dtype]
    assert one.weights.shape == other.weights.shape
    assert float((one.weights - other.weights).abs().max()) <= tolerance
    for name, value in other.prior.items():
        difference = (one.prior[name].double() - value.double()).abs().max()
        assert float(difference) <= tolerance * max(1.0, float(value.abs().max())), name
    assert one.loss == pytest.approx(other.loss, abs=tolerance)
    assert one.scores == pytest.approx(other.scores, abs=tolerance)
    assert one.best_epoch == other.best_epoch


@pytest.mark.parametrize(("name", "strategy"), EQUAL_TO_ONE)
def test_two_processes_end_as_one_does(folder: Path, name: str, strategy: str):
    """Weights, losses, scores and prior; the second process started from other weights of its own."""
    alone = outcome(folder, f"{name} alone")
    for together in outcomes(folder, name, strategy):
        assert_equal_up_to_rounding(together, alone)


@pytest.mark.parametrize(("name", "strategy"), TRAINED)
def test_all_processes_hold_the_same_bits(folder: Path, name: str, strategy: str):
    """Weights, buffers, the state of the prior after several updates, losses and scores."""
    first, second = outcomes(folder, name, strategy)
    assert_same_bits(first, second)
    n_updates = int(first.prior["counts"][1])
    assert n_updates >= 3


def test_cases_are_what_they_are_called(folder: Path):
    """Training stops early, ranks are low, and norms of gradients are above what they are clipped to."""
    stopped = outcome(folder, "early stopping alone")
    assert stopped.best_epoch == len(stopped.scores) - 2 < 10
    low_rank = outcome(folder, "low rank alone")
    assert low_rank.prior["heads.fc7.output.basis"].shape == (12, 2)
    clipped, free = (
        outcome(folder, f"{name} alone") for name in ("parts and clipping", "backbone")
    )
    assert not torch.allclose(clipped.weights, free.weights)


def test_a_network_with_nothing_around_it_is_trained_alike(folder: Path):
    """The world averages the gradients of a plain network itself."""
    alone = outcome(folder, "rare task alone")
    for together in outcomes(folder, "plain", "ddp"):
        assert_equal_up_to_rounding(together, alone)


@BOTH
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_training_goes_on_from_a_checkpoint_to_the_same_bits(
    folder: Path, optimizer: str, strategy: str
):
    """Broken off after step 10, with a checkpoint of step 8: weights, prior, losses and the best epoch."""
    whole = outcomes(folder, f"whole, {optimizer}", strategy)
    resumed = outcomes(folder, f"resumed, {optimizer}", strategy)
    for one, other in zip(whole, resumed, strict=True):
        assert other.found["steps"][0] == 9
        assert_same_bits(one, other)


def test_gradients_are_exchanged_once_per_step(folder: Path):
    """Not after the other parts of an accumulated batch."""
    for process in outcomes(folder, "exchanges", "ddp"):
        assert process.found["n_exchanges"] == process.found["n_steps"] == 17
    for process in outcomes(folder, "held back", "fsdp"):
        assert process.found["has_gradient"] == [False, True]


@BOTH
def test_a_loss_that_is_not_finite_stops_all_processes(folder: Path, strategy: str):
    """Also those that have not seen the row; the weights are those before that step, in all of them."""
    first, second = outcomes(folder, "NaN", strategy)
    assert first.found["message"] == second.found["message"]
    assert re.match("`loss` must stay finite: expected a number, got nan", first.found["message"])
    assert torch.equal(first.weights, second.weights)
    assert bool(first.weights.isfinite().all())


def test_rows_that_differ_between_processes_are_refused(folder: Path):
    """In both, rather than in one while the other waits."""
    for process in outcomes(folder, "other rows", "ddp"):
        assert re.match(
            r"`train` must be given the same in every process: they differ in rows.n_rows \(31 in process "
            r"0, 30 in process 1\)",
            process.found["message"],
        )


def test_a_checkpoint_that_only_one_process_sees_is_refused(folder: Path):
    """As on machines without a common disk."""
    for process in outcomes(folder, "checkpoint of one", "ddp"):
        assert re.match(
            r"`train` must be given the same .* checkpoint \(True in process 0, False in process 1\)",
            process.found["message"],
        )


def test_priors_on_sharded_weights_are_refused_by_name(folder: Path):
    """Attached before and after sharding, by layers and by parameters."""
    for process in outcomes(folder, "prior on sharded", "fsdp"):
        before, *after = process.found["messages"]
        assert re.match(
            "`penalties` must act on the weights of `network`: those of 'backbone.layers.*' are not in it, "
            "or have been sharded since",
            before,
        )
        for message in after:
            assert re.match(
                "`layers` must name weights that every process holds whole: 'backbone.layers.0.weight' is "
                "sharded over 2",
                message,
            )


def test_processes_must_have_been_started():
    """Both names say what to call first."""
    with pytest.raises(
        ValueError, match="`DistributedWorld` must come after `torch.distributed.init"
    ):
        DistributedWorld()
    with pytest.raises(ValueError, match="`distribute` must come after .* got no process group"):
        distribute(heads())


def test_strategies_have_names():
    with pytest.raises(ValueError, match="`strategy` must be one of 'ddp', 'fsdp': got 'dp'"):
        distribute(heads(), "dp")


def test_only_networks_with_a_backbone_are_sharded(one_process):
    with pytest.raises(ValueError, match="`network` must have a `backbone` with parameters"):
        distribute(heads(), "fsdp")


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize("name", ["gradient", "parts and clipping"])
def test_one_process_may_be_a_world(one_process, tmp_path: Path, name: str, strategy: str):
    """As when a script for many processes is tried out with one."""
    together = run_case(name, strategy, world=DistributedWorld(), folder=tmp_path)
    alone = run_case(name, strategy, world=None, folder=tmp_path)
    assert_equal_up_to_rounding(together, alone)


@BOTH
def test_a_network_for_several_processes_needs_their_world(one_process, strategy: str):
    """Otherwise each of them would train on all rows, and sharded networks with heads of their own."""
    network, rows = distribute(deep(), strategy), make_rows(CASES["heads"])
    with pytest.raises(
        ValueError, match="`world` must be given with a network for several processes"
    ):
        train(network, rows)


def test_unused_parameters_are_looked_for_where_there_may_be_some(one_process):
    """Not where all weights are used by every row; a backbone of the user's own may leave out some."""
    assert not distribute(heads()).find_unused_parameters
    assert distribute(deep()).find_unused_parameters
    assert not distribute(deep(), find_unused_parameters=False).find_unused_parameters
    assert distribute(heads(n_outputs=(2, 3, 2))).find_unused_parameters
    with pytest.raises(
        ValueError, match="`find_unused_parameters` must be None for strategy='fsdp'"
    ):
        distribute(deep(), "fsdp", find_unused_parameters=False)


def test_penalties_must_act_on_the_network_that_is_trained(one_process):
    """Not on a copy of it, whose weights would never change."""
    network = heads()
    prior = attach_prior(deepcopy(network), "heads.fc8", n_samples=10)
    with pytest.raises(
        ValueError, match="`penalties` must act on the weights of `network`: those of"
    ):
        DistributedWorld().align(network, [prior], identity={})


def test_small_tensors_are_sent_together():
    """In buckets of one dtype; tensors of any layout keep it, and a large one is alone."""
    small = [torch.full((2, 3), float(index)) for index in range(4)]
    transposed = torch.arange(6.0).reshape(2, 3).T
    whole = torch.tensor(5)
    large = torch.ones(BUCKET_SIZE + 1)
    tensors = [small[0], whole, transposed, large, *small[1:]]
    buckets = _buckets(tensors)
    assert [len(bucket) for bucket in buckets] == [2, 1, 1, 3]
    expected = [2 * tensor for tensor in tensors]
    _in_buckets(tensors, lambda values: values.mul_(2))
    assert all(torch.equal(a, b) for a, b in zip(tensors, expected, strict=True))
    assert transposed.stride() == (1, 3)


def test_importing_takes_no_time_for_what_only_sharding_needs():
    code = "import sys, multirel.training; print('torch.distributed.fsdp' in sys.modules)"
    assert run_python(code).strip() == "False"


SCRIPT = """
import torch
from torch.nn import Linear
from multirel.networks import MultitaskNetwork
from multirel.priors import attach_prior
from multirel.training import DistributedWorld, Recipe, TrainingRows, distribute, train

torch.distributed.init_process_group("gloo")
network = MultitaskNetwork(Linear(6, 4), 2, n_outputs=3, n_features=4)
rows = TrainingRows(torch.ones(9, 6), torch.arange(9) % 3, torch.arange(9) % 2)
prior = attach_prior(network, "heads.fc8", n_samples=rows.n_samples)
history = train(
    distribute(network), rows, recipe=Recipe(max_steps=3), penalties=[prior], world=DistributedWorld()
)
open(f"steps-{torch.distributed.get_rank()}", "w").write(str(history.n_steps))
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_torchrun_starts_processes(tmp_path: Path):
    """As the guide says."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    address = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    result = subprocess.run(
        [*command, *address, str(script)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert [(tmp_path / f"steps-{rank}").read_text() for rank in range(2)] == ["3", "3"]
