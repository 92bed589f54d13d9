"""Factorized linear layers: the same as their composed weights, what ranks mean, and messages."""

from copy import deepcopy

import pytest
import torch

from multirel.exceptions import NotFiniteError
from multirel.networks import FactorizedTaskLinear, TaskLinear
from tests.environment import DEVICE, DTYPE, assert_close
from tests.unit.networks import naive

FORMS = ("tucker", "tt", "laf")

OPTIONS = {"device": DEVICE, "dtype": DTYPE}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", [None, 2])
def test_results_are_those_of_the_composed_weights(form, ranks):
    """Values and gradients of every factor, in a mixed batch."""
    torch.manual_seed(0)
    layer = FactorizedTaskLinear(6, 5, 3, factorization=form, ranks=ranks, **OPTIONS)
    x, task = torch.randn(40, 5, **OPTIONS), naive.uneven_tasks(6, 40).to(DEVICE)
    y, expected = layer(x, task), naive.linear(x, task, layer.weight, layer.bias)
    assert_close(y, expected, factor=10)
    parameters = tuple(layer.parameters())
    found = torch.autograd.grad(y.square().sum(), parameters)
    by_row = torch.autograd.grad(expected.square().sum(), parameters)
    for gradient, other in zip(found, by_row, strict=True):
        assert gradient.any()
        assert_close(gradient, other, factor=100)


@pytest.mark.parametrize("form", FORMS)
def test_full_ranks_are_single_task_layers(form):
    """DMTL-TF with the largest ranks computes what the given weights do."""
    torch.manual_seed(0)
    single = TaskLinear(4, 6, 3, **OPTIONS)
    layer = FactorizedTaskLinear.from_weights(
        single.weight, form, relative_error=0.0, bias=single.bias
    )
    x, task = torch.randn(20, 6, **OPTIONS), torch.arange(20, device=DEVICE) % 4
    assert_close(layer(x, task), single(x, task), factor=10)


def test_laf_of_rank_1_makes_tasks_proportional():
    """Every slice is a multiple of one shared layer, also after training."""
    torch.manual_seed(0)
    layer = FactorizedTaskLinear(4, 6, 3, factorization="laf", ranks=1, **OPTIONS)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    task = torch.arange(20, device=DEVICE) % 4
    layer(torch.randn(20, 6, **OPTIONS), task).square().sum().backward()
    optimizer.step()
    rows = layer.weight.detach().reshape(4, 18)
    assert float(torch.linalg.svdvals(rows)[1]) < 1e-5 * float(torch.linalg.svdvals(rows)[0])


@pytest.mark.parametrize("form", FORMS)
def test_from_weights_keeps_the_relative_error_and_the_biases(form):
    """Copies: the given tensors stay as they are."""
    torch.manual_seed(0)
    single = TaskLinear(["a", "b", "c", "d"], 6, 3, **OPTIONS)
    layer = FactorizedTaskLinear.from_weights(
        single.weight, form, relative_error=0.3, bias=single.bias, tasks=single.tasks
    )
    error = (layer.weight - single.weight).norm() / single.weight.norm()
    assert float(error.detach()) <= 0.3
    assert layer.tasks == ("a", "b", "c", "d")
    assert torch.equal(layer.bias, single.bias)
    layer.bias.data.zero_()
    assert single.bias.any()
    assert FactorizedTaskLinear.from_weights(single.weight, form).bias is None


def test_it_is_no_native_stack():
    """Priors recognize stacks by `stack_modes`."""
    assert not hasattr(FactorizedTaskLinear, "stack_modes")


def test_ranks_and_sizes_are_shown():
    """What `repr` says, and the property."""
    layer = FactorizedTaskLinear(5, 6, 3, factorization="tt", ranks=(2, 3), bias=False)
    assert layer.ranks == (2, 3)
    assert repr(layer).startswith(
        "FactorizedTaskLinear(\n  n_tasks=5, in_features=6, out_features=3, "
        "factorization='tt', ranks=(2, 3), bias=False"
    )
    assert FactorizedTaskLinear(5, 6, 3, factorization="laf").ranks == (5,)


@pytest.mark.parametrize("form", FORMS)
def test_state_goes_round_and_copies_are_apart(form):
    """`state_dict`, `deepcopy`, and the dtype moves."""
    torch.manual_seed(0)
    layer, other = (FactorizedTaskLinear(4, 6, 3, factorization=form) for _ in range(2))
    other.load_state_dict(layer.state_dict())
    copy = deepcopy(layer).double()
    for factor in layer.factors.values():
        factor.data.zero_()
    assert torch.equal(other.weight.double().float(), copy.weight.float()) or torch.allclose(
        other.weight.double(), copy.weight, atol=1e-6
    )
    assert copy(torch.zeros(2, 6, dtype=torch.float64), 0).dtype == torch.float64


@pytest.mark.parametrize("form", FORMS)
def test_equal_start_makes_all_tasks_equal(form):
    """Weights and biases; training can still part them."""
    torch.manual_seed(0)
    layer = FactorizedTaskLinear(4, 6, 3, factorization=form, ranks=2, equal_start=True, **OPTIONS)
    assert_close(layer.weight, layer.weight[:1].expand(4, 3, 6))
    layer(torch.randn(8, 6, **OPTIONS), torch.arange(8) % 4).square().sum().backward()
    gradient = layer.factors["task"].grad
    assert not torch.equal(gradient[0], gradient[1])


def test_senseless_arguments_are_errors():
    """Unknown forms, sizes, errors and names, each in its own words."""
    weight = torch.randn(4, 3, 6)
    with pytest.raises(ValueError, match="one of 'tucker', 'tt', 'laf': got 'cp'"):
        FactorizedTaskLinear(4, 6, 3, factorization="cp")
    with pytest.raises(ValueError, match="one of 'tucker', 'tt', 'laf': got 'cp'"):
        FactorizedTaskLinear.from_weights(weight, "cp")
    with pytest.raises(ValueError, match="`relative_error` must be at least 0 and below 1: got 1"):
        FactorizedTaskLinear.from_weights(weight, "tt", relative_error=1.0)
    with pytest.raises(ValueError, match="every slice of `weight`: expected 4 names, got 1"):
        FactorizedTaskLinear.from_weights(weight, "tt", tasks=["a"])
    with pytest.raises(ValueError, match=r"`weight` must have .* got shape \(3, 6\)"):
        FactorizedTaskLinear.from_weights(weight[0], "tt")
    with pytest.raises(TypeError, match="`weight` must hold floating point .* got torch.int64"):
        FactorizedTaskLinear.from_weights(weight.long(), "tt")
    with pytest.raises(NotFiniteError, match="`weight` must be finite"):
        FactorizedTaskLinear.from_weights(weight / 0, "tucker")
    for bias in (torch.zeros(4), torch.zeros(4, 1)):
        with pytest.raises(ValueError, match=r"`bias` must have .*: expected shape \(4, 3\), got"):
            FactorizedTaskLinear.from_weights(weight, "tt", bias=bias)
    layer = FactorizedTaskLinear(4, 6, 3, factorization="tucker")
    with pytest.raises(ValueError, match="`x` must have rows of 6 features"):
        layer(torch.zeros(2, 5), 0)
    with pytest.raises(TypeError, match="floating type of the weights"):
        layer(torch.zeros(2, 6, dtype=torch.float64), 0)
