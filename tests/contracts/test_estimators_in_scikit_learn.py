"""Every estimator in scikit-learn's own checks, and in its pipelines and searches."""

import warnings

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from tests.contracts.estimators import (
    Case,
    assert_same,
    cases,
    fit,
    outputs,
    rows_of,
)

IN_SINGLE_PRECISION = "networks compute in single precision, and the check compares seven digits"

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": IN_SINGLE_PRECISION,
    "check_sample_weight_equivalence_on_sparse_data": IN_SINGLE_PRECISION,
}
"""Checks that networks fail, each with its reason; linear models fail none."""

TRAINED = {"max_epochs": 50, "learning_rate": 0.02}
"""Enough training for the few rows of scikit-learn's checks, which ask for good predictions."""

FOLDS = KFold(3)


@pytest.fixture(params=cases(), ids=lambda case: case.name)
def case(request) -> Case:
    return request.param


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def no_annotation_checks():
    """Settings may be given anything, as long as `fit` refuses it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("no_annotation_checks")
@pytest.mark.parametrize(
    "case",
    [
        # One network stands for all in every run.
        pytest.param(
            c, id=c.name, marks=[pytest.mark.slow] * (c.is_deep and c.method != "SharedNetwork")
        )
        for c in cases()
    ],
)
def test_scikit_learn_finds_nothing_wrong(case):
    """With tasks=None, which is one task."""
    settings = TRAINED if case.is_deep else {}
    with warnings.catch_warnings():
        # The checks give warnings of their own.
        warnings.simplefilter("ignore")
        results = check_estimator(
            case.make(**settings),
            expected_failed_checks=EXPECTED_FAILURES if case.is_deep else {},
            on_skip=None,
            on_fail=None,
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    # Only the check of another standard for arrays is skipped, since it needs to be turned on.
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}


def test_tasks_are_routed_through_searches_and_pipelines(case, routing):
    rows = rows_of(case.is_classifier)
    pipeline = make_pipeline(StandardScaler(), case.make(tolerance=1e-6))
    step = pipeline.steps[-1][0]
    search = GridSearchCV(
        pipeline, {f"{step}__strength": [0.1, 1.0]}, cv=FOLDS, error_score="raise"
    )
    search.fit(rows.X, rows.y, tasks=rows.tasks)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(rows.X, rows.y, tasks=rows.tasks) > 0
    # Searches route nothing to `predict`.
    best = search.best_estimator_
    assert best.predict(rows.X, tasks=rows.tasks).shape == rows.y.shape
    if case.is_classifier:
        assert best.predict_proba(rows.X, tasks=rows.tasks).shape == (len(rows.y), 2)
        assert best.decision_function(rows.X, tasks=rows.tasks).shape == rows.y.shape


def test_tasks_are_routed_through_cross_validation(case, routing):
    rows = rows_of(case.is_classifier)
    estimator = case.make(tolerance=1e-6)
    scores = cross_val_score(
        estimator, rows.X, rows.y, params={"tasks": rows.tasks}, cv=FOLDS, error_score="raise"
    )
    expected = []
    for train, test in FOLDS.split(rows.X):
        held_out = rows.select(test)
        fitted = fit(case.make(tolerance=1e-6), rows.select(train))
        expected.append(fitted.score(held_out.X, held_out.y, tasks=held_out.tasks))
    np.testing.assert_allclose(scores, expected, atol=1e-3)


def test_a_column_of_tasks_needs_no_routing(case):
    rows = rows_of(case.is_classifier)
    frame = pd.DataFrame(rows.X, columns=list("abcd")).assign(site=rows.tasks)
    columns = ColumnTransformer(
        [("scale", StandardScaler(), list("abcd"))],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(columns, case.make(tolerance=1e-6, task_column="site"))
    step = pipeline.steps[-1][0]
    scoring = "accuracy" if case.is_classifier else "r2"
    search = GridSearchCV(
        pipeline, {f"{step}__strength": [0.1, 1.0]}, cv=FOLDS, scoring=scoring, error_score="raise"
    )
    search.fit(frame, rows.y)
    assert search.predict(frame).shape == rows.y.shape
    found = cross_validate(pipeline, frame, rows.y, cv=FOLDS, error_score="raise")
    assert np.isfinite(found["test_score"]).all()


def test_without_a_column_or_routing_the_error_says_what_to_do(case):
    """What a search forgets, and what a pipeline refuses by itself."""
    rows = rows_of(case.is_classifier)
    estimator = fit(case.make(tolerance=1e-6), rows)
    with pytest.raises(ValueError, match="set_config.*enable_metadata_routing=True.*`task_column`"):
        estimator.score(rows.X, rows.y)


def test_steps_may_take_tasks_by_the_name_of_the_step(case):
    """The older way, which serves `fit` and `predict` of pipelines without routing."""
    rows = rows_of(case.is_classifier)
    pipeline = make_pipeline(StandardScaler(), case.make())
    pipeline.fit(rows.X, rows.y, **{f"{pipeline.steps[-1][0]}__tasks": rows.tasks})
    predicted = pipeline.predict(rows.X, tasks=rows.tasks)
    scaled = StandardScaler().fit_transform(rows.X)
    direct = fit(case.make(), rows.replace(X=scaled))
    np.testing.assert_array_equal(predicted, direct.predict(scaled, tasks=rows.tasks))


@pytest.mark.parametrize("column", [-1, 4])
def test_a_column_of_codes_may_pass_a_transformer_as_an_array(case, column):
    rows = rows_of(case.is_classifier)
    number = np.unique(rows.tasks, return_inverse=True)[1]
    table = np.column_stack([rows.X, number])
    columns = ColumnTransformer([("scale", StandardScaler(), slice(0, 4))], remainder="passthrough")
    pipeline = make_pipeline(columns, case.make(task_column=column)).fit(table, rows.y)
    scaled = StandardScaler().fit_transform(rows.X)
    direct = fit(case.make(), rows.replace(X=scaled))
    assert_same(case, outputs_of(pipeline, table), outputs(direct, scaled, rows.tasks))


def outputs_of(pipeline, x):
    name = "decision_function" if hasattr(pipeline, "decision_function") else "predict"
    return getattr(pipeline, name)(x)


def test_missing_labels_and_wide_labels_go_through_searches(case):
    rows = rows_of(case.is_classifier)
    names = np.unique(rows.tasks)
    wide = np.where(rows.tasks[:, None] == names, rows.y[:, None], np.nan)
    search = GridSearchCV(
        case.make(tolerance=1e-6), {"strength": [0.1, 1.0]}, cv=FOLDS, error_score="raise"
    )
    assert search.fit(rows.X, wide).predict(rows.X).shape == wide.shape
