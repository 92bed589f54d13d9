"""Penalties in a loop of the user's own: the same as in ours."""

import torch
import torch.nn.functional as F

from multirel.priors import attach_prior
from multirel.training import (
    Recipe,
    TaskSampler,
    add_penalty_gradients,
    build_optimizer,
    step_penalties,
    train,
)
from tests.environment import assert_close
from tests.unit.training.builders import make_network, make_rows, weights_of


def test_a_loop_of_ones_own_gives_the_same_weights():
    """One prior in the gradient, one applied, both updated on their schedules."""
    rows, results = make_rows(), []
    recipe = Recipe(max_steps=8, batch_size=16, decay="constant", learning_rate=0.05)
    for is_own in (True, False):
        network = make_network()
        priors = [
            attach_prior(
                network,
                [layer],
                n_samples=60,
                strength=5.0,
                update_every=3,
                application=application,
            )
            for layer, application in (("heads.fc7", "gradient"), ("heads.fc8", "proximal"))
        ]
        if not is_own:
            train(network, rows, recipe=recipe, penalties=priors)
        else:
            optimizer = build_optimizer(network, recipe, penalties=priors)
            sampler = TaskSampler(rows.task, batch_size=16)
            for _ in range(8):
                batch = rows.take(next(sampler))
                optimizer.zero_grad()
                F.cross_entropy(network(batch.x, batch.task), batch.y).backward()
                add_penalty_gradients(priors)
                optimizer.step()
                step_penalties(priors, optimizer)
        assert [prior.n_updates for prior in priors] == [1, 1]
        results.append(
            torch.cat([weights_of(network), torch.stack([p() for p in priors]).detach()])
        )
    assert_close(*results, factor=100.0)


class Sum:
    """A penalty of the user's own: the sum of all weights, whose gradient is one number seen many times."""

    application = "gradient"

    def __init__(self, network: torch.nn.Module) -> None:
        self.network = network

    def __call__(self) -> torch.Tensor:
        return sum(parameter.sum() for parameter in self.network.parameters())

    def apply(self, optimizer) -> None: ...

    def update(self) -> None: ...

    def step(self, optimizer=None) -> None: ...


def test_gradients_of_penalties_are_those_of_backward():
    """Added to what is there, and to be changed in place, as clipping does; frozen weights get none."""
    network = make_network()
    network.heads["fc8"].bias.requires_grad_(False)
    weight = network.heads["fc8"].weight
    weight.grad = torch.full_like(weight, 2.0)
    add_penalty_gradients([Sum(network)])
    assert_close(weight.grad, torch.full_like(weight, 3.0))
    hidden = network.heads["fc7"].weight
    hidden.grad.mul_(0.5)
    assert_close(hidden.grad, torch.full_like(hidden, 0.5))
    assert network.heads["fc8"].bias.grad is None
