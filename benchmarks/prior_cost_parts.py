"""What one application, one update and one gradient of the prior take, and how the update grows."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from prior_cost_timing import (
    Setup,
    going_on,
    log_slope,
    mebibytes,
    milliseconds,
    number,
    peak_memory,
    ratio,
    seconds,
    shape_of,
    table,
    upper_half,
    use_tf32,
)
from torch import Tensor, nn

from multirel.networks import TaskLinear
from multirel.priors import TensorNormalPrior, attach_prior

N_ROWS = 2533
STEP_OF_CHECK = 0.1
"""The c of the applications that are compared: far enough to see something."""

OVERSAMPLING = 16
"""What the range finder of a low-rank update adds to the rank."""

EIGEN_OPERATIONS = 9
"""Operations of a symmetric eigendecomposition of size d, over d³."""


@dataclass(kw_only=True)
class Case:
    """A stack with a prior on it, after one update."""

    name: str
    shape: tuple[int, int, int]
    setup: Setup
    settings: dict[str, Any] = field(default_factory=dict)
    is_separate: bool = False
    network: nn.Module = field(init=False)
    prior: TensorNormalPrior = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        n_tasks, n_outputs, n_inputs = self.shape
        torch.manual_seed(0)
        with torch.device(self.setup.device):
            if self.is_separate:
                layers = {f"t{t}": nn.Linear(n_inputs, n_outputs) for t in range(n_tasks)}
                self.network = nn.ModuleDict(layers)
            else:
                self.network = nn.ModuleDict({"fc": TaskLinear(n_tasks, n_inputs, n_outputs)})
        self.prior = self.attach()
        self.prior.update()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3, momentum=0.9)

    def attach(self, network: nn.Module | None = None, **settings: Any) -> TensorNormalPrior:
        return attach_prior(
            self.network if network is None else network,
            "*" if self.is_separate else "fc",
            n_samples=N_ROWS,
            n_updates=None,
            **{**self.settings, **settings},
        )

    @property
    def weights(self) -> tuple[nn.Parameter, ...]:
        return self.prior.stacks[0].parameters

    def apply(self) -> None:
        self.prior.apply(self.optimizer)

    def update(self) -> None:
        self.prior.update()

    def make_gradient(self) -> Callable[[], Tensor]:
        """A function that gives the penalty's gradient, with covariances from the same weights."""
        prior = self.attach(application="gradient")
        prior.update()
        return lambda: _gradient(prior)

    def read(self) -> Tensor:
        return torch.stack([weight.sum() for weight in self.weights])

    @torch.no_grad()
    def read_and_write(self) -> None:
        for weight in self.weights:
            weight.mul_(1.0)

    def errors(self) -> tuple[float, float, float]:
        """How far TF32 moves an application's change, a gradient, and a gradient after an update.

        Relative to float32. The first two start from covariances that were estimated in float32.
        """
        try:
            change, exact_change = (self._change(in_tf32) for in_tf32 in (True, False))
            gradients = [self._gradient_after(*uses) for uses in USES_OF_TF32]
        finally:
            use_tf32(True)
        gradient, after_update, exact = gradients
        return (
            _relative_error(change, exact_change),
            _relative_error(gradient, exact),
            _relative_error(after_update, exact),
        )

    def _change(self, in_tf32: bool) -> Tensor:
        network = copy.deepcopy(self.network)
        optimizer = torch.optim.SGD(network.parameters(), lr=STEP_OF_CHECK * N_ROWS)
        prior = self.attach(network)
        use_tf32(False)
        prior.update()
        before = _flat(prior.stacks[0].parameters).clone()
        use_tf32(in_tf32)
        prior.apply(optimizer)
        return _flat(prior.stacks[0].parameters) - before

    def _gradient_after(self, update_in_tf32: bool, gradient_in_tf32: bool) -> Tensor:
        prior = self.attach(application="gradient")
        use_tf32(update_in_tf32)
        prior.update()
        use_tf32(gradient_in_tf32)
        return _gradient(prior)


USES_OF_TF32 = ((False, True), (True, False), (False, False))
"""In the update and in the gradient; the last pair is what the others are compared with."""


def _flat(weights: Iterable[Tensor]) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in weights])


def _gradient(prior: TensorNormalPrior) -> Tensor:
    return _flat(torch.autograd.grad(prior(), prior.stacks[0].parameters))


def _relative_error(value: Tensor, exact: Tensor) -> float:
    return float((value - exact).norm() / exact.norm())


def print_parts(setup: Setup) -> None:
    """One application, one update, one gradient, against reading and writing the weights."""
    fc7 = setup.size((4, 4096, 4096), (4, 96, 128))
    fc8 = setup.size((4, 10, 4096), (4, 10, 96))
    rank = setup.size(64, 16)
    cases = [
        Case(name=f"fc7, rank {rank}", shape=fc7, settings={"rank": rank}, setup=setup),
        Case(name="fc7, full rank", shape=fc7, settings={"rank": None}, setup=setup),
        Case(
            name=f"fc7 in separate layers, rank {rank}",
            shape=fc7,
            settings={"rank": rank},
            is_separate=True,
            setup=setup,
        ),
        Case(name=f"fc8, rank {rank}", shape=fc8, settings={"rank": rank}, setup=setup),
    ]
    reads = seconds([case.read for case in cases], setup)
    floors = seconds([case.read_and_write for case in cases], setup)
    applied = seconds([case.apply for case in cases], setup)
    updated = seconds([case.update for case in cases], setup)
    gradients = seconds([case.make_gradient() for case in cases], setup)
    title = f"Parts of the prior, {setup.float32}"
    header = [
        "stack", "shape", "read W (ms)", "read and write W (ms)", "apply (ms)", "÷ read and write",
        "gradient form (ms)", "÷ read and write", "update (ms)", "÷ read",
        "peak of apply, gradient, update (MiB)", "what TF32 changes: apply's change", "the gradient",
        "a gradient after an update",
    ]  # fmt: skip
    rows = (
        _part_row(case, setup, *numbers)
        for case, *numbers in zip(cases, reads, floors, applied, gradients, updated, strict=True)
    )
    table(title, header, rows)


def _part_row(case: Case, setup: Setup, *numbers: float) -> list[str]:
    read, floor, applied, gradient, updated = numbers
    peaks = [
        peak_memory(function, setup) for function in (case.apply, case.make_gradient(), case.update)
    ]
    return [
        case.name,
        shape_of(case.shape),
        milliseconds(read),
        milliseconds(floor),
        milliseconds(applied),
        number(applied / floor),
        milliseconds(gradient),
        number(gradient / floor),
        milliseconds(updated),
        number(updated / read),
        ", ".join(map(mebibytes, peaks)),
        *(f"{error:.0e}" for error in case.errors()),
    ]


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What grows in a row of the table, and the stacks that it grows in."""

    name: str
    sizes: tuple[int, ...]
    shapes: tuple[tuple[int, int, int], ...]
    ranks: tuple[int | None, ...]


def operations(shape: Sequence[int], rank: int | None) -> float:
    """Multiplications and additions of one sweep of updates, task → output → input.

    For mode k, the weights are made white in each other mode j, at 4 D r_j operations with r_j kept
    eigenvectors or 2 D d_j with all. Then S_k is formed at 2 D d_k and decomposed at 9 d_k³; or, with rank r,
    a range finder with c = r + 16 columns makes two passes at 2 D c, and all that follows is small.
    """
    n_weights = math.prod(shape)
    kept = [rank if rank is not None and rank < size else None for size in shape]
    total = 0.0
    for mode, size in enumerate(shape):
        for other, other_size in enumerate(shape):
            r = kept[other]
            if other != mode:
                total += 2 * n_weights * other_size if r is None else 4 * n_weights * r
        r = kept[mode]
        if r is None:
            total += 2 * n_weights * size + EIGEN_OPERATIONS * size**3
        else:
            columns = r + OVERSAMPLING
            total += 4 * n_weights * columns + 2 * (n_weights // size) * columns**2
            total += 4 * size * columns**2 + EIGEN_OPERATIONS * columns**3
    return total


def paper_operations(shape: Sequence[int], rank: int | None) -> float:
    """What the paper states: D₁D₂T(D₁D₂ + D₁T + D₂T), and with rank r, r D₁D₂T(D₁ + D₂ + T)."""
    n_tasks, n_outputs, n_inputs = shape
    n_weights = math.prod(shape)
    if rank is not None:
        return rank * n_weights * (n_tasks + n_outputs + n_inputs)
    return n_weights * (n_outputs * n_inputs + n_tasks * (n_outputs + n_inputs))


def _growths(setup: Setup) -> Iterator[Growth]:
    base, rank = setup.size(4096, 96), setup.size(64, 8)
    large = setup.size((1024, 2048, 4096, 8192, 16384), (32, 64, 128))
    for name, make in (
        ("D₁ (outputs)", lambda size: (4, size, base)),
        ("D₂ (inputs)", lambda size: (4, base, size)),
    ):
        yield Growth(
            name=f"{name}, r = {rank}",
            sizes=large,
            shapes=tuple(make(size) for size in large),
            ranks=(rank,) * len(large),
        )
    side = setup.size(1024, 48)
    n_tasks = setup.size((4, 8, 16, 32, 64), (2, 4, 8))
    yield Growth(
        name=f"T of T×{side}×{side}, r = {rank}",
        sizes=n_tasks,
        shapes=tuple((n, side, side) for n in n_tasks),
        ranks=(rank,) * len(n_tasks),
    )
    ranks = setup.size((32, 64, 128, 256, 512), (4, 8, 16))
    yield Growth(
        name=f"r of 4×{base}×{base}",
        sizes=ranks,
        shapes=((4, base, base),) * len(ranks),
        ranks=ranks,
    )
    full = setup.size((256, 512, 1024, 2048), (16, 32, 64))
    side = setup.size(1024, 48)
    for name, make in (
        ("D₁, all eigenvectors", lambda size: (4, size, side)),
        ("D₂, all eigenvectors", lambda size: (4, side, size)),
        ("D₁ = D₂, all eigenvectors", lambda size: (4, size, size)),
    ):
        yield Growth(
            name=name,
            sizes=full,
            shapes=tuple(make(size) for size in full),
            ranks=(None,) * len(full),
        )
    n_tasks = setup.size((16, 64, 256, 1024), (4, 8, 16))
    side = setup.size(128, 16)
    yield Growth(
        name="T, all eigenvectors",
        sizes=n_tasks,
        shapes=tuple((n, side, side) for n in n_tasks),
        ranks=(None,) * len(n_tasks),
    )


def print_complexity(setup: Setup) -> None:
    """The updates against every size, with the slopes of two operation counts beside."""
    print(
        "\nSlopes are those of log time against log size, by least squares from the middle size on, and over "
        "the last two sizes. `operations` in `prior_cost_parts.py` says what is counted; a count knows "
        "nothing of launches, which rule small sizes, nor that eigendecompositions run far below the rate of "
        "products.",
        flush=True,
    )
    header = [
        "what grows", "sizes", "first and last stack", "update (ms)", "measured slope", "of the last two",
        "slope of our operations", "of the last two", "slope of the paper's count",
    ]  # fmt: skip

    def rows() -> Iterator[list[str]]:
        for growth in _growths(setup):
            with going_on(f"Growth of {growth.name}"):
                yield _growth_row(growth, setup)

    table(f"Covariance updates: growth, {setup.float32}", header, rows())


def _growth_row(growth: Growth, setup: Setup) -> list[str]:
    cases = [
        Case(name=growth.name, shape=shape, settings={"rank": rank}, setup=setup)
        for shape, rank in zip(growth.shapes, growth.ranks, strict=True)
    ]
    times = seconds([case.update for case in cases], setup)
    pairs = list(zip(growth.shapes, growth.ranks, strict=True))
    ours = [operations(*pair) for pair in pairs]
    papers = [paper_operations(*pair) for pair in pairs]
    ends = [shape_of(growth.shapes[0]), shape_of(growth.shapes[-1])]
    return [
        growth.name,
        ", ".join(map(str, growth.sizes)),
        ", ".join(dict.fromkeys(ends)),
        ", ".join(map(milliseconds, times)),
        ratio(upper_half(growth.sizes, times)),
        ratio(log_slope(growth.sizes[-2:], times[-2:])),
        ratio(upper_half(growth.sizes, ours)),
        ratio(log_slope(growth.sizes[-2:], ours[-2:])),
        ratio(upper_half(growth.sizes, papers)),
    ]


SECTIONS: dict[str, Callable[[Setup], None]] = {
    "parts": print_parts,
    "complexity": print_complexity,
}
