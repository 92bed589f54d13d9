"""What a training step costs with the prior, beside the same step without it."""

import copy
import gc
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from prior_cost_naive import NaivePrior
from prior_cost_timing import (
    Setup,
    going_on,
    mebibytes,
    milliseconds,
    peak_memory,
    ratio,
    rounds,
    table,
)
from torch import Tensor, nn

from multirel.networks import MultitaskNetwork, build_backbone
from multirel.priors import attach_prior

N_TASKS = 4
ROWS_PER_TASK = 32
N_CLASSES = 10
N_ROWS = 2533
"""Training rows N, by which the prior's strength is divided."""

N_BATCHES = 4
"""Batches that take turns."""

QUICK_FEATURES = 48
UPDATE_EVERY = 100
NATIVE = ("heads.fc7", "heads.fc8")
COLLECTED = ("heads.*.fc7", "heads.*.fc8")

HEADER = [
    "variant", "steps", "mean step (ms)", "÷ plain", "median round (ms)", "÷ plain", "peak memory (MiB)",
    "goal for the mean",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One row of a table."""

    name: str
    against: str = "plain"
    """The row that its times are divided by."""

    settings: dict[str, Any] | None = None
    """What `attach_prior` is given beside its defaults; None attaches nothing."""

    is_separate: bool = False
    """Whether each task has layers of its own in place of one stack."""

    is_naive: bool = False
    goal: float = math.nan


PLAIN = Variant(name="plain")
AGAIN = Variant(name="plain, again")
SLOW = [
    Variant(name="`rank=None`", settings={"rank": None}),
    Variant(name="`rank=None, apply_every=1`", settings={"rank": None, "apply_every": 1}),
    Variant(name="naive", is_naive=True),
    Variant(name="separate layers, plain", is_separate=True, against="separate layers, plain"),
    Variant(
        name="separate layers, defaults",
        is_separate=True,
        against="separate layers, plain",
        settings={},
    ),
]


def _fast(defaults: float, every_step: float) -> list[Variant]:
    return [
        Variant(name="defaults", settings={}, goal=defaults),
        Variant(name="`apply_every=1`", settings={"apply_every": 1}, goal=every_step),
    ]


class SeparateHeads(nn.Module):
    """A backbone and, for each task, layers of its own; rows come task after task, equally many."""

    def __init__(self, backbone: nn.Module, n_features: int, width: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = nn.ModuleDict(
            {
                f"task{index}": nn.ModuleDict(
                    {"fc7": nn.Linear(n_features, width), "fc8": nn.Linear(width, N_CLASSES)}
                )
                for index in range(N_TASKS)
            }
        )

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        parts = self.backbone(x).chunk(N_TASKS)
        outputs = []
        for part, head in zip(parts, self.heads.values(), strict=True):
            outputs.append(head["fc8"](F.relu(head["fc7"](part))))
        return torch.cat(outputs)


@dataclass(kw_only=True)
class Work:
    """The networks of a table, and what they are trained on."""

    backbone: nn.Module
    n_features: int
    width: int
    input_shape: tuple[int, ...]
    setup: Setup
    is_bf16: bool
    rows_per_task: int = ROWS_PER_TASK
    native: nn.Module = field(init=False)
    batches: list[tuple[Tensor, Tensor]] = field(init=False)

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        n_rows = N_TASKS * self.rows_per_task
        with torch.device(self.setup.device):
            self.native = self.make_network(is_separate=False)
            self.batches = [
                (torch.randn(n_rows, *self.input_shape), torch.randint(N_CLASSES, (n_rows,)))
                for _ in range(N_BATCHES)
            ]

    @property
    def tasks(self) -> Tensor:
        """The task of each row: one mini-batch per task, and on the CPU, as a loader gives it."""
        return torch.arange(N_TASKS).repeat_interleave(self.rows_per_task)

    def make_network(self, *, is_separate: bool) -> nn.Module:
        backbone = copy.deepcopy(self.backbone)
        if is_separate:
            with torch.device(self.setup.device):
                return SeparateHeads(backbone, self.n_features, self.width)
        return MultitaskNetwork(
            backbone,
            N_TASKS,
            n_outputs=N_CLASSES,
            hidden_sizes=(self.width,),
            n_features=self.n_features,
        )

    def autocast(self) -> AbstractContextManager[object]:
        if not self.is_bf16:
            return nullcontext()
        return torch.autocast(self.setup.device, dtype=torch.bfloat16)


class Trainer:
    """Steps of one variant."""

    def __init__(self, work: Work, variant: Variant) -> None:
        self.work = work
        self.network = (
            work.make_network(is_separate=True)
            if variant.is_separate
            else copy.deepcopy(work.native)
        )
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3, momentum=0.9)
        self.prior = None
        self.naive = None
        self.tasks = work.tasks
        self.n_done = 0
        self.loss = torch.zeros(())
        if variant.settings is not None:
            self.prior = attach_prior(
                self.network,
                COLLECTED if variant.is_separate else NATIVE,
                n_samples=N_ROWS,
                n_updates=None,
                update_every=_update_every(work.setup),
                **variant.settings,
            )
        if variant.is_naive:
            self.naive = NaivePrior(
                [stack.weight for stack in self.network.heads.values()],
                rate=1 / N_ROWS,
                update_every=_update_every(work.setup),
            )

    def warm_up(self) -> None:
        """A few steps, and an update: from here on the covariances are of the form that they keep."""
        self.steps(3)
        for prior in (self.prior, self.naive):
            if prior is not None:
                prior.update()
        if self.prior is not None:
            self.prior.apply(self.optimizer)
        self.steps(2)

    def steps(self, n: int) -> None:
        for _ in range(n):
            x, y = self.work.batches[self.n_done % N_BATCHES]
            self.optimizer.zero_grad(set_to_none=True)
            with self.work.autocast():
                self.loss = F.cross_entropy(self.network(x, self.tasks), y)
            whole = self.loss if self.naive is None else self.loss + self.naive()
            whole.backward()
            self.optimizer.step()
            if self.prior is not None:
                self.prior.step(self.optimizer)
            if self.naive is not None:
                self.naive.step()
            self.n_done += 1


def _print_table(
    title: str, work: Work, variants: Sequence[Variant], *, n_steps: int, chunk: int
) -> None:
    """Time the variants in turns, and print them."""
    trainers: list[Trainer] = []
    peaks = []
    for variant in variants:

        def begin(variant: Variant = variant) -> None:
            trainers.append(Trainer(work, variant))
            trainers[-1].warm_up()

        peaks.append(peak_memory(begin, work.setup))
    times = rounds([t.steps for t in trainers], work.setup, chunk=chunk, n_steps=n_steps)
    n_all = sum(parameter.numel() for parameter in work.native.parameters())
    n_stacks = sum(stack.weight.numel() for stack in work.native.heads.values())
    title += f" ({n_all / 1e6:.1f} M parameters, {n_stacks / 1e6:.1f} M under the prior)"
    table(title, HEADER, _rows(variants, trainers, times, peaks))


def _rows(
    variants: Sequence[Variant],
    trainers: Sequence[Trainer],
    times: Sequence[Sequence[float]],
    peaks: Sequence[float],
) -> Iterator[list[str]]:
    means = {v.name: statistics.mean(row) for v, row in zip(variants, times, strict=True)}
    medians = {v.name: statistics.median(row) for v, row in zip(variants, times, strict=True)}
    for variant, trainer, peak in zip(variants, trainers, peaks, strict=True):
        name = variant.name
        note = "" if bool(trainer.loss.isfinite()) else ", LOSS NOT FINITE"
        against = means[name] / means[variant.against]
        yield [
            name + note,
            str(trainer.n_done - 5),
            milliseconds(means[name]),
            ratio(against),
            milliseconds(medians[name]),
            ratio(medians[name] / medians[variant.against]),
            mebibytes(peak),
            "" if math.isnan(variant.goal) else f"≤ {variant.goal:.2f}",
        ]


def _make_backbone(name: str, setup: Setup) -> tuple[nn.Module, int]:
    """Everything up to fc6, and how many features that gives; in a quick run a narrow end in its place."""
    torch.manual_seed(0)
    with torch.device(setup.device):
        if not setup.quick:
            whole = build_backbone(name, output="fc6")
            return whole, whole.n_features
        convolutions = build_backbone(name)
        end = nn.Linear(convolutions.n_features, QUICK_FEATURES)
        return nn.Sequential(convolutions, end), QUICK_FEATURES


def print_steps(setup: Setup) -> None:
    """Steps of whole networks: AlexNet with all variants, VGG-16 with those that matter."""
    _explain(setup, rows_per_task=_image_rows(setup))
    fast = _fast(1.05, 1.10)
    for name in setup.networks:
        variants = [PLAIN, *fast] if name == "vgg16" else [PLAIN, AGAIN, *fast, *SLOW]
        for is_bf16 in (False, True):
            title = f"Step of {name}, {_precision(is_bf16, setup)}"
            with going_on(title):
                work = _image_work(name, is_bf16, setup)
                n_steps, chunk = setup.size((300, 20), (4, 2))
                _print_table(title, work, variants, n_steps=n_steps, chunk=chunk)
            _free(setup)


def _image_rows(setup: Setup) -> int:
    return setup.size(ROWS_PER_TASK, 1)


def _image_work(name: str, is_bf16: bool, setup: Setup) -> Work:
    backbone, n_features = _make_backbone(name, setup)
    side = setup.size(224, 64)
    return Work(
        backbone=backbone,
        n_features=n_features,
        width=setup.size(4096, 24),
        input_shape=(3, side, side),
        setup=setup,
        is_bf16=is_bf16,
        rows_per_task=_image_rows(setup),
    )


def print_heads(setup: Setup) -> None:
    """Steps of task-specific layers on features that lie ready."""
    _explain(setup, rows_per_task=ROWS_PER_TASK)
    variants = [PLAIN, AGAIN, *_fast(1.30, math.nan), *SLOW]
    for n_features, width in setup.size(((4096, 4096), (2048, 256)), ((96, 64), (48, 16))):
        for is_bf16 in (False, True):
            layers = f"{n_features} → {width} → {N_CLASSES}"
            title = f"Step on cached features {layers}, {_precision(is_bf16, setup)}"
            with going_on(title):
                work = Work(
                    backbone=nn.Identity(),
                    n_features=n_features,
                    width=width,
                    input_shape=(n_features,),
                    setup=setup,
                    is_bf16=is_bf16,
                )
                n_steps, chunk = setup.size((300, 20), (20, 2))
                _print_table(title, work, variants, n_steps=n_steps, chunk=chunk)
            _free(setup)


def _precision(is_bf16: bool, setup: Setup) -> str:
    return "bf16 autocast" if is_bf16 else setup.float32


def _explain(setup: Setup, *, rows_per_task: int) -> None:
    print(
        f"\nT = {N_TASKS}, {rows_per_task} rows per task, forward + backward + SGD with momentum, "
        f"`n_updates=None`, `update_every={_update_every(setup)}`. Means include the updates; most rounds "
        f"have none, so their medians do not. Peak memory is that of building the variant, five steps, an "
        f"update and an application.",
        flush=True,
    )


def _update_every(setup: Setup) -> int:
    return setup.size(UPDATE_EVERY, 5)


def _free(setup: Setup) -> None:
    gc.collect()
    if setup.is_cuda:
        torch.cuda.empty_cache()


SECTIONS: dict[str, Callable[[Setup], None]] = {"step": print_steps, "heads": print_heads}
