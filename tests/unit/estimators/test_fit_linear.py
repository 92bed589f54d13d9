"""From rows to a problem and back: coordinates change nothing that users see."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from multirel.estimators import (
    MeanRegularizedClassifier,
    MeanRegularizedRegressor,
    PooledClassifier,
    PooledRegressor,
    SingleTaskClassifier,
    SingleTaskRegressor,
)
from tests.unit.estimators.rows_of_tasks import make_rows

ESTIMATORS = {
    "single": (SingleTaskRegressor, SingleTaskClassifier, {}),
    "pooled": (PooledRegressor, PooledClassifier, {}),
    "pooled with intercepts": (PooledRegressor, PooledClassifier, {"task_intercepts": True}),
    "mean": (MeanRegularizedRegressor, MeanRegularizedClassifier, {"strength": 0.1}),
}


def make(method, n_classes, **settings):
    regressor, classifier, own = ESTIMATORS[method]
    return (regressor if n_classes is None else classifier)(**{**own, **settings})


@pytest.mark.parametrize("method", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [None, 2, 3])
@pytest.mark.parametrize("kind", ["dense", "single precision", "sparse"])
@pytest.mark.parametrize("standardize", [False, True])
def test_the_span_of_the_rows_gives_the_same_predictions(
    method, n_classes, kind, standardize, monkeypatch
):
    x, y, tasks = make_rows(3, 8, 60, n_classes=n_classes, noise=4.0)
    if kind == "sparse":
        x = sparse.csr_array(x * (np.random.default_rng(1).random(x.shape) < 0.3))
    if kind == "single precision":
        x = x.astype(np.float32)
    inside = make(method, n_classes, standardize=standardize).fit(x, y, tasks=tasks)
    monkeypatch.setattr(type(inside), "_uses_span", False, raising=False)
    outside = make(method, n_classes, standardize=standardize).fit(x, y, tasks=tasks)

    scores = [
        model.predict(x, tasks=tasks)
        if n_classes is None
        else model.decision_function(x, tasks=tasks)
        for model in (inside, outside)
    ]
    assert_allclose(scores[0], scores[1], atol=1e-6 * np.abs(scores[1]).max())
    assert_allclose(inside.coef_, outside.coef_, atol=1e-6 * np.abs(outside.coef_).max())


def test_wide_labels_span_what_their_rows_span():
    x, _, _ = make_rows(1, 10, 40)
    y = np.random.default_rng(0).normal(size=(10, 3))
    y[2, 1] = np.nan
    wide = SingleTaskRegressor().fit(x, y)
    source, task = np.nonzero(~np.isnan(y))
    long = SingleTaskRegressor().fit(x[source], y[source, task], tasks=task)

    assert_allclose(wide.coef_, long.coef_, atol=1e-9)


def test_what_users_give_is_not_changed():
    x, y, tasks = make_rows()
    x = np.asfortranarray(x)
    x.flags.writeable = False
    before = x.copy()
    SingleTaskRegressor().fit(x, y, tasks=np.sort(tasks))
    SingleTaskRegressor(standardize=False).fit(x, y, tasks=tasks)

    assert (x == before).all()


def test_constant_features_get_no_weight():
    x, y, tasks = make_rows()
    x = np.column_stack([x, np.full(len(x), 0.1)])
    model = SingleTaskRegressor().fit(x, y, tasks=tasks)

    assert_allclose(model.coef_[:, :, -1], 0, atol=1e-12)


@pytest.mark.slow
def test_a_fit_holds_less_than_three_times_its_rows():
    import tracemalloc

    rng = np.random.default_rng(0)
    x = rng.normal(size=(100_000, 256)).astype(np.float32)
    tasks = rng.integers(4, size=len(x))
    y = (x[:, 0] + rng.normal(size=len(x)) > 0) * 1
    for model in (SingleTaskRegressor(), SingleTaskClassifier(), MeanRegularizedClassifier()):
        tracemalloc.start()
        model.fit(x, y, tasks=tasks)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # The rows themselves were there before.
        assert peak < 2 * x.nbytes
