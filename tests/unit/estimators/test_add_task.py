"""A new task is learned with all else fixed: the smallest of each method's own objective."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from multirel.data import make_related_tasks
from multirel.estimators import (
    DMTLRegressor,
    MeanRegularizedRegressor,
    MRNClassifier,
    MRNRegressor,
    MTFLRegressor,
    MTRLClassifier,
    MTRLRegressor,
    PooledRegressor,
    RMTLRegressor,
    SharedNetworkRegressor,
    SingleTaskClassifier,
    SingleTaskRegressor,
    load_estimator,
)

T, F, NEW = 4, 6, "task 4"
EXACT = 1e-5


def rows(n_classes=None, seed=3):
    data = make_related_tasks(T, 25, F, n_classes=n_classes, correlation=0.8, seed=seed)
    known = data.tasks != NEW
    few = np.flatnonzero(~known)[:8]
    return data.select(known), data.select(few), data.select(~known)


def grown(estimator, n_classes=None):
    known, few, _ = rows(n_classes)
    estimator.fit(known.X, known.y, tasks=known.tasks)
    before = estimator.coef_.copy()
    assert estimator.add_task(few.X, few.y, name=NEW) is estimator
    np.testing.assert_array_equal(estimator.coef_[: T - 1], before)
    assert estimator.tasks_.tolist() == ["task 1", "task 2", "task 3", NEW]
    return estimator, known, few


def smallest(objective, size):
    """A minimizer by a method that needs no derivative, from several starts."""
    starts = np.random.default_rng(0).standard_normal((3, size))
    found = [
        minimize(objective, start, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
        for start in [np.zeros(size), *starts]
    ]
    return min(found, key=lambda result: result.fun)


def squared(z, y, v):
    return np.mean(np.square(y - z @ v[:F] - v[F]))


def standardized(estimator):
    """Weights of the known tasks and of the new one, as the penalty sees them."""
    weights = estimator.coef_[:, 0] * estimator.feature_scale_
    intercepts = estimator.intercept_[:, 0] + estimator.coef_[:, 0] @ estimator.feature_mean_
    return weights[:-1], np.append(weights[-1], intercepts[-1])


def assert_smallest(estimator, few, penalty, *, loss_factor=1.0):
    """No weights have a smaller loss plus penalty, both as sums over rows or as means."""
    z = (few.X - estimator.feature_mean_) / estimator.feature_scale_
    known, new = standardized(estimator)

    def objective(v):
        return loss_factor * squared(z, few.y, v) + penalty(known, v[:F])

    best = smallest(objective, F + 1)
    assert objective(new) <= best.fun * (1 + EXACT) + 1e-12
    np.testing.assert_allclose(new, best.x, atol=2e-3)


def test_single_tasks_are_fitted_on_their_own():
    estimator, _, few = grown(SingleTaskRegressor(strength=2.0))
    assert_smallest(estimator, few, lambda _, w: w @ w, loss_factor=8)


def test_the_average_of_mean_regularized_tasks_takes_part():
    settings = {"strength": 0.3, "ridge": 0.01, "task_weighting": "equal"}
    estimator, _, few = grown(MeanRegularizedRegressor(**settings))

    def penalty(known, w):
        every = np.vstack([known, w])
        return 0.3 * np.square(every - every.mean(axis=0)).sum() + 0.01 * np.square(every).sum()

    assert_smallest(estimator, few, penalty)


def test_rows_share_the_mean_loss_with_those_of_the_fit():
    estimator, known, few = grown(MeanRegularizedRegressor(strength=0.3, ridge=0.01))

    def penalty(others, w):
        every = np.vstack([others, w])
        return 0.3 * np.square(every - every.mean(axis=0)).sum() + 0.01 * np.square(every).sum()

    total = len(known.y) + len(few.y)
    assert estimator.total_weight_ == total
    assert_smallest(estimator, few, penalty, loss_factor=len(few.y) / total)


def test_pooled_tasks_have_their_weights_and_perhaps_an_intercept():
    estimator, _, few = grown(PooledRegressor(task_intercepts=True))
    np.testing.assert_allclose(estimator.coef_[-1], estimator.coef_[0])
    residual = few.y - few.X @ estimator.coef_[0, 0]
    assert estimator.intercept_[-1, 0] == pytest.approx(residual.mean())
    estimator, _, _ = grown(PooledRegressor(task_intercepts=False))
    assert estimator.intercept_[-1, 0] == pytest.approx(estimator.intercept_[0, 0])


def test_features_that_were_learned_stay_fixed():
    """γ wᵀ D⁺ w with D = (W Wᵀ)^½ / tr(·); here W has rank 3, so that w is a combination."""
    estimator, _, few = grown(MTFLRegressor(strength=0.05, task_weighting="equal"))
    known, new = standardized(estimator)
    left, values, _ = np.linalg.svd(known.T, full_matrices=False)
    root = left * np.sqrt(values / values.sum())
    z = (few.X - estimator.feature_mean_) / estimator.feature_scale_

    def objective(v):
        return np.mean(np.square(few.y - z @ root @ v[:-1] - v[-1])) + 0.05 * v[:-1] @ v[:-1]

    best = smallest(objective, root.shape[1] + 1)
    np.testing.assert_allclose(new[:F], root @ best.x[:-1], atol=1e-4)


def test_a_row_and_a_column_of_the_task_covariance_are_learned_with_the_weights():
    """Ω of the known tasks is fixed up to its share of the trace; objective (19) with all else fixed."""
    estimator, _, few = grown(MTRLRegressor(strength=0.05, ridge=0.02, task_weighting="equal"))
    known, new = standardized(estimator)
    values, vectors = np.linalg.eigh(known @ known.T)
    block = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    block /= np.trace(block)
    z = (few.X - estimator.feature_mean_) / estimator.feature_scale_
    every = np.linalg.inv(block)

    def penalty(w, row, share):
        """tr(W Ω⁻¹ Wᵀ) with Ω = [[(1−σ)Ω, ·], [·, σ]], and the row as (1−σ) Ω u."""
        others = (1 - share) * block
        rest = share - row @ others @ row
        if rest <= 0:
            return 1e10
        own = w - row @ known
        return np.trace(known.T @ every @ known) / (1 - share) + own @ own / rest

    def objective(v):
        w, row, share = v[:F], v[F + 1 : F + T], 1 / (1 + np.exp(-v[-1]))
        loss = squared(z, few.y, v)
        return loss + 0.01 * w @ w + 0.025 * penalty(w, row, share)

    start = np.concatenate([new, np.zeros(T - 1), [0.0]])
    best = minimize(
        objective, start, method="Nelder-Mead", options={"maxfev": 40_000, "maxiter": 40_000}
    )
    best = minimize(objective, best.x, method="BFGS", options={"gtol": 1e-8})
    learned = estimator.task_covariance_ / np.trace(estimator.task_covariance_)
    share = learned[-1, -1]
    row = np.linalg.solve((1 - share) * block, learned[:-1, -1])
    np.testing.assert_allclose(learned[:-1, :-1], (1 - share) * block, atol=1e-6)
    mine = squared(z, few.y, new) + 0.01 * new[:F] @ new[:F] + 0.025 * penalty(new[:F], row, share)
    assert mine <= best.fun * (1 + 1e-6)


def test_robust_tasks_have_a_part_in_the_shared_space_and_one_of_their_own():
    settings = {"strength": 0.1, "outlier_strength": 0.2, "task_weighting": "equal"}
    estimator, _, few = grown(RMTLRegressor(**settings))
    shared = estimator.shared_coef_[:, 0] * estimator.feature_scale_
    own = estimator.outlier_coef_[:, 0] * estimator.feature_scale_
    left, values, _ = np.linalg.svd(shared[:-1].T, full_matrices=False)
    root = (left * np.sqrt(values))[:, values > 1e-9 * values[0]]
    z = (few.X - estimator.feature_mean_) / estimator.feature_scale_
    k = root.shape[1]

    def objective(v):
        a, s, b = v[:k], v[k:-1], v[-1]
        loss = np.mean(np.square(few.y - z @ (root @ a + s) - b))
        return loss + 0.1 / 2 * a @ a + 0.2 * np.sqrt(s @ s + 1e-16)

    best = smallest(objective, k + F + 1)
    a = np.linalg.lstsq(root, shared[-1], rcond=None)[0]
    np.testing.assert_allclose(root @ a, shared[-1], atol=1e-8)
    new = standardized(estimator)[1]
    mine = objective(np.concatenate([a, own[-1], new[-1:]]))
    assert mine <= best.fun * (1 + EXACT)


def test_a_task_that_is_no_outlier_has_no_part_of_its_own():
    settings = {"strength": 0.1, "outlier_strength": 50.0, "task_weighting": "equal"}
    estimator, _, _ = grown(RMTLRegressor(**settings))
    assert not estimator.outlier_coef_[-1].any()
    assert NEW not in estimator.outlier_tasks_


def test_factors_that_tasks_share_stay_fixed():
    estimator, _, few = grown(DMTLRegressor(strength=1.0, ranks=(2, 1, 3)))
    known, new = standardized(estimator)
    _, values, basis = np.linalg.svd(known, full_matrices=False)
    basis = basis[values > 1e-9 * values[0]]
    assert len(basis) == 2
    z = (few.X - estimator.feature_mean_) / estimator.feature_scale_

    def objective(v):
        return np.sum(np.square(few.y - z @ basis.T @ v[:2] - v[2])) + 0.5 * v[:2] @ v[:2]

    best = smallest(objective, 3)
    np.testing.assert_allclose(new[:F], basis.T @ best.x[:2], atol=1e-4)


@pytest.mark.parametrize("mean", ["zero", "task-average"])
def test_the_prior_given_the_other_tasks_says_what_a_new_one_is_like(mean):
    """With Σ_T = (1−ρ) I + ρ of all tasks, and the input covariance that was learned."""
    estimator, _, few = grown(MRNRegressor(strength=4.0, start=0.6, mean=mean))
    covariance = 0.4 * np.eye(T) + 0.6
    precision = np.linalg.inv(covariance)
    if mean == "task-average":
        center = np.eye(T) - 1 / T
        precision = center @ precision @ center
    inner = np.linalg.inv(estimator.input_covariance_)

    def penalty(known, w):
        every = np.vstack([known, w])
        return 4.0 / 2 * np.einsum("ti,ts,sj,ij->", every, precision, every, inner)

    assert_smallest(estimator, few, penalty, loss_factor=8)
    assert np.isnan(estimator.task_correlation_[-1]).all()
    assert not np.isnan(estimator.task_correlation_[:-1, :-1]).any()


def test_classes_are_told_apart_under_the_covariance_of_outputs_that_was_learned():
    estimator, _, few = grown(MRNClassifier(strength=2.0, start=0.5), n_classes=3)
    weights = estimator.coef_ * estimator.feature_scale_
    intercepts = estimator.intercept_ + estimator.coef_ @ estimator.feature_mean_
    precision = np.linalg.inv(0.5 * np.eye(T) + 0.5)
    outer = np.linalg.inv(estimator.output_covariance_)
    inner = np.linalg.inv(estimator.input_covariance_)
    z = (few.X - estimator.feature_mean_) / estimator.feature_scale_

    def objective(v):
        w, b = v[: 3 * F].reshape(3, F), v[3 * F :]
        every = np.concatenate([weights[:-1], w[None]])
        loss = -log_softmax(z @ w.T + b, axis=1)[np.arange(len(z)), few.y].sum()
        moved = np.einsum("ts,sdj,dc,ji->tci", precision, every, outer, inner, optimize=True)
        return loss + np.sum(every * moved)

    mine = objective(np.concatenate([weights[-1].ravel(), intercepts[-1]]))
    assert mine <= smallest(objective, 3 * F + 3).fun * (1 + EXACT)


def test_few_labels_are_enough_where_tasks_are_related():
    known, few, every = rows(seed=8)
    alone = SingleTaskRegressor().fit(few.X, few.y, tasks=few.tasks)
    model = MRNRegressor().fit(known.X, known.y, tasks=known.tasks).add_task(few.X, few.y, name=NEW)
    score = model.score(every.X, every.y, tasks=every.tasks)
    assert score > alone.score(every.X, every.y, tasks=every.tasks) + 0.05


@pytest.mark.parametrize(
    ("classifier", "n_classes"),
    [(SingleTaskClassifier, 2), (SingleTaskClassifier, 3), (MTRLClassifier, 3)],
)
def test_classes_of_a_new_task_are_predicted(classifier, n_classes):
    estimator, _, few = grown(classifier(strength=0.1), n_classes)
    assert estimator.score(few.X, few.y, tasks=few.tasks) > 0.6
    known, few, _ = rows(n_classes)
    if classifier is SingleTaskClassifier:
        both = np.append(known.tasks, few.tasks)
        settings = {"strength": 0.1, "standardize": False, "tolerance": 1e-12}
        together = classifier(**settings)
        together.fit(np.vstack([known.X, few.X]), np.append(known.y, few.y), tasks=both)
        apart = classifier(**settings).fit(known.X, known.y, tasks=known.tasks)
        apart.add_task(few.X, few.y, name=NEW)
        np.testing.assert_allclose(apart.coef_, together.coef_, atol=1e-5)


def test_rows_that_do_not_count_are_left_out_and_weights_are_repetitions():
    known, few, _ = rows()
    fitted = [SingleTaskRegressor().fit(known.X, known.y, tasks=known.tasks) for _ in range(2)]
    y = np.where(np.arange(8) == 3, np.nan, few.y)
    fitted[0].add_task(few.X, y, name=NEW, sample_weight=[2, 0, 1, 1, 1, 1, 1, 1])
    index = [0, 0, 2, 4, 5, 6, 7]
    fitted[1].add_task(few.X[index], few.y[index], name=NEW)
    np.testing.assert_allclose(fitted[0].coef_, fitted[1].coef_)
    assert fitted[0].total_weight_ == fitted[1].total_weight_


def test_a_grown_estimator_is_saved_and_loaded(tmp_path):
    estimator, _, few = grown(MRNRegressor())
    estimator.save(tmp_path / "model")
    loaded = load_estimator(tmp_path / "model")
    expected = estimator.predict(few.X, tasks=few.tasks)
    np.testing.assert_array_equal(loaded.predict(few.X, tasks=few.tasks), expected)


def test_names_of_another_type_may_be_added():
    known, few, _ = rows()
    estimator = SingleTaskRegressor().fit(known.X, known.y, tasks=known.tasks)
    estimator.add_task(few.X, few.y, name=7)
    assert estimator.tasks_.tolist() == ["task 1", "task 2", "task 3", 7]
    assert estimator.predict(few.X[:1], tasks=[7]).shape == (1,)


class TestErrors:
    def fitted(self, n_classes=None, **settings):
        known, few, _ = rows(n_classes)
        make = SingleTaskRegressor if n_classes is None else SingleTaskClassifier
        return make(**settings).fit(known.X, known.y, tasks=known.tasks), few

    def test_a_name_that_is_taken(self):
        estimator, few = self.fitted()
        with pytest.raises(ValueError, match="`name` must be that of a new task: got 'task 1'"):
            estimator.add_task(few.X, few.y, name="task 1")

    def test_a_network(self):
        known, few, _ = rows()
        network = SharedNetworkRegressor(max_epochs=1).fit(known.X, known.y, tasks=known.tasks)
        with pytest.raises(
            ValueError, match=r"`add_task` needs linear models, with `hidden_sizes=\(\)`"
        ):
            network.add_task(few.X, few.y, name=NEW)

    def test_other_classes(self):
        estimator, few = self.fitted(n_classes=2)
        with pytest.raises(
            ValueError, match="must hold classes of `fit`: expected some of 0, 1, got 5"
        ):
            estimator.add_task(few.X, np.full(8, 5), name=NEW)

    def test_own_classes(self):
        known, few, _ = rows(2)
        own = np.char.add(known.tasks, known.y.astype(str))
        estimator = SingleTaskClassifier().fit(known.X, own, tasks=known.tasks)
        with pytest.raises(ValueError, match="`add_task` needs tasks that all predict the same"):
            estimator.add_task(few.X, few.y, name=NEW)

    def test_no_labels(self):
        estimator, few = self.fitted()
        with pytest.raises(
            ValueError, match="must hold a label that counts: got none in 8 rows. A task"
        ):
            estimator.add_task(few.X, np.full(8, np.nan), name=NEW)

    def test_another_number_of_labels(self):
        estimator, few = self.fitted()
        with pytest.raises(
            ValueError, match=r"must hold a label per row of X: expected shape \(8,\)"
        ):
            estimator.add_task(few.X, few.y[:3], name=NEW)

    def test_rows_of_other_tasks(self):
        known, _, _ = rows()
        table = np.column_stack([known.X, known.tasks]).astype(object)
        estimator = SingleTaskRegressor(task_column=F).fit(table, known.y)
        with pytest.raises(
            ValueError, match="must hold rows of the task 'task 4' only: got one of 'task 1'"
        ):
            estimator.add_task(table[:1], known.y[:1], name=NEW)
