"""Targets, losses and outputs of networks."""

import numpy as np
import pytest

from multirel.estimators._network_targets import encode_targets
from tests.unit.estimators.network_builders import make_data, make_rows

CLASSES = np.arange(3)


def test_two_classes_are_one_output_with_the_binary_loss():
    targets = encode_targets(make_rows(make_data(1)), loss="logistic")
    assert targets.n_outputs == (1, 1, 1)
    assert targets.losses == ("binary",) * 3
    assert set(targets.y.tolist()) == {0.0, 1.0}


def test_more_classes_have_an_output_each():
    data = make_data(3)
    targets = encode_targets(make_rows(data), loss="logistic")
    assert targets.n_outputs == (3, 3, 3)
    assert targets.losses == ("cross-entropy",) * 3
    np.testing.assert_array_equal(targets.y, data.y)
    assert targets.loss_scale == 1


def test_the_squared_loss_of_classes_has_signs_as_targets():
    data = make_data(3)
    y = encode_targets(make_rows(data), loss="squared").y.numpy()
    np.testing.assert_array_equal(y, 2.0 * (data.y[:, None] == np.arange(3)) - 1)
    binary = make_data(1)
    y = encode_targets(make_rows(binary), loss="squared").y.numpy()
    np.testing.assert_array_equal(y[:, 0], 2 * binary.y - 1)


def test_columns_that_a_task_does_not_have_are_unknown_to_the_squared_loss():
    data = make_data(3)
    y = np.where(data.task == 0, data.y % 2, data.y)
    rows = make_rows(data, y=y.astype(float), classes_of=(CLASSES[:2], CLASSES, CLASSES))
    targets = encode_targets(rows, loss="squared")
    assert targets.n_outputs == (1, 3, 3)
    found = targets.y.numpy()[data.task == 0]
    assert np.isnan(found[:, 1:]).all()
    assert set(found[:, 0]) == {-1.0, 1.0}


def test_numbers_have_the_mean_of_their_task_and_one_scale():
    """Their loss is that of the user's numbers over the square of the scale."""
    data = make_data(None)
    rows = make_rows(data, y=data.y + 100 * data.task)
    targets = encode_targets(rows, loss="squared")
    y = targets.y.numpy()[:, 0]
    for task in range(3):
        assert y[data.task == task].mean() == pytest.approx(0, abs=1e-6)
    assert y.std() == pytest.approx(1, rel=1e-6)
    assert len(set(targets.scale)) == 1
    assert targets.loss_scale == pytest.approx(targets.scale[0] ** 2)
    back = y * targets.scale[data.task] + targets.center[data.task]
    np.testing.assert_allclose(back, rows.y, rtol=1e-5)


def test_without_intercepts_of_tasks_numbers_have_one_mean():
    data = make_data(None)
    rows = make_rows(data, y=data.y + 100 * data.task)
    targets = encode_targets(rows, loss="squared", has_task_intercepts=False)
    np.testing.assert_allclose(targets.center, rows.y.mean())


def test_weights_count_in_means_and_scales():
    data = make_data(None)
    weight = np.random.default_rng(0).integers(0, 3, len(data.y)).astype(float)
    rows = make_rows(data, weight=weight)
    index = np.repeat(np.arange(len(data.y)), weight.astype(int))
    targets = encode_targets(rows, loss="squared")
    expected = [data.y[index][data.task[index] == task].mean() for task in range(3)]
    np.testing.assert_allclose(targets.center, expected)


def test_numbers_beside_classes_have_scales_of_their_own():
    data = make_data(None)
    y = np.where(data.task == 0, (data.y > 20) * 1.0, data.y * np.array([1, 1, 50])[data.task])
    rows = make_rows(
        data,
        y=y,
        kinds=("classification", "regression", "regression"),
        classes_of=(CLASSES[:2], None, None),
    )
    targets = encode_targets(rows, loss="logistic")
    assert targets.losses == ("binary", "squared", "squared")
    assert (targets.center[0], targets.scale[0]) == (0, 1)
    assert targets.scale[1:] == pytest.approx([y[data.task == t].std() for t in (1, 2)])
    assert targets.loss_scale == 1


def test_a_task_without_rows_has_the_average_of_the_others():
    data = make_data(None)
    kept = data.task != 1
    rows = make_rows(
        data,
        y=data.y[kept],
        task=data.task[kept],
        weight=np.ones(kept.sum()),
        source=np.flatnonzero(kept),
    )
    targets = encode_targets(rows, loss="squared")
    assert targets.center[1] == pytest.approx(targets.center[[0, 2]].mean())
    assert np.isfinite(targets.scale).all()


def test_constant_numbers_have_the_scale_one():
    data = make_data(None)
    targets = encode_targets(make_rows(data, y=np.full(len(data.y), 0.1)), loss="squared")
    np.testing.assert_array_equal(targets.scale, 1)
    np.testing.assert_allclose(targets.y, 0, atol=1e-12)
