"""Every estimator has a twin that chooses its settings, linear or a network."""

import inspect
import warnings
from dataclasses import replace

import jaxtyping
import numpy as np
import pytest
import sklearn
import torch
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import multirel.estimators
from multirel.data import make_related_tasks
from multirel.estimators import _search_split, _search_twins
from multirel.estimators._averaging import AveragedModel
from multirel.estimators._network_images import BackboneModel
from multirel.exceptions import ConvergenceWarning, MultirelWarning

TWINS = sorted(_search_twins.__all__)
LINEAR = [name for name in TWINS if not name.startswith("SharedNetwork")]
SEARCH = ["grid", "cv", "n_repeats", "scoring", "selection", "n_jobs"]
IN_SINGLE_PRECISION = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "Training in single precision carries roundoff of 1e-8 on to 1e-4 of the probabilities.",
)
DEEP = {"hidden_sizes": (4,), "max_epochs": 3, "learning_rate": 0.05}


def twin(name, **settings):
    settings = {"random_state": 0, **settings}
    if name.startswith("SharedNetwork"):
        settings = {"max_epochs": 3, **settings}
    return getattr(_search_twins, name)(**settings)


def rows(name):
    return make_related_tasks(3, 30, 5, n_classes=None if "Regressor" in name else 2, seed=0)


def fitted(estimator, data):
    return estimator.fit(data.X, data.y, tasks=data.tasks)


def test_every_public_estimator_has_a_twin():
    public = {n for n in multirel.estimators.__all__ if n.endswith(("Classifier", "Regressor"))}
    assert {f"{name}CV" for name in public} <= set(TWINS)
    assert set(TWINS) <= set(multirel.estimators.__all__)


@pytest.mark.parametrize("name", TWINS)
def test_twins_have_the_settings_of_their_estimators_with_the_same_defaults(name: str):
    own = inspect.signature(getattr(_search_twins, name))
    other = inspect.signature(getattr(_search_twins, name)._estimator_class)
    assert list(own.parameters) == [*other.parameters, *SEARCH]
    for setting, parameter in other.parameters.items():
        assert own.parameters[setting].default == parameter.default
        assert own.parameters[setting].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", TWINS)
def test_twins_find_settings_of_their_own(name: str):
    data = rows(name)
    found = fitted(twin(name, cv=2), data)
    n_settings = len(found.cv_results_["params"])
    assert n_settings >= 5
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.cv_results_["all_converged"].all()
    mean = found.cv_results_["mean_test_score"]
    assert found.best_score_ == mean.max()
    assert found.predict(data.X, tasks=data.tasks).shape == data.y.shape


@pytest.mark.parametrize("name", LINEAR)
def test_averages_and_simple_settings_are_linear_models(name: str):
    data = rows(name)
    grid = {"strength": [0.01, 0.02]}
    for selection in ("one-se", "average"):
        found = fitted(twin(name, cv=2, grid=grid, selection=selection), data)
        assert found.coef_.shape == (3, 1, 5)
        expected = found.best_estimator_.predict(data.X, tasks=data.tasks)
        assert np.array_equal(found.predict(data.X, tasks=data.tasks), expected)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n.startswith("MTFL") else [pytest.mark.slow]) for n in TWINS],
)
def test_scikit_learn_finds_nothing_wrong(name: str):
    settings = {"grid": {"strength": [0.2, 0.1]}, "cv": 3}
    is_network = name.startswith("SharedNetwork")
    if is_network:
        settings |= {
            "hidden_sizes": (8,),
            "max_epochs": 100,
            # Folds of few rows leave the training of numbers unsteady at higher rates.
            "learning_rate": 0.02 if "Regressor" in name else 0.1,
            "batch_size": 10_000,
        }
    else:
        settings |= {"tolerance": 1e-15}
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with warnings.catch_warnings():
            # The checks give warnings of their own.
            warnings.simplefilter("ignore")
            results = check_estimator(
                twin(name, **settings),
                expected_failed_checks=IN_SINGLE_PRECISION if is_network else {},
                on_skip=None,
                on_fail=None,
            )
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed


def test_networks_are_scored_as_by_a_grid_search_of_scikit_learn():
    data = rows("Classifier")
    cv = KFold(2, shuffle=True, random_state=0)
    grid = {"strength": [0.1, 10.0], "hidden_sizes": [(), (4,)]}
    settings = {"max_epochs": 3, "learning_rate": 0.05, "random_state": 0}
    with sklearn.config_context(enable_metadata_routing=True):
        theirs = GridSearchCV(multirel.estimators.MRNClassifier(**settings), grid, cv=cv)
        fitted(theirs, data)
    ours = fitted(twin("MRNClassifierCV", grid=grid, cv=cv, **settings), data)
    theirs = {
        (one["strength"], one["hidden_sizes"]): score
        for one, score in zip(
            theirs.cv_results_["params"], theirs.cv_results_["mean_test_score"], strict=True
        )
    }
    for one, score in zip(
        ours.cv_results_["params"], ours.cv_results_["mean_test_score"], strict=True
    ):
        assert score == pytest.approx(theirs[one["strength"], one["hidden_sizes"]], abs=1e-9)


def test_several_depths_are_tried_with_every_grid():
    data = rows("Regressor")
    settings = {**DEEP, "hidden_sizes": ((), (4,))}
    found = fitted(twin("SingleTaskRegressorCV", cv=2, **settings), data)
    tried = [one["hidden_sizes"] for one in found.cv_results_["params"]]
    assert tried.count(()) == 11
    assert tried.count((4,)) == 5
    given = fitted(
        twin("SingleTaskRegressorCV", cv=2, grid={"strength": [1.0, 2.0]}, **settings), data
    )
    assert len(given.cv_results_["params"]) == 4
    assert given.best_estimator_.hidden_sizes in ((), (4,))


def test_networks_of_several_settings_answer_together():
    data = rows("Classifier")
    found = fitted(
        twin("MRNClassifierCV", grid={"strength": [1.0, 1.001]}, selection="average", **DEEP), data
    )
    assert len(found.averaged_) == 2
    assert isinstance(found.model_, AveragedModel)
    each = [
        fitted(multirel.estimators.MRNClassifier(strength=s, random_state=0, **DEEP), data)
        for s in (1.0, 1.001)
    ]
    expected = np.mean([one.predict_proba(data.X, tasks=data.tasks) for one in each], axis=0)
    np.testing.assert_allclose(found.predict_proba(data.X, tasks=data.tasks), expected, atol=1e-7)


def test_tasks_with_their_own_classes_are_searched():
    data = make_related_tasks(3, 40, 5, n_classes=3, seed=0)
    y = np.char.add(data.tasks.astype(str), data.y.astype(str))
    for settings in ({}, DEEP):
        found = twin("SingleTaskClassifierCV", grid={"strength": [0.1, 1.0]}, **settings)
        found.fit(data.X, y, tasks=data.tasks)
        assert isinstance(found.classes_, list)
        assert np.isfinite(found.cv_results_["mean_test_score"]).all()
        assert found.score(data.X, y, tasks=data.tasks) > 0.2


def test_tasks_of_two_kinds_are_searched_by_the_deviance():
    data = rows("Classifier")
    kinds = {data.task_names[0]: "regression"}
    found = twin("MRNClassifierCV", kinds=kinds, grid={"strength": [0.1, 1.0]}, **DEEP)
    found.fit(data.X, data.y.astype(float), tasks=data.tasks)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("hidden_sizes", [(), (4,)])
def test_a_frozen_backbone_is_evaluated_once(monkeypatch, hidden_sizes):
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(12, 6)).requires_grad_(False)
    n_seen = []
    forward = nn.Flatten.forward
    monkeypatch.setattr(
        nn.Flatten, "forward", lambda self, x: n_seen.append(len(x)) or forward(self, x)
    )
    rng = np.random.default_rng(0)
    images, tasks = rng.random((60, 3, 2, 2)).astype(np.float32), np.arange(60) % 3
    labels = (images.sum(axis=(1, 2, 3)) > 6).astype(int)
    found = twin(
        "MRNClassifierCV",
        backbone=backbone,
        grid={"strength": [0.1, 1.0, 10.0]},
        cv=3,
        **{**DEEP, "hidden_sizes": hidden_sizes},
    )
    found.fit(images, labels, tasks=tasks)
    assert sum(n_seen) <= 61
    assert isinstance(found.model_, BackboneModel)
    alone = multirel.estimators.MRNClassifier(
        backbone=backbone,
        random_state=0,
        **found.best_params_,
        **{**DEEP, "hidden_sizes": hidden_sizes},
    ).fit(images, labels, tasks=tasks)
    np.testing.assert_allclose(
        found.predict_proba(images, tasks=tasks),
        alone.predict_proba(images, tasks=tasks),
        atol=1e-6,
    )


def test_an_interruption_of_training_ends_the_search(monkeypatch):
    data = rows("Regressor")
    fits, fit = [], _search_split._fit

    def interrupted(estimator, train):
        result = fit(estimator, train)
        fits.append(result)
        # As training does when it is interrupted.
        result.converged_ = len(fits) != 4
        return result

    monkeypatch.setattr(_search_split, "_fit", interrupted)
    with pytest.warns(MultirelWarning, match="settings are chosen by 1 of 3 splits"):
        found = fitted(
            twin("SingleTaskRegressorCV", cv=3, grid={"strength": [0.1, 1.0]}, **DEEP), data
        )
    assert found.cv_protocol_["n_splits"] == 1


def test_what_the_chosen_estimator_has_to_say_is_said_once(monkeypatch):
    kind, data = multirel.estimators.MTFLClassifier, rows("Classifier")
    solve = kind._solve
    monkeypatch.setattr(
        kind, "_solve", lambda *a, **kw: replace(solve(*a, **kw), converged=False, gap=0.5)
    )
    with pytest.warns(ConvergenceWarning, match="MTFLClassifier stopped with") as said:
        found = fitted(twin("MTFLClassifierCV", grid={"strength": [1e-3, 1e-4]}, cv=2), data)
    assert len(said) == 1
    assert not found.cv_results_["all_converged"].any()
