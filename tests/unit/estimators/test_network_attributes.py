"""What estimators show of trained networks."""

import numpy as np
import pytest

from multirel.estimators import MRNClassifier
from tests.unit.estimators.network_builders import (
    PLANS,
    PlannedClassifier,
    fit,
    make_data,
)

SETTINGS = {"hidden_sizes": (6,), "max_epochs": 5, "random_state": 0}


@pytest.mark.parametrize("layers", ["all", "output"])
def test_relations_of_the_output_layer_are_the_priors_own(layers: str):
    estimator = fit(MRNClassifier(layers=layers, **SETTINGS), make_data())
    prior = estimator.prior_
    for mode in ("task", "output", "input"):
        found = getattr(estimator, f"{mode}_correlation_")
        np.testing.assert_allclose(
            found, prior.correlations("heads.fc8", mode, raw=True), rtol=1e-4, atol=1e-5
        )
    assert np.trace(estimator.task_covariance_) == pytest.approx(3, rel=1e-5)
    assert estimator.n_updates_ == 1


def test_relations_of_hidden_layers_are_those_of_what_training_has_changed():
    estimator = fit(MRNClassifier(layers="hidden", **SETTINGS), make_data())
    changed = estimator.prior_.correlations("heads.fc7")
    np.testing.assert_allclose(estimator.task_correlation_, changed, rtol=1e-4, atol=1e-5)
    assert not np.allclose(changed, estimator.prior_.correlations("heads.fc7", raw=True))
    assert estimator.input_correlation_.shape == (4, 4)


def test_tasks_without_labels_have_no_relations():
    data = make_data()
    y = np.where(data.task == 1, np.nan, data.y)
    estimator = MRNClassifier(**SETTINGS).fit(data.x, y, tasks=data.tasks)
    for matrix in (estimator.task_correlation_, estimator.task_covariance_):
        assert np.isnan(matrix[1]).all()
        assert np.isnan(matrix[:, 1]).all()
        assert np.isfinite(matrix[np.ix_([0, 2], [0, 2])]).all()


def test_one_task_is_related_to_itself():
    data = make_data()
    estimator = MRNClassifier(**SETTINGS).fit(data.x, data.y)
    np.testing.assert_array_equal(estimator.task_correlation_, [[1.0]])
    assert estimator.correlations_ == {}
    assert estimator.n_updates_ == 0


@pytest.mark.parametrize("name", ["single", "shared", "pooled", "laf"])
def test_methods_that_relate_no_weights_show_no_relations(name: str):
    estimator = fit(PlannedClassifier(plan=PLANS[name], max_epochs=2), make_data())
    assert not hasattr(estimator, "correlations_")
    assert not hasattr(estimator, "relations_")
    assert estimator.n_iter_ > 0
