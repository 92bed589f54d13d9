"""The precision and the device that the tests run in, read from the environment."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["DEVICE", "DTYPE", "DTYPES", "array", "assert_close", "run_python", "tensor"]

DTYPES = (torch.float32, torch.float64)
"""Floating types that properties run over."""

DTYPE = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}[
    os.environ.get("MULTIREL_TEST_DTYPE", "float64")
]
"""Floating type of the tensors that tests make."""

DEVICE = torch.device(os.environ.get("MULTIREL_TEST_DEVICE", "cpu"))
"""Device of the tensors that tests make."""

if DEVICE.type == "cuda":
    # The first product makes torch set up the device, and warns if that is in a thread of a gradient.
    torch.ones(1, 1, device=DEVICE) @ torch.ones(1, 1, device=DEVICE)

_TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}
"""Largest error allowed, relative to the largest entry of what is expected."""


def tensor(value: Any, *, dtype: torch.dtype = DTYPE) -> torch.Tensor:
    """Return `value` as a tensor of the tests' precision on their device."""
    return torch.as_tensor(np.asarray(value)).to(dtype=dtype, device=DEVICE)


def array(value: Any) -> np.ndarray:
    """Return a tensor, array or number as a float64 array."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
    return np.asarray(value, dtype=np.float64)


def assert_close(
    actual: Any, expected: Any, *, dtype: torch.dtype = DTYPE, factor: float = 1.0
) -> None:
    """Assert equal shapes and values, up to `factor` times the tolerance of `dtype`."""
    actual, expected = array(actual), array(expected)
    assert actual.shape == expected.shape
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=factor * _TOLERANCE[dtype] * scale)


def run_python(code: str) -> str:
    """Return what `code` prints in a new interpreter, where nothing has been imported.

    Annotations are not checked there, so that `torch.compile`, which cannot trace the checks, works.
    """
    root = Path(__file__).parents[1]
    paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
