"""What the tensor normal distribution costs, beside the matrix products that it cannot do without.

    python benchmarks/tensor_normal_cost.py [--device cuda] [--threads 2]

prints the tables of `tensor_normal_<hardware>_<date>.md`.
"""

import argparse
import gc
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from multirel.tensor_normal import TensorNormal, fit_tensor_normal, unfold

SHAPES = [
    ((4, 5, 6), 1000),
    ((64, 64), 256),
    ((16, 16, 16), 64),
    ((8, 8, 8, 8), 64),
    ((4, 32, 256), 64),
    ((4, 512, 512), 1),
    ((4, 1024, 1024), 1),
]
"""Sizes of the modes, and number of samples."""

DENSE_SIDE = 16
"""Three modes of this size make D = 4096, which a dense normal distribution can still hold."""


def spd(size: int, *, dtype: torch.dtype, device: str) -> Tensor:
    """A random positive definite matrix with a moderate condition number."""
    root = torch.randn(size, size, dtype=dtype, device=device)
    return root @ root.mT / size + 0.5 * torch.eye(size, dtype=dtype, device=device)


def make_tensor_normal(shape: Sequence[int], *, dtype: torch.dtype, device: str) -> TensorNormal:
    """A tensor normal distribution of that shape with random covariances."""
    return TensorNormal(
        torch.randn(*shape, dtype=dtype, device=device),
        [spd(size, dtype=dtype, device=device) for size in shape],
        validate_args=False,
    )


def bare_products(shape: Sequence[int], n_samples: int, *, dtype: torch.dtype, device: str):
    """A function that does one matrix product per mode, on matrices that lie ready for it."""
    n_entries = n_samples * math.prod(shape)
    pairs = [
        (
            spd(size, dtype=dtype, device=device),
            torch.randn(size, n_entries // size, dtype=dtype, device=device),
        )
        for size in shape
    ]

    def products() -> None:
        for factor, matrix in pairs:
            factor @ matrix

    return products


def seconds(functions: Iterable[Callable[[], object]], device: str) -> list[float]:
    """Median seconds of each function; the functions take turns, so that all see the same load."""
    functions = [*functions]
    for function in functions:
        for _ in range(3):
            function()
    n_inner = [max(1, min(200, int(0.01 / _time(function, 3, device)))) for function in functions]
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(15):
        for row, function, n in zip(times, functions, n_inner, strict=True):
            row.append(_time(function, n, device))
    return [statistics.median(row) for row in times]


def _time(function: Callable[[], object], n: int, device: str) -> float:
    _synchronize(device)
    begin = time.perf_counter()
    for _ in range(n):
        function()
    _synchronize(device)
    return max((time.perf_counter() - begin) / n, 1e-9)


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def milliseconds(value: float) -> str:
    """Milliseconds with three digits."""
    return f"{1e3 * value:.3g}"


def against_bare_products(dtype: torch.dtype, device: str) -> Iterable[list[str]]:
    """Rows: shape, products, log_prob and rsample with their ratios."""
    for shape, n_samples in SHAPES:
        law = make_tensor_normal(shape, dtype=dtype, device=device)
        value = law.sample((n_samples,))
        noise_shape = (n_samples, *shape)
        products, log_prob, rsample, noise = seconds(
            [
                bare_products(shape, n_samples, dtype=dtype, device=device),
                lambda law=law, value=value: law.log_prob(value),
                lambda law=law, n=n_samples: law.rsample((n,)),
                lambda size=noise_shape: torch.randn(size, dtype=dtype, device=device),
            ],
            device,
        )
        yield [
            "×".join(map(str, shape)),
            str(n_samples),
            milliseconds(products),
            milliseconds(log_prob),
            f"{log_prob / products:.2f}",
            milliseconds(rsample),
            milliseconds(noise),
            f"{(rsample - noise) / products:.2f}",
        ]


def against_dense(dtype: torch.dtype, device: str) -> Iterable[list[str]]:
    """Rows: library, seconds for construction and a density, and for densities and samples after it."""
    shape = (DENSE_SIDE,) * 3
    law = make_tensor_normal(shape, dtype=dtype, device=device)
    covariance = law.covariances[0].dense()
    for other in law.covariances[1:]:
        covariance = torch.kron(covariance, other.dense())
    matrices = [c.dense() for c in law.covariances]
    loc = law.loc
    values = law.sample((64,))
    rows = {
        "multirel": (lambda: TensorNormal(loc, matrices, validate_args=False), values),
        "torch dense": (
            lambda: MultivariateNormal(loc.flatten(), covariance, validate_args=False),
            values.flatten(1),
        ),
    }
    try:
        from gpytorch.distributions import MultivariateNormal as GPyTorchNormal
        from gpytorch.settings import fast_computations

        rows["GPyTorch dense"] = (
            lambda: GPyTorchNormal(loc.flatten(), covariance),
            values.flatten(1),
        )
        fast = fast_computations(covar_root_decomposition=False, log_prob=False, solves=False)
    except ModuleNotFoundError:
        fast = torch.no_grad()
    with fast:
        first: list[float] = []
        for name, (build, value) in rows.items():
            built = build()
            whole, log_prob, rsample = seconds(
                [
                    lambda build=build, value=value: build().log_prob(value[0]),
                    lambda built=built, value=value: built.log_prob(value),
                    lambda built=built: built.rsample(torch.Size((64,))),
                ],
                device,
            )
            first = first or [whole, log_prob, rsample]
            ratios = [
                f"{milliseconds(now)} ({now / ours:.0f}×)"
                for now, ours in zip((whole, log_prob, rsample), first, strict=True)
            ]
            yield [name, *ratios]


def memory_of(kind: str, device: str) -> float:
    """MiB that one construction and one density need at D = 4096, above their inputs."""
    torch.manual_seed(0)
    shape = (DENSE_SIDE,) * 3
    law = make_tensor_normal(shape, dtype=torch.float32, device=device)
    matrices = [c.dense() for c in law.covariances]
    value = torch.randn(shape, device=device)
    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        before = _peak_of_process(reset=True)
    if kind == "multirel":
        TensorNormal(law.loc, matrices, validate_args=False).log_prob(value)
    else:
        covariance = matrices[0]
        for matrix in matrices[1:]:
            covariance = torch.kron(covariance, matrix)
        dense = MultivariateNormal(law.loc.flatten(), covariance, validate_args=False)
        dense.log_prob(value.flatten())
    if device == "cuda":
        after = torch.cuda.max_memory_allocated()
    else:
        after = _peak_of_process(reset=False)
    return (after - before) / 2**20


def _peak_of_process(*, reset: bool) -> int:
    """Bytes of the largest resident set since the last reset (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def memory_rows(device: str) -> Iterable[list[str]]:
    """Rows: library and MiB, each measured in a process of its own."""
    for kind in ("multirel", "torch dense"):
        command = [sys.executable, __file__, "--device", device, "--memory-of", kind]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        yield [kind, f"{float(output):.2f}"]


def fit_parts(dtype: torch.dtype, device: str) -> Iterable[list[str]]:
    """Rows: shape, a sweep of the fit, and the products that it consists of."""
    for shape, n_samples in (((4, 5, 6), 2000), ((16, 16, 16), 64), ((4, 32, 64), 64)):
        samples = make_tensor_normal(shape, dtype=dtype, device=device).sample((n_samples,))
        order, n_entries = len(shape), samples.numel()

        def scatters(samples: Tensor = samples, order: int = order) -> None:
            for mode in range(order):
                rows = unfold(samples, mode + 1)
                rows @ rows.mT

        def fit(n_sweeps: int, samples: Tensor = samples) -> None:
            fit_tensor_normal(
                samples, shrinkage=0.1, max_iterations=n_sweeps, tolerance=SMALLEST_TOLERANCE
            )

        whiten = bare_products(shape, n_samples, dtype=dtype, device=device)
        one, six, products, scatter = seconds(
            [lambda fit=fit: fit(1), lambda fit=fit: fit(6), whiten, scatters], device
        )
        sweep = (six - one) / 5
        n_products = {2: 2, 3: 5, 4: 8}[order] / order
        yield [
            "×".join(map(str, shape)),
            str(n_samples),
            milliseconds(sweep),
            milliseconds(products * n_products),
            milliseconds(scatter),
            f"{sweep / (products * n_products + scatter):.2f}",
            f"{1e9 * sweep / n_entries:.3g}",
        ]


SMALLEST_TOLERANCE = 0.0


def growth(dtype: torch.dtype, device: str) -> Iterable[list[str]]:
    """Rows: what grows, the sizes, the times of log_prob and the log-log slope of the second half."""
    sizes = (64, 128, 256, 512, 1024)
    yield _growth_row(
        "d₁ of d₁×64 (n = 64)", sizes, [((size, 64), 64) for size in sizes], dtype, device
    )
    yield _growth_row(
        "d of d×d (n = 4)", sizes, [((size, size), 4) for size in sizes], dtype, device
    )
    orders = (2, 3, 4, 5, 6)
    yield _growth_row(
        "K of 8×…×8 (n D = 2²¹)",
        orders,
        [((8,) * order, 2**21 // 8**order) for order in orders],
        dtype,
        device,
    )


def _growth_row(
    name: str,
    sizes: Sequence[int],
    cases: Sequence[tuple[tuple[int, ...], int]],
    dtype: torch.dtype,
    device: str,
) -> list[str]:
    laws = [make_tensor_normal(shape, dtype=dtype, device=device) for shape, _ in cases]
    values = [law.sample((n,)) for law, (_, n) in zip(laws, cases, strict=True)]
    times = seconds(
        [
            lambda law=law, value=value: law.log_prob(value)
            for law, value in zip(laws, values, strict=True)
        ],
        device,
    )
    middle = len(sizes) // 2
    slope = math.log(times[-1] / times[middle]) / math.log(sizes[-1] / sizes[middle])
    flops = [2 * n * math.prod(shape) * sum(shape) for shape, n in cases]
    predicted = math.log(flops[-1] / flops[middle]) / math.log(sizes[-1] / sizes[middle])
    return [
        name,
        ", ".join(map(str, sizes)),
        ", ".join(map(milliseconds, times)),
        f"{slope:.2f}",
        f"{predicted:.2f}",
    ]


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--memory-of", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    device = arguments.device
    if arguments.memory_of:
        print(memory_of(arguments.memory_of, device))
        return
    name = torch.cuda.get_device_name() if device == "cuda" else f"{arguments.threads} CPU threads"
    print(f"{name}; torch {torch.__version__}; Python {platform.python_version()}")
    header = [
        "modes", "n", "products (ms)", "log_prob (ms)", "ratio", "rsample (ms)", "its noise (ms)",
        "ratio without noise",
    ]  # fmt: skip
    for dtype in (torch.float32, torch.float64):
        word = str(dtype).removeprefix("torch.")
        table(
            f"Against the bare matrix products, {word}",
            header,
            against_bare_products(dtype, device),
        )
    header = ["library", "construct + log_prob (ms)", "log_prob of 64 (ms)", "rsample of 64 (ms)"]
    table(
        "Against dense normals at D = 4096, float32", header, against_dense(torch.float32, device)
    )
    table("Memory of the first at D = 4096, float32", ["library", "MiB"], memory_rows(device))
    header = [
        "modes", "n", "sweep (ms)", "its mode products (ms)", "its scatters (ms)", "ratio",
        "ns per entry",
    ]  # fmt: skip
    table("A sweep of fit_tensor_normal, float64", header, fit_parts(torch.float64, device))
    header = ["what grows", "sizes", "log_prob (ms)", "measured slope", "slope of the flops"]
    table("Growth, float32", header, growth(torch.float32, device))


if __name__ == "__main__":
    main()
