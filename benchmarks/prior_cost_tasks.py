"""How layers and prior grow with the number of tasks: small heads, ten to ten thousand of them."""

from collections.abc import Callable, Iterator, Sequence

import torch
from prior_cost_timing import (
    Setup,
    elapsed,
    log_slope,
    mebibytes,
    milliseconds,
    number,
    peak_memory,
    seconds,
    table,
    upper_half,
)
from torch import Tensor, nn

from multirel.networks import TaskLinear, group_rows
from multirel.priors import attach_prior

N_INPUTS, N_OUTPUTS = 64, 32
ROWS_PER_TASK = 32
N_ROWS_IN_ALL = 32768
RANK = 64
LARGEST_FULL = 1000
"""Tasks up to which all eigenvectors of Σ_T are kept."""

SMALLEST_LOW_RANK = 100
FLOAT_BYTES = 4


def _numbers_of_tasks(setup: Setup) -> tuple[int, ...]:
    return setup.size((10, 30, 100, 300, 1000, 3000, 10000), (10, 30, 100, 300))


def print_tasks(setup: Setup) -> None:
    """Time and memory against the number of tasks."""
    header = [
        "T", "rows", "forward + backward (ms)", "ns per row", "rows grouped before: ns per row",
        "one `nn.Linear`: ns per row", "peak memory (MiB)", "÷ inputs, outputs, weights and their gradients",
    ]  # fmt: skip
    size = f"{N_INPUTS} → {N_OUTPUTS}"
    per_task = setup.size(ROWS_PER_TASK, 8)
    in_all = setup.size(N_ROWS_IN_ALL, 1024)
    table(
        f"TaskLinear {size}, {per_task} rows per task in random order, {setup.float32} (goal: slope ≤ 0.1)",
        header,
        _layer_rows(setup, lambda n_tasks: torch.arange(n_tasks).repeat_interleave(per_task)),
    )
    table(
        f"TaskLinear {size}, {in_all} rows of random tasks, {setup.float32} (goal: slope ≤ 0.1)",
        header,
        _layer_rows(setup, lambda n_tasks: torch.randint(n_tasks, (in_all,))),
    )
    header = [
        "T", "Σ_T", "attach, once (ms)", "update (ms)", "apply (ms)", "apply per task (µs)",
        "peak of attach, update, apply (MiB)", "weights (MiB)",
    ]  # fmt: skip
    table(
        f"The prior on T heads {size}, all modes, {setup.float32} (goal: slope of apply per task ≤ 0.1)",
        header,
        _prior_rows(setup),
    )


def _print_slopes(name: str, sizes: Sequence[int], values: Sequence[float]) -> None:
    print(
        f"\nSlope of {name}: {log_slope(sizes, values):.2f} over all T, {upper_half(sizes, values):.2f} from "
        f"the middle one on.",
        flush=True,
    )


def _layer_rows(setup: Setup, make_tasks: Callable[[int], Tensor]) -> Iterator[list[str]]:
    sizes, per_row, grouped_per_row = [], [], []
    for n_tasks in _numbers_of_tasks(setup):
        torch.manual_seed(0)
        task = make_tasks(n_tasks)
        task = task[torch.randperm(len(task))].to(setup.device)
        n_rows = len(task)
        with torch.device(setup.device):
            layer = TaskLinear(n_tasks, N_INPUTS, N_OUTPUTS)
            linear = nn.Linear(N_INPUTS, N_OUTPUTS)
            x = torch.randn(n_rows, N_INPUTS, requires_grad=True)
            gradient = torch.randn(n_rows, N_OUTPUTS)
        rows = group_rows(task, n_tasks)

        def whole(layer=layer, x=x, task=task, gradient=gradient) -> None:
            torch.autograd.grad(layer(x, task), (x, *layer.parameters()), gradient)

        def grouped(layer=layer, x=x, rows=rows, gradient=gradient) -> None:
            torch.autograd.grad(layer(x, rows), (x, *layer.parameters()), gradient)

        def single(linear=linear, x=x, gradient=gradient) -> None:
            torch.autograd.grad(linear(x), (x, *linear.parameters()), gradient)

        times = seconds([whole, grouped, single], setup)
        peak = peak_memory(whole, setup)
        n_weights = sum(parameter.numel() for parameter in layer.parameters())
        least = FLOAT_BYTES * 2 * (n_rows * (N_INPUTS + N_OUTPUTS) + n_weights)
        sizes.append(n_tasks)
        per_row.append(times[0] / n_rows)
        grouped_per_row.append(times[1] / n_rows)
        yield [
            str(n_tasks),
            str(n_rows),
            milliseconds(times[0]),
            *(number(1e9 * value / n_rows) for value in times),
            mebibytes(peak),
            # The input, its output gradient and the weights were there before.
            number((peak + least / 2) / least),
        ]
    _print_slopes("the time per row", sizes, per_row)
    _print_slopes("the time per row, grouped before", sizes, grouped_per_row)


def _prior_rows(setup: Setup) -> Iterator[list[str]]:
    slopes = []
    for name, rank in (("full", None), (f"rank {setup.size(RANK, 8)}", setup.size(RANK, 8))):
        sizes, per_task = [], []
        for n_tasks in _numbers_of_tasks(setup):
            if rank is None and n_tasks > LARGEST_FULL:
                continue
            if rank is not None and n_tasks < setup.size(SMALLEST_LOW_RANK, 30):
                continue
            try:
                row, applied = _prior_row(setup, n_tasks, rank=rank)
            except (RuntimeError, ValueError) as error:
                first_line = str(error).splitlines()[0]
                yield [str(n_tasks), name, f"{type(error).__name__}: {first_line}", *[""] * 5]
                continue
            sizes.append(n_tasks)
            per_task.append(applied / n_tasks)
            yield [str(n_tasks), name, *row]
        slopes.append((f"the application per task, {name}", sizes, per_task))
    for found in slopes:
        _print_slopes(*found)


def _prior_row(setup: Setup, n_tasks: int, *, rank: int | None) -> tuple[list[str], float]:
    torch.manual_seed(0)
    with torch.device(setup.device):
        network = nn.ModuleDict({"fc8": TaskLinear(n_tasks, N_INPUTS, N_OUTPUTS)})
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    priors = []

    def attach() -> None:
        n_rows = n_tasks * ROWS_PER_TASK
        priors.append(attach_prior(network, "fc8", n_samples=n_rows, n_updates=None, rank=rank))

    attached: list[float] = []
    peaks = [peak_memory(lambda: attached.append(elapsed(attach, setup)), setup)]
    prior = priors[0]
    prior.update()
    peaks += [
        peak_memory(prior.update, setup),
        peak_memory(lambda: prior.apply(optimizer), setup),
    ]
    updated, applied = seconds([prior.update, lambda: prior.apply(optimizer)], setup)
    row = [
        milliseconds(attached[0]),
        milliseconds(updated),
        milliseconds(applied),
        number(1e6 * applied / n_tasks),
        ", ".join(map(mebibytes, peaks)),
        mebibytes(FLOAT_BYTES * prior.stacks[0].n_weights),
    ]
    return row, applied


SECTIONS: dict[str, Callable[[Setup], None]] = {"tasks": print_tasks}
