"""Small trainings that the same code runs in one process or in several, and what each of them ends with.

`python -m tests.integration.distributed_cases RANK SIZE FOLDER NAME …` is one process of several. In the end
they also train alone, each a part of the cases.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from multirel.networks import MultitaskNetwork
from multirel.priors import attach_prior
from multirel.training import (
    Callback,
    Checkpoint,
    DistributedWorld,
    Recipe,
    TrainingRows,
    World,
    add_penalty_gradients,
    distribute,
    step_penalties,
    train,
)
from multirel.training._world import SingleProcess

__all__ = ["CASES", "Case", "Outcome", "deep", "heads", "make_rows", "own_loop", "run_case"]

N_FEATURES, N_CLASSES, N_TASKS = 6, 3, 3

TIMEOUT = timedelta(seconds=60)


class OwnNetwork(nn.Module):
    """A network of the user's own: a backbone, and a plain linear layer for each task."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(N_FEATURES, 8), nn.Tanh())
        self.heads = nn.ModuleDict({str(t): nn.Linear(8, N_CLASSES) for t in range(N_TASKS)})

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        features = self.backbone(x)
        y = features.new_zeros(len(x), N_CLASSES)
        for t in task.unique().tolist():
            rows = (task == t).nonzero().squeeze(1).to(x.device)
            y = y.index_copy(0, rows, self.heads[str(t)](features[rows]))
        return y


def backbone(*layers: nn.Module) -> nn.Sequential:
    """A backbone of 9 features."""
    return nn.Sequential(nn.Linear(N_FEATURES, 7), *layers, nn.Tanh(), nn.Linear(7, 9), nn.Tanh())


def heads(**options: Any) -> MultitaskNetwork:
    """Heads without a backbone."""
    options = {"n_outputs": N_CLASSES, "hidden_sizes": (5,)} | options
    return MultitaskNetwork(N_FEATURES, N_TASKS, **options)


def deep(*layers: nn.Module, **options: Any) -> MultitaskNetwork:
    """Heads behind a small backbone."""
    options = {"n_outputs": N_CLASSES, "hidden_sizes": (5,)} | options
    return MultitaskNetwork(backbone(*layers), N_TASKS, n_features=9, **options)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training."""

    network: Callable[[], nn.Module] = heads
    layers: tuple[str, ...] = ("heads.fc7", "heads.fc8")
    prior: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    n_rows: int = 61
    rare_task: bool = False
    """Whether one task has two rows only, so that most batches have none of it."""

    weights: bool = False
    class_weight: tuple[float, ...] | None = None
    dtype: torch.dtype = torch.float64
    strategies: tuple[str, ...] = ("ddp",)
    run: Callable[..., dict[str, Any]] | None = None
    """What is done in the place of one training from the start to the end."""


@dataclass
class Outcome:
    """What a process ends with."""

    weights: Tensor
    """All weights of the network, whole."""

    buffers: list[Tensor]
    prior: dict[str, Tensor]
    loss: list[float]
    scores: list[float]
    best_epoch: int | None
    found: dict[str, Any] = field(default_factory=dict)
    """What else a case is about."""


def make_rows(case: Case) -> TrainingRows:
    """The same rows in every process."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(case.n_rows, N_FEATURES, generator=generator, dtype=case.dtype)
    weight = torch.randn(N_FEATURES, N_CLASSES, generator=generator, dtype=case.dtype)
    task = torch.randint(N_TASKS, (case.n_rows,), generator=generator)
    if case.rare_task:
        task = task.clamp(max=N_TASKS - 2)
        task[:2] = N_TASKS - 1
    counts = torch.rand(case.n_rows, generator=generator) * 3 if case.weights else None
    y = (x @ weight).argmax(1)
    if case.network is separate_outputs:
        y = y.clamp(max=1)
    return TrainingRows(x, y, task, weight=counts, n_tasks=N_TASKS)


def separate_outputs() -> MultitaskNetwork:
    """Tasks with different numbers of outputs."""
    return deep(n_outputs=(2, 3, 2))


class Training:
    """A network, its prior and its rows, ready to train in one process or in several."""

    def __init__(self, case: Case, strategy: str, world: World | None) -> None:
        self.case, self.world = case, world
        self.rank = 0 if world is None else world.rank
        # Every process draws other weights: those of the first are what counts.
        torch.manual_seed(self.rank)
        self.network = case.network().to(case.dtype)
        self.rows = make_rows(case)
        self.prior = attach_prior(
            self.network,
            case.layers,
            n_samples=self.rows.n_samples,
            **{"strength": 2.0, "update_every": 5, "n_updates": None} | case.prior,
        )
        self.called = self.network if world is None else distribute(self.network, strategy)

    def train(self, *, callbacks=(), checkpoint=None, rows=None):
        """Train, with what may differ from the case."""
        recipe = {"max_steps": 17, "batch_size": 7, "learning_rate": 0.05, "weight_decay": 1e-3}
        return train(
            self.called,
            self.rows if rows is None else rows,
            recipe=Recipe(**recipe | self.case.recipe),
            penalties=[self.prior],
            class_weight=self.case.class_weight,
            callbacks=callbacks,
            checkpoint=checkpoint,
            world=self.world,
        )

    def outcome(self, history=None, **found: Any) -> Outcome:
        """What came out."""
        state = self.network.state_dict()
        if self.world is not None:
            state = {name: self.world.whole(value) for name, value in state.items()}
        names = [name for name, _ in self.network.named_parameters()]
        return Outcome(
            weights=torch.cat([state.pop(name).detach().flatten() for name in names]),
            buffers=[value.clone() for value in state.values()],
            prior=dict(self.prior.state_dict()),
            loss=[] if history is None else history.loss,
            scores=[] if history is None else history.validation_score,
            best_epoch=None if history is None else history.best_epoch,
            found=found,
        )


class StopBy(Callback):
    """Breaks training off after a step, as Ctrl-C would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, state) -> None:
        if state.step == self.step:
            raise KeyboardInterrupt


def resumed(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """A training that is broken off between two checkpoints, and goes on in a new network."""
    checkpoint = Checkpoint(folder / f"{strategy}-{case.recipe['optimizer']}", every=4)
    try:
        Training(case, strategy, world).train(callbacks=[StopBy(10)], checkpoint=checkpoint)
    except KeyboardInterrupt:
        pass
    second = Training(case, strategy, world)
    steps: list[int] = []
    history = second.train(callbacks=[CountSteps(steps)], checkpoint=checkpoint)
    return second.outcome(history, steps=steps)


class CountSteps(Callback):
    """Notes which steps were made."""

    def __init__(self, steps: list[int]) -> None:
        self.steps = steps

    def on_step_end(self, state) -> None:
        self.steps.append(state.step)


def message_of(call: Callable[[], Any]) -> str:
    """The text of the error that a call raises."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return "no error"


def one_row_of_nan(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """One row is NaN, which only the process that takes it sees."""
    training = Training(case, strategy, world)
    batch = training.rows.take(torch.arange(len(training.rows)))
    batch.x[5] = torch.nan
    rows = TrainingRows(batch.x, batch.y, batch.task, n_tasks=N_TASKS)
    message = message_of(lambda: training.train(rows=rows))
    return training.outcome(message=message)


def other_rows(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """Every process has rows of its own."""
    training = Training(case, strategy, world)
    rows = training.rows.select(torch.arange(training.rank, len(training.rows), 2))
    return training.outcome(message=message_of(lambda: training.train(rows=rows)))


def checkpoint_of_one(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """Only the first process sees the checkpoint."""
    checkpoint = Checkpoint(folder / "seen-by-one")
    Training(case, strategy, world).train(checkpoint=checkpoint)
    if world is not None and world.rank > 0:
        checkpoint = Checkpoint(folder / "seen-by-the-other")
    second = Training(case, strategy, world)
    return second.outcome(message=message_of(lambda: second.train(checkpoint=checkpoint)))


class Stacked(nn.Module):
    """Outputs of one linear layer per task, "n T O"."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(N_FEATURES, N_CLASSES) for _ in range(N_TASKS))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([layer(x) for layer in self.layers], dim=1)


class TasksInBackbone(nn.Module):
    """A network whose backbone has a layer per task, so that nobody should shard it."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Stacked()

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        return self.backbone(x)[torch.arange(len(x)), task]


def prior_on_sharded(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """A prior on layers that are sharded afterwards, and one on layers that have been."""
    training = Training(case, strategy, world)
    messages = [message_of(training.train)]
    for pattern in ("backbone.layers.*", "backbone.layers.*.weight"):
        messages.append(
            message_of(lambda p=pattern: attach_prior(training.network, p, n_samples=10))
        )
    return training.outcome(messages=messages)


def count_exchanges(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """How often gradients are exchanged."""
    training = Training(case, strategy, world)
    counts: list[int] = []

    def hook(state, bucket):
        counts.append(bucket.index())
        work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    training.called.register_comm_hook(None, hook)
    history = training.train()
    return training.outcome(history, n_exchanges=counts.count(0), n_steps=history.n_steps)


def hold_back(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """Whether sharded weights have a gradient after each of two parts of a batch."""
    training = Training(case, strategy, world)
    batch = training.rows.take(torch.arange(4))
    has_gradient = []
    with world.without_sync(training.called):
        training.called(batch.x, batch.task).exp().mean().backward()
    has_gradient.append(training.network.backbone[0].weight.grad is not None)
    training.called(batch.x, batch.task).exp().mean().backward()
    has_gradient.append(training.network.backbone[0].weight.grad is not None)
    return training.outcome(has_gradient=has_gradient)


def own_loop(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """A loop of the user's own, as the guide describes it."""
    training = Training(case, strategy, world)
    network, prior = training.network, training.prior
    world = SingleProcess() if world is None else world
    world.align(network, [prior], identity={})
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(17):
        index = torch.arange(7 * step, 7 * step + 7) % len(training.rows)
        batch = training.rows.take(world.share(index))
        optimizer.zero_grad()
        outputs = training.called(batch.x, batch.task)
        loss = cross_entropy(outputs, batch.y, reduction="sum") / len(index)
        (loss * world.size).backward()
        world.exchange(training.called)
        add_penalty_gradients([prior])
        optimizer.step()
        step_penalties([prior], optimizer)
        losses.append(float(world.sum(loss.detach())))
    outcome = training.outcome()
    outcome.loss = losses
    return outcome


def plain(case: Case, strategy: str, world: World | None, folder: Path) -> Outcome:
    """The network itself, nothing around it: the world averages its gradients."""
    training = Training(case, strategy, world)
    training.called = training.network
    return training.outcome(training.train())


BOTH = ("ddp", "fsdp")
STOPPING = {"validation_fraction": 0.3, "patience": 2, "max_steps": None, "max_epochs": 12}
LOW_RANK = {"rank": 2, "shrinkage": 0.1, "modes": ("task", "output", "input")}
OWN = {"network": OwnNetwork, "layers": ("heads.*",)}

CASES: dict[str, Case] = {
    "heads": Case(),
    "gradient": Case(network=deep, prior={"application": "gradient"}, strategies=BOTH),
    "weights": Case(weights=True, class_weight=(1.0, 2.0, 0.5)),
    "backbone": Case(network=deep, strategies=BOTH),
    "own network": Case(**OWN, strategies=BOTH),
    "own network, gradient": Case(**OWN, strategies=BOTH, prior={"application": "gradient"}),
    "rare task": Case(network=deep, rare_task=True, strategies=BOTH),
    "rare task, own network": Case(**OWN, rare_task=True, strategies=BOTH),
    "rare task, own network, parts": Case(
        **OWN, rare_task=True, strategies=BOTH, recipe={"accumulate": 3, "optimizer": "adamw"}
    ),
    "rare task, separate outputs": Case(
        network=separate_outputs, layers=("heads.fc7",), rare_task=True, strategies=BOTH
    ),
    "parts and clipping": Case(
        network=deep, strategies=BOTH, recipe={"accumulate": 3, "clip_norm": 0.05}
    ),
    "clipping": Case(network=OwnNetwork, layers=("heads.*",), recipe={"clip_norm": 0.05}),
    "early stopping": Case(network=deep, strategies=BOTH, recipe=STOPPING),
    "per-task batches": Case(recipe={"sampling": "per-task", "batch_size": 3}),
    "adamw": Case(network=deep, strategies=BOTH, recipe={"optimizer": "adamw"}),
    "low rank": Case(network=lambda: heads(hidden_sizes=(12,)), prior=LOW_RANK),
    "low rank, sharded": Case(
        network=lambda: deep(hidden_sizes=(12,)), prior=LOW_RANK, strategies=BOTH
    ),
    "shared, initial mean": Case(
        prior={"mean": "initial", "share_task_covariance": True}, layers=("heads.fc7",)
    ),
    "one row": Case(network=deep, recipe={"batch_size": 1, "accumulate": 2}, strategies=BOTH),
    "float32": Case(network=deep, dtype=torch.float32, strategies=BOTH),
    "plain": Case(network=deep, run=plain, rare_task=True),
    "normalization": Case(network=lambda: deep(nn.BatchNorm1d(7)), strategies=BOTH),
    "whole, sgd": Case(network=deep, strategies=BOTH, recipe={"optimizer": "sgd", **STOPPING}),
    "resumed, sgd": Case(
        network=deep, run=resumed, strategies=BOTH, recipe={"optimizer": "sgd", **STOPPING}
    ),
    "whole, adamw": Case(network=deep, strategies=BOTH, recipe={"optimizer": "adamw"}),
    "resumed, adamw": Case(
        network=deep, run=resumed, strategies=BOTH, recipe={"optimizer": "adamw"}
    ),
    "own loop": Case(
        **OWN, run=own_loop, strategies=BOTH, rare_task=True, prior={"application": "gradient"}
    ),
    "NaN": Case(network=deep, run=one_row_of_nan, strategies=BOTH),
    "other rows": Case(run=other_rows),
    "checkpoint of one": Case(run=checkpoint_of_one),
    "prior on sharded": Case(
        network=TasksInBackbone,
        layers=("backbone.layers.*",),
        prior={"application": "gradient"},
        run=prior_on_sharded,
        strategies=("fsdp",),
    ),
    "exchanges": Case(run=count_exchanges, recipe={"accumulate": 3}),
    "held back": Case(network=deep, run=hold_back, strategies=("fsdp",)),
}


def run_case(name: str, strategy: str, *, world: World | None, folder: Path) -> Outcome:
    """Train what `name` says."""
    case = CASES[name]
    if case.run is not None:
        return case.run(case, strategy, world, folder)
    training = Training(case, strategy, world)
    return training.outcome(training.train())


def main() -> None:
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    world = DistributedWorld()
    for name in sys.argv[4:]:
        for strategy in CASES[name].strategies:
            outcome = vars(run_case(name, strategy, world=world, folder=folder))
            torch.save(outcome, folder / f"{name} {strategy} {rank}.pt")
    # None leaves while another still waits for it.
    world.wait()
    dist.destroy_process_group()
    compared = [name for name in sys.argv[4:] if CASES[name].run in (None, own_loop)]
    for name in compared[rank::size]:
        outcome = vars(run_case(name, "alone", world=None, folder=folder))
        torch.save(outcome, folder / f"{name} alone.pt")


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
