"""How `prior_cost.py` measures and prints: turns, medians, peaks of memory, slopes, tables."""

import math
import random
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

Value = TypeVar("Value")
Function = Callable[[], object]

N_ROUNDS = 9
SHORTEST_SECONDS = 0.005
"""What is timed between two events lasts at least this long, if it may be repeated so often."""

MAX_REPEATS = 100
MIB = 2**20

FAILED: list[str] = []
"""What could not be measured."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Where and how large."""

    device: str
    quick: bool
    networks: tuple[str, ...] = ()
    """Backbones of the section `step`."""

    def size(self, full: Value, quick: Value) -> Value:
        """The first, or the second in a quick run."""
        return quick if self.quick else full

    @property
    def is_cuda(self) -> bool:
        return self.device == "cuda"

    @property
    def float32(self) -> str:
        """How products of float32 matrices are computed."""
        return "TF32" if self.is_cuda else "float32"


@contextmanager
def going_on(what: str) -> Iterator[None]:
    """Print an error and go on after it: what was measured on a lent machine is not thrown away."""
    try:
        yield
    except Exception as error:
        FAILED.append(what)
        traceback.print_exc()
        print(f"\n{what} failed: {type(error).__name__}: {error}", flush=True)


def use_tf32(setting: bool) -> None:
    """Let products of float32 matrices use TF32, or forbid it."""
    torch.backends.cuda.matmul.allow_tf32 = setting
    torch.backends.cudnn.allow_tf32 = setting


def elapsed(function: Function, setup: Setup) -> float:
    """Seconds of one call, by the device's own clock where it has one."""
    if not setup.is_cuda:
        begin = time.perf_counter()
        function()
        return time.perf_counter() - begin
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.record()
    function()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / 1e3


def seconds(functions: Sequence[Function], setup: Setup) -> list[float]:
    """Median seconds of each function; the functions take turns, so that all see the same load."""
    n_inner = []
    for function in functions:
        function()
        function()
        once = max(elapsed(function, setup), 1e-7)
        n_inner.append(max(1, min(MAX_REPEATS, math.ceil(SHORTEST_SECONDS / once))))
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(setup.size(N_ROUNDS, 3)):
        for index in _order(len(functions), turn):
            repeated = _repeated(functions[index], n_inner[index])
            times[index].append(elapsed(repeated, setup) / n_inner[index])
    return [statistics.median(row) for row in times]


def rounds(
    runs: Sequence[Callable[[int], None]], setup: Setup, *, chunk: int, n_steps: int
) -> list[list[float]]:
    """Seconds per step of each run in each round, "runs rounds": in a round each makes `chunk` steps."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(n_steps // chunk):
        for index in _order(len(runs), turn):
            times[index].append(elapsed(lambda run=runs[index]: run(chunk), setup) / chunk)
    return times


def _order(n: int, turn: int) -> list[int]:
    """Who is next: another order in each turn, so that none always follows the same."""
    return random.Random(turn).sample(range(n), n)


def _repeated(function: Function, n: int) -> Function:
    def call() -> None:
        for _ in range(n):
            function()

    return call


def peak_memory(function: Function, setup: Setup) -> float:
    """The most bytes that a call holds beyond what was there before; NaN off the GPU."""
    if not setup.is_cuda:
        function()
        return math.nan
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before)


def log_slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of log `values` against log `sizes` by least squares; NaN for fewer than two."""
    if len(sizes) < 2 or min(values) <= 0:
        return math.nan
    slope, _ = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(value) for value in values]
    )
    return slope


def upper_half(sizes: Sequence[float], values: Sequence[float]) -> float:
    """`log_slope` from the middle size on, where what does not grow counts least."""
    middle = len(sizes) // 2
    return log_slope(sizes[middle:], values[middle:])


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown, each row as soon as it is there."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header), flush=True)
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def milliseconds(value: float) -> str:
    """Milliseconds with three digits."""
    return number(1e3 * value)


def mebibytes(value: float) -> str:
    """MiB with three digits."""
    return number(value / MIB)


def number(value: float) -> str:
    """Three digits, or a dash where there is no value."""
    if math.isnan(value):
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratio(value: float) -> str:
    """Three digits behind the point below 2, where goals are, and two above."""
    return "–" if math.isnan(value) else f"{value:.3f}" if value < 2 else f"{value:.2f}"


def shape_of(shape: Sequence[int]) -> str:
    """Sizes of modes as text."""
    return "×".join(map(str, shape))
