"""Hard sharing as an estimator."""

import numpy as np
import pytest
from sklearn.base import clone

from multirel.estimators import SharedNetworkClassifier, SharedNetworkRegressor
from tests.unit.estimators.network_builders import fit, make_data, make_images, make_module

SETTINGS = {"hidden_sizes": (16,), "max_epochs": 40, "learning_rate": 0.05, "random_state": 0}


def test_classes_are_learned():
    data, new = make_data(), make_data(seed=1)
    estimator = fit(SharedNetworkClassifier(**SETTINGS), data)
    assert estimator.score(new.x, new.y, tasks=new.tasks) > 0.7
    assert estimator.prior_ is None


def test_numbers_are_learned():
    data, new = make_data(None), make_data(None, seed=1)
    estimator = fit(SharedNetworkRegressor(**SETTINGS), data)
    assert estimator.score(new.x, new.y, tasks=new.tasks) > 0.7


def test_hidden_layers_are_shared_and_heads_are_not():
    network = fit(SharedNetworkClassifier(**SETTINGS), make_data()).network_
    assert [*network.shared] == ["fc7"]
    weight = network.heads["fc8"].weight.detach()
    assert not np.allclose(weight[0], weight[1])


@pytest.mark.parametrize("make", [SharedNetworkClassifier, SharedNetworkRegressor])
def test_there_must_be_something_to_share(make):
    with pytest.raises(ValueError, match="`hidden_sizes` must have at least one layer"):
        fit(make(hidden_sizes=()), make_data())


def test_a_backbone_that_trains_is_something_to_share():
    data = make_images()
    settings = SETTINGS | {"hidden_sizes": (), "batch_size": 10}
    estimator = fit(SharedNetworkClassifier(backbone=make_module(), **settings), data)
    assert estimator.score(data.x, data.y, tasks=data.tasks) > 0.9


def test_settings_are_cloned():
    estimator = SharedNetworkClassifier(**SETTINGS)
    assert clone(estimator).get_params() == estimator.get_params()
