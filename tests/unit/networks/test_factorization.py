"""Factors of stacks: exact with full ranks, within the error asked for, and messages."""

from math import prod

import pytest
import torch

from multirel.networks._factorization import (
    compose,
    factorize,
    input_basis,
    random_factors,
    resolve_ranks,
)
from tests.environment import DEVICE, DTYPE, assert_close

FORMS = ("tucker", "tt", "laf")

OPTIONS = {"device": DEVICE, "dtype": DTYPE}

SHAPES = [(5, 3, 20), (3, 7, 4), (30, 2, 4), (1, 1, 6), (4, 5, 1)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_full_ranks_compose_the_weights_exactly(form, shape):
    """Given, or from a relative error of zero."""
    torch.manual_seed(0)
    weight = torch.randn(shape, **OPTIONS)
    full = resolve_ranks(shape, form, None)
    assert_close(compose(factorize(weight, form, ranks=full), form), weight, factor=10)
    assert_close(compose(factorize(weight, form, relative_error=0.0), form), weight, factor=10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("relative_error", [0.01, 0.1, 0.5])
def test_ranks_are_as_small_as_the_error_allows(form, relative_error):
    """The bound holds, and the stack of decaying spectrum takes fewer numbers than it has."""
    torch.manual_seed(0)
    shape = (8, 10, 12)
    weight = random_factors(shape, form, ranks=3, **OPTIONS)
    weight = compose(weight, form)
    weight = weight + 0.002 * weight.std() * torch.randn(shape, **OPTIONS)
    factors = factorize(weight, form, relative_error=relative_error)
    error = (compose(factors, form) - weight).norm() / weight.norm()
    assert float(error) <= relative_error
    assert sum(prod(factor.shape) for factor in factors) < prod(shape)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(12, 3, 2), (7, 1, 2), (40, 2, 10)])
def test_the_error_is_kept_where_tasks_outnumber_their_weights(form, shape):
    """The unfolding by tasks is tall then; the largest errors allowed are the hardest to keep."""
    torch.manual_seed(0)
    weight = torch.randn(shape, **OPTIONS)
    for relative_error in (0.1, 0.3, 0.5, 0.9):
        factors = factorize(weight, form, relative_error=relative_error)
        error = (compose(factors, form) - weight).norm() / weight.norm()
        assert float(error) <= relative_error


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_of_full_rank_have_the_same_shapes_from_weights_and_at_random(form, shape):
    """So that the state of one loads into the other."""
    given = factorize(torch.randn(shape, **OPTIONS), form, ranks=1000)
    at_random = random_factors(shape, form)
    assert [factor.shape for factor in given] == [factor.shape for factor in at_random]


@pytest.mark.parametrize("form", FORMS)
def test_weights_of_low_rank_are_found_to_be_so(form):
    """From weights composed of few factors, the same ranks come back."""
    torch.manual_seed(0)
    ranks = {"tucker": (2, 3, 4), "tt": (2, 3), "laf": (2,)}[form]
    weight = compose(random_factors((6, 7, 8), form, ranks=ranks, **OPTIONS), form)
    found = factorize(weight, form, relative_error=1e-3)
    again = random_factors((6, 7, 8), form, ranks=ranks)
    assert [factor.shape for factor in found] == [factor.shape for factor in again]
    assert_close(compose(found, form), weight, factor=10)


def test_laf_is_the_best_approximation_of_its_rank():
    """Eckart and Young: the error is what the singular values leave out."""
    torch.manual_seed(0)
    weight = torch.randn(6, 4, 5, **OPTIONS)
    error = (compose(factorize(weight, "laf", ranks=2), "laf") - weight).norm()
    assert_close(error, torch.linalg.svdvals(weight.reshape(6, 20))[2:].norm())


@pytest.mark.parametrize("form", FORMS)
def test_the_input_basis_is_the_last_factor(form):
    """x ↦ W x is the product in the basis of inputs, for the forms that have one."""
    torch.manual_seed(0)
    factors = random_factors((4, 3, 6), form, ranks=2, **OPTIONS)
    basis = input_basis(factors, form)
    if form == "laf":
        assert basis is None
    else:
        assert_close(compose(factors[:-1], form) @ basis.mT, compose(factors, form))


@pytest.mark.parametrize("form", FORMS)
def test_random_factors_compose_weights_of_the_usual_size(form):
    """Variance 1/(3 I), that of `nn.Linear`, and equal tasks if asked for."""
    torch.manual_seed(0)
    weights = [compose(random_factors((20, 20, 20), form, ranks=8), form) for _ in range(10)]
    variance = float(torch.stack(weights).var())
    assert 0.7 < 60 * variance < 1.4
    equal = compose(random_factors((5, 4, 6), form, equal_start=True), form)
    torch.testing.assert_close(equal, equal[:1].expand_as(equal))


def test_low_precision_weights_have_low_precision_factors():
    """The dtype follows the weights; the SVD is in double precision."""
    torch.manual_seed(0)
    weight = torch.randn(4, 3, 6, dtype=torch.float32, device=DEVICE)
    factors = factorize(weight, "tucker", ranks=(4, 3, 6))
    assert {factor.dtype for factor in factors} == {torch.float32}
    assert_close(compose(factors, "tucker"), weight, dtype=torch.float32)


def test_weights_of_zeros_can_be_factorized():
    """Nothing divides by their norm."""
    for form in FORMS:
        assert not compose(factorize(torch.zeros(3, 4, 5), form), form).any()


@pytest.mark.parametrize(
    ("form", "ranks", "message"),
    [
        ("tucker", (2, 2), r"must have 3 entries for 'tucker': got \(2, 2\)"),
        ("laf", (2, 2), r"must have 1 entries for 'laf': got \(2, 2\)"),
        ("tt", (2, 7), r"between 1 and \(3, 5\) for a stack of shape \(3, 4, 5\) and 'tt'"),
        ("tucker", (0, 1, 1), r"between 1 and \(3, 4, 5\).*got \(0, 1, 1\)"),
        ("laf", 0, r"between 1 and \(3,\).*got \(0,\)"),
    ],
)
def test_ranks_that_do_not_fit_are_an_error(form, ranks, message):
    """The message has what fits and what was given."""
    with pytest.raises(ValueError, match=message):
        resolve_ranks((3, 4, 5), form, ranks)


@pytest.mark.parametrize("ranks", [1.5, True, "1", (1.5,), (True,)])
def test_ranks_are_whole_numbers(ranks):
    """Alone or one by one."""
    with pytest.raises(TypeError, match="`ranks` must be a whole number, several or None: got "):
        resolve_ranks((3, 4, 5), "laf", ranks)


def test_an_integer_is_every_rank_as_far_as_sizes_allow():
    """The largest ranks are those of None."""
    assert resolve_ranks((3, 4, 5), "tucker", 4) == (3, 4, 4)
    assert resolve_ranks((3, 4, 50), "tt", None) == (3, 12)
    assert resolve_ranks((30, 2, 3), "laf", None) == (6,)
    assert resolve_ranks((30, 2, 3), "tucker", None) == (6, 2, 3)
