"""Early stopping: patience, ties, and the state that is kept."""

import torch

from multirel.training._early_stopping import EarlyStopping


def follow(stopping: EarlyStopping, scores) -> list[bool]:
    """Whether it is over after each score."""
    found = []
    for number, score in enumerate(scores):
        if stopping.is_better(score):
            stopping.keep({"epoch": torch.tensor(number)})
        found.append(stopping.is_over)
    return found


def test_patience_counts_epochs_since_the_best_and_ties_are_not_better():
    stopping = EarlyStopping(2)
    assert follow(stopping, [-3, -2, -2, -1, -1, -4]) == [False] * 5 + [True]
    assert (stopping.best_epoch, stopping.best_score) == (4, -1)
    assert stopping.best_state["epoch"] == 3


def test_without_patience_nothing_ends_or_is_kept():
    stopping = EarlyStopping(None)
    assert follow(stopping, [-1, -2, float("nan")]) == [False] * 3
    assert stopping.best_state == {}


def test_what_is_kept_does_not_change_with_the_weights():
    stopping = EarlyStopping(1)
    weight = torch.ones(2)
    stopping.keep({"weight": weight})
    weight.zero_()
    assert stopping.best_state["weight"].tolist() == [1, 1]


def test_it_goes_through_tensors():
    stopping, other = EarlyStopping(2), EarlyStopping(2)
    follow(stopping, [-3, -2, -4])
    other.load_state_dict(stopping.state_dict())
    assert other.best_state.keys() == {"epoch"}
    assert follow(other, [-5]) == follow(stopping, [-5]) == [True]
