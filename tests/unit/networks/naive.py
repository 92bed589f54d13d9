"""What the layers compute, row by row, and the memory that a call takes."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile


def linear(x, task, weight, bias=None):
    """Each row times the matrix of its task, "n *rest I" to "n *rest O"."""
    biases = [None] * len(weight) if bias is None else bias
    rows = [F.linear(row, weight[t], biases[t]) for row, t in zip(x, task.tolist(), strict=True)]
    return torch.stack(rows)


def conv2d(x, task, layer):
    """Each image convolved with the kernels of its task."""
    options = (layer.stride, layer.padding, layer.dilation, layer.groups)
    biases = [None] * layer.n_tasks if layer.bias is None else layer.bias
    return torch.cat(
        [
            F.conv2d(image[None], layer.weight[t], biases[t], *options)
            for image, t in zip(x, task.tolist(), strict=True)
        ]
    )


def peak_memory(function: Callable[[], object]) -> int:
    """Most bytes that `function` holds at once on the CPU, beside what there was before."""
    function()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        function()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def uneven_tasks(n_tasks: int, n_rows: int, *, share: float = 0.9) -> torch.Tensor:
    """Tasks of rows in random order, of which the last task has `share` and no row has task 0."""
    n_large = round(share * n_rows)
    others = torch.arange(n_rows - n_large) % max(1, n_tasks - 2) + 1
    task = torch.cat([torch.full((n_large,), n_tasks - 1), others])
    return task[torch.randperm(n_rows)]
