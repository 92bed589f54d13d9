"""Factors: the stack they stand for, derivatives by them, and ranks that can be used."""

from itertools import product

import numpy as np
import pytest

from multirel.estimators._linear._factorized_form import (
    FORMS,
    decompose,
    named_factors,
    usable_ranks,
)

SHAPE = (5, 4, 6)
RANKS = {"tucker": (2, 3, 4), "tt": (2, 3), "laf": (2,)}


def random_factors(form, *, seed=0):
    rng = np.random.default_rng(seed)
    ranks, (t, o, i) = RANKS[form], SHAPE
    if form == "tucker":
        sizes = [ranks, (t, ranks[0]), (o, ranks[1]), (i, ranks[2])]
    elif form == "tt":
        sizes = [(t, ranks[0]), (ranks[0], o, ranks[1]), (ranks[1], i)]
    else:
        sizes = [(t, ranks[0]), (ranks[0], o, i)]
    return [rng.standard_normal(size) for size in sizes]


def entry(form, factors, t, o, i):
    """One entry of the stack, by the formula."""
    if form == "tucker":
        core, tasks, outputs, inputs = factors
        indices = product(*map(range, core.shape))
        return sum(
            core[a, b, c] * tasks[t, a] * outputs[o, b] * inputs[i, c] for a, b, c in indices
        )
    if form == "tt":
        return factors[0][t] @ factors[1][:, o] @ factors[2][:, i]
    return factors[0][t] @ factors[1][:, o, i]


@pytest.mark.parametrize("form", FORMS)
def test_every_entry_of_the_stack_is_what_the_formula_says(form):
    factors = random_factors(form)
    expected = [entry(form, factors, *index) for index in np.ndindex(*SHAPE)]
    np.testing.assert_allclose(
        FORMS[form].compose(factors), np.reshape(expected, SHAPE), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("form", FORMS)
def test_pulling_back_is_the_transpose_of_changing_one_factor(form):
    """⟨G, compose(…, dθ, …)⟩ = ⟨pull back of G, dθ⟩, since the stack is linear in each factor."""
    factors, rng = random_factors(form), np.random.default_rng(1)
    gradient = rng.standard_normal(SHAPE)
    for number, factor in enumerate(factors):
        change = rng.standard_normal(factor.shape)
        changed = [*factors[:number], change, *factors[number + 1 :]]
        pulled = FORMS[form].pull_back(gradient, factors, FORMS[form].chain(factors))[number]
        expected = np.vdot(gradient, FORMS[form].compose(changed))
        np.testing.assert_allclose(np.vdot(pulled, change), expected, rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_orthonormal_factors_compose_the_same_stack(form):
    factors = random_factors(form)
    found = FORMS[form].orthonormalized(factors)
    np.testing.assert_allclose(
        FORMS[form].compose(found), FORMS[form].compose(factors), rtol=1e-10, atol=1e-10
    )
    for number in FORMS[form].scaled_by:
        columns = found[number].reshape(-1, found[number].shape[-1])
        np.testing.assert_allclose(columns.T @ columns, np.eye(columns.shape[1]), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_gram_matrix_gives_the_size_of_a_change_of_columns(form):
    """‖compose(…, dQ, …)‖² = tr(dQ Gram dQᵀ)."""
    factors = FORMS[form].orthonormalized(random_factors(form))
    rng = np.random.default_rng(1)
    for number in FORMS[form].scaled_by:
        change = rng.standard_normal(factors[number].shape)
        stack = FORMS[form].compose([*factors[:number], change, *factors[number + 1 :]])
        flat = change.reshape(-1, change.shape[-1])
        gram = FORMS[form].column_gram(factors, number)
        np.testing.assert_allclose(
            np.square(stack).sum(), np.trace(flat @ gram @ flat.T), rtol=1e-10
        )


def test_ranks_without_use_beside_the_others_are_left_out():
    assert usable_ranks(SHAPE, "tucker", (5, 1, 2)) == (2, 1, 2)
    assert usable_ranks(SHAPE, "tucker", (1, 4, 2)) == (1, 2, 2)
    assert usable_ranks((5, 1, 6), "tucker", (5, 1, 3)) == (3, 1, 3)
    assert usable_ranks(SHAPE, "tt", (1, 6)) == (1, 4)
    assert usable_ranks((5, 1, 6), "tt", (5, 2)) == (2, 2)
    assert usable_ranks((3, 1, 2), "laf", (9,)) == (2,)


@pytest.mark.parametrize("form", FORMS)
def test_decomposing_a_stack_of_such_ranks_gives_it_back(form):
    stack = FORMS[form].compose(random_factors(form))
    found = decompose(stack, form, ranks=RANKS[form])
    np.testing.assert_allclose(FORMS[form].compose(found), stack, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_ranks_by_relative_error_keep_it(form):
    stack = np.random.default_rng(0).standard_normal(SHAPE)
    found = decompose(stack, form, relative_error=0.5)
    error = np.linalg.norm(FORMS[form].compose(found) - stack) / np.linalg.norm(stack)
    assert 0.05 < error <= 0.5


@pytest.mark.parametrize("form", FORMS)
def test_named_factors_are_exact_for_inputs_in_any_units(form):
    """Every coefficient keeps its digits, with units that differ by 10¹²."""
    stack = FORMS[form].compose(random_factors(form)) * np.array([1e6, 1e-6, 1, 1, 0, 10])
    found = named_factors(stack, form, ranks=RANKS[form])
    scale = np.abs(stack).max(axis=(0, 1)) + (stack == 0).all(axis=(0, 1))
    composed = FORMS[form].compose([*found.values()])
    np.testing.assert_allclose(composed / scale, stack / scale, atol=1e-8)
