"""`torch.compile` traces the functions whole, in an interpreter where annotations are not checked."""

import json

import pytest

from tests.environment import DEVICE, DTYPE, run_python

CODE = """
import json, sys
import torch
from multirel.tensor_normal import (
    DenseCovariance, LowRankCovariance, TensorNormal, kronecker_matvec, kronecker_prox,
    kronecker_quadratic_form, kronecker_solve, mode_product, unfold,
)

DTYPE, DEVICE, BACKEND, NAMES = {dtype}, "{device}", "{backend}", {names}
torch.manual_seed(0)
options = {{"dtype": DTYPE, "device": DEVICE}}
x = torch.randn(4, 2, 3, **options).requires_grad_()
first, second = (
    (root @ root.mT + torch.eye(len(root), **options)).requires_grad_()
    for root in (torch.randn(2, 2, **options), torch.randn(3, 3, **options))
)
basis = torch.linalg.qr(torch.randn(3, 1, **options))[0]

def dense(a, b):
    return [DenseCovariance(a), DenseCovariance(b)]

def low_rank(a):
    return LowRankCovariance(basis, a[0, :1] ** 2 + 1, a[1, 1])

FUNCTIONS = {{
    "mode_product": lambda x, a, b: mode_product(x, a, 1),
    "unfold": lambda x, a, b: unfold(x, 1) @ unfold(x, 1).mT * a.sum() * b.sum(),
    "kronecker_matvec": lambda x, a, b: kronecker_matvec(dense(a, b), x),
    "kronecker_solve": lambda x, a, b: kronecker_solve(dense(a, b), x),
    "kronecker_quadratic_form": lambda x, a, b: kronecker_quadratic_form(dense(a, b), x),
    "low_rank_prox": lambda x, a, b: kronecker_prox([DenseCovariance(a), low_rank(a)], x, 0.5) * b.sum(),
    "log_prob": lambda x, a, b: TensorNormal(torch.zeros_like(x[0]), [a, b], validate_args=False).log_prob(x),
}}

def call(function):
    value = function(x, first, second)
    gradients = torch.autograd.grad(value.square().sum(), (x, first, second), allow_unused=True)
    return [value, *(g for g in gradients if g is not None)]

report = {{}}
for name in NAMES:
    function = FUNCTIONS[name]
    try:
        compiled = call(torch.compile(function, backend=BACKEND, fullgraph=True))
        pairs = zip(compiled, call(function), strict=True)
        report[name] = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)
    except Exception as error:
        report[name] = str(error).strip()[:2000]
print(json.dumps(report))
"""

FUNCTIONS = [
    "mode_product",
    "unfold",
    "kronecker_matvec",
    "kronecker_solve",
    "kronecker_quadratic_form",
    "low_rank_prox",
    "log_prob",
]
TOLERANCE = {"torch.float64": 1e-10, "torch.float32": 1e-4}[str(DTYPE)]


def compile_all(names, backend):
    """Relative error of value and gradients by function, or what went wrong."""
    code = CODE.format(dtype=DTYPE, device=DEVICE, backend=backend, names=names)
    return json.loads(run_python(code).splitlines()[-1])


@pytest.fixture(scope="module")
def traced():
    """All functions compiled by the backend that traces and does not generate code."""
    return compile_all(FUNCTIONS, "aot_eager")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_compiles_without_graph_breaks(traced, name):
    """`fullgraph=True`, values and gradients as without."""
    assert isinstance(traced[name], float), traced[name]
    assert traced[name] < TOLERANCE


@pytest.mark.slow
def test_functions_compile_to_machine_code():
    """The default backend, which takes a minute on a CPU."""
    report = compile_all(["mode_product", "log_prob"], "inductor")
    assert max(report.values()) < TOLERANCE
