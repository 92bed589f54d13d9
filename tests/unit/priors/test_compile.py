"""A step with `prior()` under `torch.compile`, where annotations are not checked."""

import json

import pytest

from tests.environment import run_python

CODE = """
import json
import torch
from multirel.networks import MultitaskNetwork
from multirel.priors import attach_prior

def run(compiled):
    torch.manual_seed(0)
    network = MultitaskNetwork(6, 3, n_outputs=2, hidden_sizes=(5,))
    prior = attach_prior(
        network, ["heads.fc7", "heads.fc8"], n_samples=10, application="APPLICATION", update_every=3,
        mean="MEAN", rank=RANK,
    )
    x, task = torch.randn(12, 6), torch.arange(12) % 3
    y = torch.randint(2, (12,))

    def objective():
        loss = torch.nn.functional.cross_entropy(network(x, task), y)
        return loss + prior() if prior.application == "gradient" else loss

    step = torch.compile(objective, backend="BACKEND") if compiled else objective
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _ in range(7):
        optimizer.zero_grad()
        step().backward()
        optimizer.step()
        prior.step(optimizer)
    return [parameter.detach() for parameter in network.parameters()], prior.n_updates

(one, updates), (other, same) = run(False), run(True)
assert updates == same == 1
print(json.dumps(max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))))
"""


def worst_error(backend, **options) -> float:
    """Largest difference of the weights after seven steps, two of them after an update."""
    code = CODE.replace("BACKEND", backend)
    for name, value in options.items():
        code = code.replace(name.upper(), str(value))
    return json.loads(run_python(code).splitlines()[-1])


@pytest.mark.parametrize(
    ("application", "mean", "rank"), [("gradient", "zero", None), ("proximal", "initial", 2)]
)
def test_compiled_steps_train_the_same(application, mean, rank):
    """The penalty in a compiled objective, and applications beside one."""
    assert worst_error("aot_eager", application=application, mean=mean, rank=rank) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("mean", ["zero", "initial", "task-average"])
def test_compiled_steps_train_the_same_as_machine_code(mean):
    """The default backend."""
    assert worst_error("inductor", application="gradient", mean=mean, rank=2) < 1e-5
