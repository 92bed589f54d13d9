"""`torch.compile` runs the layers with a break in the graph, where annotations are not checked."""

import json

import pytest

from tests.environment import run_python

CODE = """
import json
import torch
from multirel.networks import FactorizedTaskLinear, MultitaskNetwork, TaskConv2d, TaskLinear

torch.manual_seed(0)
LAYERS = {
    "linear": (TaskLinear(4, 6, 3), (6,)),
    "convolution": (TaskConv2d(4, 2, 3, 3), (2, 5, 5)),
    "tucker": (FactorizedTaskLinear(4, 6, 3, factorization="tucker", ranks=2), (6,)),
    "network": (MultitaskNetwork(6, 4, n_outputs=3, hidden_sizes=(5,)), (6,)),
    "outputs": (MultitaskNetwork(6, 4, n_outputs=[3, 2, 3, 3], hidden_sizes=(5,)), (6,)),
}
layer, shape = LAYERS["NAME"]
compiled = torch.compile(layer, backend="BACKEND")
worst = 0.0
for seed in range(12):
    torch.manual_seed(seed)
    x, task = torch.randn(20, *shape), torch.randint(4, (20,))
    results = []
    for function in (layer, compiled):
        y = function(x, task).nan_to_num(neginf=0.0)
        results.append([y, *torch.autograd.grad(y.square().sum(), list(layer.parameters()))])
    for one, other in zip(*results, strict=True):
        worst = max(worst, float((one - other).abs().max().detach()))
print(json.dumps(worst))
"""


def worst_error(name: str, backend: str) -> float:
    """Largest difference of values and gradients over batches of many groupings."""
    return json.loads(
        run_python(CODE.replace("NAME", name).replace("BACKEND", backend)).splitlines()[-1]
    )


@pytest.mark.parametrize("name", ["linear", "network"])
def test_compiled_layers_compute_the_same(name):
    """For batches that are grouped differently each time."""
    assert worst_error(name, "aot_eager") < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "convolution", "tucker", "network", "outputs"])
def test_layers_compile_to_machine_code(name):
    """The default backend."""
    assert worst_error(name, "inductor") < 1e-4
