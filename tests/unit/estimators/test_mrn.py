import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from multirel.data import make_related_tasks
from multirel.estimators import (
    MeanRegularizedRegressor,
    MRNClassifier,
    MRNRegressor,
    MTFLRegressor,
    MTRLRegressor,
    PooledClassifier,
    PooledRegressor,
    SingleTaskClassifier,
    SingleTaskRegressor,
)
from multirel.estimators._mrn_fit import lies_in_span, plan_network
from tests.reference.special_cases import trace_norm_solution

DATA = make_related_tasks(4, [30, 20, 25, 40], 6, correlation=0.7, seed=1)
CLASSES = make_related_tasks(3, 40, 5, correlation=0.7, n_classes=3, seed=1)


def fit(model, data=DATA, y=None):
    return model.fit(data.X, data.y if y is None else y, tasks=data.tasks)


def test_learned_attributes_have_the_shapes_of_their_modes():
    model = fit(MRNClassifier(), CLASSES)

    assert model.coef_.shape == (3, 3, 5)
    assert model.intercept_.shape == (3, 3)
    for name, size in (("task", 3), ("output", 3), ("input", 5)):
        covariance = getattr(model, f"{name}_covariance_")
        correlation = getattr(model, f"{name}_correlation_")
        assert covariance.shape == correlation.shape == (size, size)
        assert_allclose(np.trace(covariance), size)
        assert_allclose(np.diagonal(correlation), 1)
    assert model.gap_ <= 1e-6
    assert model.converged_
    assert model.n_updates_ == 1
    assert model.n_iter_ >= 1


@pytest.mark.parametrize("weighting", ["rows", "equal"])
def test_a_held_correlation_is_mean_regularization(weighting):
    """λ/N /(1 + (T−1)ρ) = 2 λ₂ and λ/N /(1 − ρ) = 2 (λ₁ + λ₂), times T for equal tasks."""
    strength, rho, n_tasks = 3.0, 0.6, 4
    n_samples, scale = (len(DATA), 1) if weighting == "rows" else (n_tasks, n_tasks)
    ridge = strength / n_samples * scale / (1 + (n_tasks - 1) * rho) / 2
    pull = strength / n_samples * scale / (1 - rho) / 2 - ridge

    model = fit(MRNRegressor(strength=strength, start=rho, n_updates=0, task_weighting=weighting))
    other = fit(MeanRegularizedRegressor(strength=pull, ridge=ridge, task_weighting=weighting))

    assert_allclose(model.coef_, other.coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(model.intercept_, other.intercept_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("kinds", "data"),
    [
        ((MRNRegressor, SingleTaskRegressor), DATA),
        ((MRNClassifier, SingleTaskClassifier), CLASSES),
    ],
)
def test_no_correlation_is_single_task_training(kinds, data):
    model = fit(kinds[0](strength=2.0, start=0.0, n_updates=0, tolerance=1e-10), data)
    single = fit(kinds[1](strength=2.0, tolerance=1e-10), data)

    assert_allclose(model.coef_, single.coef_, atol=1e-6)
    assert_allclose(model.objective_, single.objective_, rtol=1e-8)


@pytest.mark.parametrize(
    ("kinds", "data"),
    [((MRNRegressor, PooledRegressor), DATA), ((MRNClassifier, PooledClassifier), CLASSES)],
)
def test_full_correlation_is_pooled_training_with_an_intercept_per_task(kinds, data):
    model = fit(kinds[0](strength=2.0, start=1 - 1e-9, n_updates=0, tolerance=1e-10), data)
    pooled = fit(kinds[1](strength=2.0, task_intercepts=True, tolerance=1e-10), data)

    expected = np.broadcast_to(pooled.coef_, model.coef_.shape)
    assert_allclose(model.coef_, expected, atol=1e-5)


def centered_rows(data):
    """Rows of every task without their mean, as intercepts leave them."""
    tasks = sorted(data.task_names)
    parts = [(data.X[data.tasks == name], data.y[data.tasks == name]) for name in tasks]
    return [(x - x.mean(axis=0), y - y.mean()) for x, y in parts]


FIXED_POINT = {
    "covariance_update": "trace",
    "shrinkage": 0.0,
    "jitter": 0.0,
    "n_updates": None,
    "standardize": False,
}


def test_with_two_modes_and_the_trace_update_tasks_are_those_of_mtrl():
    """λ₂ = λ/N for (y − f)² with row weights N/(T n_t), where N = T for equal tasks."""
    strength, n_tasks = 0.5, 4
    data = make_related_tasks(n_tasks, [30, 20, 25, 40], 6, correlation=0.2, seed=1)
    settings = {"modes": ("task",), "task_weighting": "equal", **FIXED_POINT}

    model = fit(MRNRegressor(strength=strength, **settings), data)

    rows = centered_rows(data)
    weights = trace_norm_solution(
        rows, [1 / (n_tasks * len(y)) for _, y in rows], strength=strength / (2 * n_tasks**2)
    )
    mtrl = MTRLRegressor(
        strength=strength / n_tasks, ridge=0.0, task_weighting="equal", standardize=False
    )
    mtrl = fit(mtrl, data)
    assert model.converged_
    assert_allclose(model.coef_[:, 0], weights, atol=1e-5)
    assert_allclose(model.coef_, mtrl.coef_, atol=2e-3)
    assert_allclose(model.task_correlation_, mtrl.task_correlation_, atol=5e-3)
    # MTRL reports the sum over the tasks, which is T times the mean.
    assert_allclose(model.objective_ * n_tasks, mtrl.objective_, rtol=2e-6)


def test_with_two_modes_and_the_trace_update_inputs_are_those_of_mtfl():
    """γ = λ/(2F) for the summed loss, which is λ/(2 N F) beside the mean."""
    strength, n_features = 2.0, 6
    data = make_related_tasks(8, 30, n_features, correlation=0.5, seed=1)

    model = fit(MRNRegressor(strength=strength, modes=("input",), **FIXED_POINT), data)

    penalty = strength / (2 * len(data) * n_features)
    weights = trace_norm_solution(centered_rows(data), [1 / len(data)] * 8, strength=penalty)
    mtfl = fit(MTFLRegressor(strength=penalty, standardize=False), data)
    assert_allclose(model.coef_[:, 0], weights, atol=1e-5)
    assert_allclose(model.objective_, mtfl.objective_, rtol=2e-6)


@pytest.mark.parametrize("mean", ["zero", "task-average"])
def test_tasks_without_labels_follow_from_the_others(mean):
    y = DATA.y.copy()
    unknown = DATA.tasks == "task 2"
    y[unknown] = np.nan

    model = fit(MRNRegressor(strength=3.0, mean=mean, start=0.6), y=y)
    others = MRNRegressor(strength=3.0, mean=mean, start=0.6).fit(
        DATA.X[~unknown], DATA.y[~unknown], tasks=DATA.tasks[~unknown]
    )

    known = [0, 2, 3]
    assert_allclose(model.coef_[known], others.coef_, atol=1e-9)
    share = 0.6 / (1 + 2 * 0.6) if mean == "zero" else 1 / 3
    assert_allclose(model.coef_[1], share * others.coef_.sum(axis=0), atol=1e-9)
    for name in ("task_correlation_", "task_covariance_"):
        matrix = getattr(model, name)
        assert np.isnan(matrix[1]).all()
        assert_allclose(matrix[np.ix_(known, known)], getattr(others, name), atol=1e-9)
    assert np.isfinite(model.predict(DATA.X, tasks=DATA.tasks)).all()


def test_a_start_matrix_speaks_of_tasks_with_and_without_labels():
    y = np.where(DATA.tasks == "task 4", np.nan, DATA.y)
    start = np.eye(4)
    start[0, 3] = start[3, 0] = 0.8

    model = fit(MRNRegressor(start=start), y=y)

    scale = DATA.X.std(axis=0)
    assert_allclose(model.coef_[3] * scale, 0.8 * model.coef_[0] * scale, atol=1e-9)


def test_where_the_task_mode_is_off_unknown_weights_are_zero():
    y = np.where(DATA.tasks == "task 4", np.nan, DATA.y)

    for settings in (
        {"modes": ("input",)},
        {"shrinkage": {"task": 1.0}},
        {"shrinkage": (1, 1, 0.5)},
    ):
        model = fit(MRNRegressor(**settings), y=y)

        assert not model.coef_[3].any()
        assert model.task_correlation_[0, 1] == 0


def test_one_task_has_nothing_to_relate():
    model = MRNRegressor(strength=2.0, modes=("task",)).fit(DATA.X, DATA.y)
    single = SingleTaskRegressor(strength=2.0).fit(DATA.X, DATA.y)

    assert_allclose(model.coef_, single.coef_, atol=1e-8)
    assert model.task_correlation_.tolist() == [[1.0]]


@pytest.mark.parametrize(
    "settings", [{}, {"shrinkage_target": "constant-correlation"}, {"scale": "determinant"}]
)
def test_an_order_of_many_features_means_nothing(settings):
    data = make_related_tasks(3, 5, 40, seed=2)
    model = fit(MRNRegressor(**settings), data)

    permutation = np.random.default_rng(0).permutation(40)
    other = MRNRegressor(**settings).fit(data.X[:, permutation], data.y, tasks=data.tasks)

    assert_allclose(other.coef_, model.coef_[..., permutation], atol=1e-8)
    assert model.input_covariance_.shape == (40, 40)
    expected = model.input_covariance_[np.ix_(permutation, permutation)]
    assert_allclose(other.input_covariance_, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"shrinkage_target": "constant-correlation"}, False),
        ({"shrinkage_target": "constant-correlation", "modes": ("task", "output")}, True),
        ({"shrinkage_target": "constant-correlation", "shrinkage": {"input": 1.0}}, True),
        ({"inverse": "pseudo"}, False),
        ({"inverse": "pseudo", "modes": ("task",)}, True),
    ],
)
def test_the_span_of_the_rows_is_enough_unless_features_have_something_in_common(
    settings, expected
):
    assert lies_in_span(MRNRegressor(**settings)) is expected


@pytest.mark.parametrize("layers", ["all", "output", "hidden"])
def test_the_network_has_the_prior_of_the_settings(layers):
    model = MRNClassifier(layers=layers, hidden_sizes=(8,), start=0.3, share_task_covariance=True)

    plan = plan_network(model)

    assert plan.layers == layers
    assert plan.sharing == ("hidden" if layers == "output" else "none")
    assert plan.prior["start"] == 0.3
    assert plan.prior["share_task_covariance"] is True
    assert plan.prior["modes"] == ("task", "output", "input")


def test_output_layers_are_all_layers_of_linear_models():
    assert_allclose(fit(MRNRegressor(layers="output")).coef_, fit(MRNRegressor()).coef_)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"layers": "last"},
            ValueError,
            "`layers` must be one of 'all', 'output', 'hidden': got 'las",
        ),
        (
            {"layers": "hidden"},
            ValueError,
            r"no hidden layer: got 'hidden'. Use `hidden_sizes=\(256,\)`",
        ),
        (
            {"mean": "initial"},
            ValueError,
            "`mean` must be 'zero' or 'task-average' for linear models",
        ),
        ({"mean": "average"}, ValueError, "`mean` must be one of"),
        (
            {"share_task_covariance": "yes"},
            TypeError,
            "`share_task_covariance` must be True or False",
        ),
        (
            {"start": np.eye(3)},
            ValueError,
            r"`start` must be a number or a matrix.*\(4, 4\), got \(3, 3\)",
        ),
        ({"start": 1.5}, ValueError, "`start` must be a correlation that 4 tasks can have"),
        ({"modes": "task"}, TypeError, "`modes` must be a sequence of names: got 'task'"),
        ({"modes": ("tasks",)}, ValueError, "`modes` must be among"),
        ({"shrinkage": 2.0}, ValueError, "`shrinkage` must be from 0 to 1"),
        ({"n_updates": -1}, ValueError, "`n_updates` must be a whole number"),
        ({"scale": "fixed"}, ValueError, "`scale` must be one of"),
        ({"covariance_update": "root"}, ValueError, "`covariance_update` must be one of"),
        ({"jitter": -1.0}, ValueError, "`jitter` must be a number that is not negative"),
        ({"rank": 0}, ValueError, "`rank` must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        fit(MRNRegressor().set_params(**settings))


def test_tasks_with_their_own_classes_need_a_hidden_layer():
    y = np.where(CLASSES.tasks == "task 1", CLASSES.y + 10, CLASSES.y)

    with pytest.raises(ValueError, match=r"Use `hidden_sizes=\(256,\)`"):
        MRNClassifier(classes="per-task").fit(CLASSES.X, y, tasks=CLASSES.tasks)


def test_clones_have_the_same_settings_and_nothing_learned():
    model = fit(MRNRegressor(strength=2.0, modes=("task",), start=np.eye(4)))

    copy = clone(model)

    assert copy.get_params()["modes"] == ("task",)
    assert not hasattr(copy, "task_correlation_")


def test_pickles_hold_what_was_learned_and_no_rows():
    model = fit(MRNRegressor())

    copy = pickle.loads(pickle.dumps(model))

    assert_allclose(copy.task_correlation_, model.task_correlation_)
    assert not hasattr(copy, "_rows_of_fit")
    with pytest.raises(
        ValueError, match="`X` and `y` must be given where the rows of `fit` are gone"
    ):
        copy.relation_intervals()


def test_a_rank_keeps_the_largest_eigenvalues():
    model = fit(MRNRegressor(rank=1, shrinkage=0.1))

    values = np.linalg.eigvalsh(model.task_covariance_)
    assert_allclose(values[:3], values[0], atol=1e-10)
    assert values[3] > values[0]


def test_a_fixed_point_of_low_rank_is_found():
    """The root update shares its fixed points with MTRL, also where some directions vanish."""
    data = make_related_tasks(4, 35, 6, correlation=0.5, noise=2.0, seed=5)
    rows = {"X": data.X, "y": data.y, "tasks": data.tasks}
    equal = {"task_weighting": "equal"}
    for strength in (3.0, 10.0):
        mtrl = MTRLRegressor(strength=strength / 4, ridge=0.0, tolerance=1e-9, **equal).fit(**rows)
        mrn = MRNRegressor(
            modes=("task",), covariance_update="trace", shrinkage=0.0, n_updates=None, strength=strength,
            **equal,
        ).fit(**rows)  # fmt: skip
        values = np.linalg.svd(mtrl.coef_[:, 0] * mtrl.feature_scale_, compute_uv=False)
        assert values[-1] < 1e-6 * values[0]
        assert mrn.converged_
        error = np.abs(mrn.coef_ - mtrl.coef_).max()
        assert error < 0.01 * np.abs(mtrl.coef_).max()
