"""Histories: averages of epochs, arrays, comparison, round trip."""

import numpy as np

from multirel.training import History


def make_history(**options) -> History:
    return History(recipe={}, sampling="", n_samples=4.0, steps_per_epoch=2, **options)


def test_epochs_average_their_steps_and_the_last_may_be_short():
    history = make_history(loss=[4.0, 2.0, 1.0], epoch_end=[2, 3])
    assert history.epoch_loss == [3, 1]
    assert (history.n_steps, history.n_epochs) == (3, 2)


def test_a_history_becomes_arrays():
    history = make_history(
        loss=[4.0, 2.0],
        learning_rate=[0.2, 0.1],
        epoch_end=[2],
        penalty=[0.5],
        validation_score=[-1.0],
        seconds=[9.0],
    )
    arrays = history.to_arrays()
    assert sorted(arrays) == [
        "epoch_end",
        "epoch_loss",
        "learning_rate",
        "loss",
        "penalty",
        "seconds",
        "validation_score",
    ]
    np.testing.assert_array_equal(arrays["loss"], [4, 2])
    np.testing.assert_array_equal(arrays["epoch_loss"], [3])


def test_time_counts_for_no_comparison():
    assert make_history(seconds=[1.0]) == make_history(seconds=[2.0])
    assert make_history(loss=[1.0]) != make_history(loss=[2.0])


def test_a_history_goes_through_tensors():
    history = make_history(
        loss=[4.0], learning_rate=[0.1], epoch_end=[1], penalty=[0.0], seconds=[1.0]
    )
    other = make_history()
    other.load_state_dict(history.state_dict())
    assert other == history
    assert other.seconds == [1.0]
    assert other.epoch_end == [1]
