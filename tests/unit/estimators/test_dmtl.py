"""DMTL: settings, what is learned in the user's units, and messages."""

import numpy as np
import pytest
from scipy import sparse

from multirel.data import make_related_tasks
from multirel.estimators import DMTLClassifier, DMTLRegressor, SingleTaskClassifier
from multirel.estimators._dmtl import _plan
from multirel.estimators._linear._factorized_form import FORMS
from multirel.exceptions import ConvergenceWarning

DATA = make_related_tasks(4, [30, 12, 20, 25], 6, n_classes=3, correlation=0.5)
NUMBERS = make_related_tasks(5, 20, 8, correlation=0.5)


def fit(estimator, data=DATA, X=None):
    return estimator.fit(data.X if X is None else X, data.y, tasks=data.tasks)


@pytest.mark.parametrize("form", FORMS)
def test_composed_factors_are_the_coefficients(form):
    """Also where features have units of their own."""
    X = DATA.X * np.array([1e4, 1, 1e-4, 1, 1, 10]) + 5
    estimator = fit(DMTLClassifier(factorization=form, ranks=2), X=X)
    composed = FORMS[form].compose([*estimator.factors_.values()])
    np.testing.assert_allclose(composed, estimator.coef_, rtol=1e-6, atol=1e-12)
    expected = {"tucker": (2, 2, 2), "tt": (2, 2), "laf": (2,)}
    assert estimator.ranks_ == expected[form]


def test_factors_have_names():
    factors = fit(DMTLClassifier(ranks=(2, 3, 4))).factors_
    shapes = {name: factor.shape for name, factor in factors.items()}
    assert shapes == {"core": (2, 3, 4), "task": (4, 2), "output": (3, 3), "input": (6, 4)}


@pytest.mark.parametrize("form", FORMS)
def test_full_ranks_predict_as_single_task_training(form):
    full = fit(DMTLClassifier(factorization=form, relative_error=0.0, strength=0.5))
    single = fit(SingleTaskClassifier(strength=0.5))
    np.testing.assert_allclose(full.coef_, single.coef_, rtol=1e-6, atol=1e-8)
    assert full.gap_ <= full.tolerance


def test_laf_of_rank_1_makes_tasks_proportional():
    coef = fit(DMTLRegressor(factorization="laf", ranks=1), NUMBERS).coef_[:, 0]
    values = np.linalg.svd(coef, compute_uv=False)
    assert values[1] < 1e-8 * values[0]


def test_low_ranks_report_a_residual_and_no_gap():
    estimator = fit(DMTLRegressor(ranks=2), NUMBERS)
    assert np.isnan(estimator.gap_)
    assert 0 <= estimator.residual_ <= estimator.tolerance
    assert estimator.converged_


def test_sparse_rows_give_the_same_model():
    X = np.where(np.abs(DATA.X) > 1, DATA.X, 0.0)
    dense = fit(DMTLClassifier(ranks=2, standardize=False), X=X)
    thin = fit(DMTLClassifier(ranks=2, standardize=False), X=sparse.csr_array(X))
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-6, atol=1e-8)


def test_more_features_than_rows_have_the_rank_of_the_rows():
    data = make_related_tasks(3, 6, 50, correlation=0.9)
    estimator = fit(DMTLRegressor(factorization="laf", ranks=2), data)
    centered = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    coef = estimator.coef_[:, 0] * data.X.std(axis=0)
    inside = centered.T @ np.linalg.lstsq(centered.T, coef.T)[0]
    np.testing.assert_allclose(inside, coef.T, atol=1e-8)


def test_a_task_without_labels_has_the_average_of_the_others():
    y = np.where(NUMBERS.tasks == "task 2", np.nan, NUMBERS.y)
    estimator = DMTLRegressor(ranks=2).fit(NUMBERS.X, y, tasks=NUMBERS.tasks)
    others = [0, 2, 3, 4]
    np.testing.assert_allclose(estimator.coef_[1], estimator.coef_[others].mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose(
        FORMS["tucker"].compose([*estimator.factors_.values()]), estimator.coef_, atol=1e-8
    )


def test_one_task_is_a_low_rank_model_of_its_own():
    estimator = DMTLClassifier(ranks=(1, 1, 1)).fit(DATA.X, DATA.y)
    assert np.linalg.matrix_rank(estimator.coef_[0], tol=1e-8) == 1


def test_a_point_that_is_not_stationary_warns(monkeypatch):
    monkeypatch.setattr("multirel.estimators._linear._factorized.MAX_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="stopped with a relative residual of"):
        fit(DMTLRegressor(factorization="laf", ranks=1), NUMBERS)


DEEP = {"hidden_sizes": (7,), "max_epochs": 20, "batch_size": 200, "random_state": 0}


def test_layers_of_networks_are_factorized():
    """Both of them, with a bias for every task."""
    estimator = fit(DMTLClassifier(ranks=2, **DEEP))
    assert estimator.ranks_ == {"fc7": (2, 2, 2), "fc8": (2, 2, 2)}
    shapes = {name: factor.shape for name, factor in estimator.factors_["fc7"].items()}
    assert shapes == {"core": (2, 2, 2), "task": (4, 2), "output": (7, 2), "input": (6, 2)}
    biases = [layer.bias.detach() for layer in estimator.network_.heads.values()]
    assert [tuple(bias.shape) for bias in biases] == [(4, 7), (4, 3)]
    assert all(np.linalg.matrix_rank(bias - bias.mean(dim=0)) > 1 for bias in biases)
    assert estimator.score(DATA.X, DATA.y, tasks=DATA.tasks) > 0.4


def test_without_a_relative_error_networks_have_the_ranks_of_any_single_task_network():
    full = fit(DMTLClassifier(factorization="tt", relative_error=0.0, **DEEP))
    ranks = {"fc7": (4, 6), "fc8": (4, 7)}
    assert full.ranks_ == ranks
    for name, layer in full.network_.heads.items():
        n_tasks, n_outputs, n_inputs = layer.weight.shape
        assert ranks[name] == (n_tasks, min(n_tasks * n_outputs, n_inputs))


def test_tasks_with_their_own_classes_factorize_all_but_the_last_layer():
    y = np.where(DATA.tasks == "task 1", DATA.y + 10, DATA.y)
    y = np.where(DATA.tasks == "task 2", DATA.y + 20, y)
    estimator = DMTLClassifier(ranks=2, classes="per-task", **DEEP)
    estimator.fit(DATA.X, y, tasks=DATA.tasks)
    assert [*estimator.factors_] == ["fc7"]


def test_the_plan_of_a_network_has_the_factorization_and_no_prior():
    plan = _plan(DMTLClassifier(factorization="tt", ranks={"fc8": 2}, relative_error=0.2))
    assert (plan.factorization, plan.ranks, plan.relative_error) == ("tt", {"fc8": 2}, 0.2)
    assert plan.prior is None


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"factorization": "cp"},
            ValueError,
            "`factorization` must be one of 'tucker', 'tt', 'laf'",
        ),
        ({"ranks": (2, 2)}, ValueError, "`ranks` must have 3 entries for 'tucker'"),
        ({"ranks": (2, 2, 9)}, ValueError, r"`ranks` must lie between 1 and \(4, 3, 6\)"),
        ({"ranks": 0.5}, TypeError, "`ranks` must be a whole number, several or None"),
        ({"ranks": {"fc8": 2}}, TypeError, "several or None without hidden layers"),
        ({"relative_error": 1.0}, ValueError, "`relative_error` must be at least 0 and below 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        fit(DMTLClassifier().set_params(**settings))
