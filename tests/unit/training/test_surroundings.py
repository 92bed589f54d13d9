"""Settings of torch during training, which are put back."""

import pytest
import torch
from torch import nn

from multirel.training import Recipe
from multirel.training._surroundings import evaluating, seed_step, surroundings

CPU = torch.device("cpu")


def flags() -> tuple:
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
    )


@pytest.mark.parametrize("precision", ["tf32", "float32", "bf16"])
def test_tensor_cores_are_used_as_asked_and_put_back(precision):
    before = flags()
    with surroundings(Recipe(precision=precision), CPU):
        assert torch.backends.cuda.matmul.allow_tf32 == (precision == "tf32")
        assert torch.backends.cudnn.allow_tf32 == (precision == "tf32")
    assert flags() == before


def test_settings_are_put_back_after_an_error():
    before = flags()
    torch.set_float32_matmul_precision("medium")
    try:
        with (
            pytest.raises(KeyError),
            surroundings(Recipe(precision="tf32", deterministic=True), CPU),
        ):
            raise KeyError
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert flags() == before


def test_deterministic_recipes_allow_nothing_else():
    with surroundings(Recipe(deterministic=True), CPU):
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cudnn.benchmark
    assert not torch.are_deterministic_algorithms_enabled()


def test_random_numbers_of_the_caller_are_left_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with surroundings(Recipe(), CPU):
        seed_step(0, 5, device=CPU)
        torch.rand(7)
    assert torch.equal(torch.rand(3), expected)


def test_every_seed_step_and_rank_has_its_own_random_numbers():
    drawn = []
    with surroundings(Recipe(), CPU):
        for seed in (0, 1):
            for step in (0, 1):
                for rank in (None, 0, 1):
                    seed_step(seed, step, device=CPU, rank=rank)
                    drawn.append(float(torch.rand(())))
        seed_step(0, 0, device=CPU, rank=None)
        assert float(torch.rand(())) == drawn[0]
    assert len(set(drawn)) == 12


def test_evaluation_puts_every_module_back_in_its_own_mode():
    network = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2))
    network[1].eval()
    with evaluating(network):
        assert not any(module.training for module in network.modules())
    assert [module.training for module in network.modules()] == [True, True, False]
