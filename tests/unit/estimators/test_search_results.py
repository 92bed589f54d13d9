"""The table of a search, ties, and what is chosen from it."""

import numpy as np
import pytest

from multirel.estimators._search_results import choose, table_of
from multirel.estimators._search_split import Outcome

NAN = float("nan")


def table(scores, losses=None, settings=None):
    """The table of scores, a row per split."""
    scores = np.asarray(scores, dtype=float)
    losses = np.zeros_like(scores) if losses is None else np.broadcast_to(losses, scores.shape)
    settings = settings or [{"strength": float(k)} for k in range(scores.shape[1])]
    outcomes = [
        [
            Outcome(
                number=number,
                score=score,
                loss=loss,
                n_undefined=int(np.isnan(score)),
                seconds=0.5,
                converged=number != 1,
            )
            # The order in which candidates were fitted does not count.
            for number, (score, loss) in reversed(list(enumerate(zip(*row, strict=True))))
        ]
        for row in zip(scores, losses, strict=True)
    ]
    return table_of(settings, outcomes)


def test_the_best_mean_is_chosen():
    results = table([[0.1, 0.5, 0.4], [0.2, 0.7, 0.9]])
    assert results["mean_test_score"].tolist() == pytest.approx([0.15, 0.6, 0.65])
    assert results["rank_test_score"].tolist() == [3, 2, 1]
    assert results["all_converged"].tolist() == [True, False, True]
    assert choose(results, "best")[0] == 2


def test_ties_go_to_the_smaller_loss_and_then_to_the_first():
    results = table([[0.5, 0.5, 0.5]], losses=[0.3, 0.1, 0.2])
    assert results["rank_test_score"].tolist() == [3, 1, 2]
    assert choose(results, "best")[0] == 1
    results = table([[0.5, 0.5, 0.4]], losses=[0.1, 0.1, 0.1])
    assert results["rank_test_score"].tolist() == [1, 1, 3]
    assert choose(results, "best")[0] == 0


def test_roundoff_breaks_no_tie():
    results = table([[0.5 + 1e-15, 0.5]], losses=[0.3, 0.1])
    assert choose(results, "best")[0] == 1


def test_splits_without_a_score_are_left_out():
    results = table([[0.1, 0.5], [NAN, NAN], [0.3, 0.7]])
    assert results["mean_test_score"].tolist() == pytest.approx([0.2, 0.6])
    assert results["n_undefined"].tolist() == [1, 1]
    assert results["standard_error_test_score"].tolist() == pytest.approx([0.1, 0.1])
    nowhere = table([[0.1, NAN], [0.2, NAN]])
    assert nowhere["rank_test_score"].tolist() == [1, 2]
    assert choose(nowhere, "average")[1].tolist() == [0]


def test_what_all_splits_have_in_common_does_not_count_as_error():
    """Scores vary from split to split by far more than their differences do."""
    level = np.array([0.0, 0.3, 0.6, 0.9])[:, None]
    difference = np.array([[0.0, -0.02], [0.0, -0.01], [0.0, -0.02], [0.0, -0.01]])
    results = table(level + difference)
    assert results["standard_error_test_score"][0] > 0.1
    assert results["standard_error_difference"][1] == pytest.approx(0.01 / np.sqrt(12))
    assert results["is_near_best"].tolist() == [True, False]


def test_the_simplest_of_those_as_good_as_the_best_is_chosen():
    scores = np.array(
        [[0.45, 0.52, 0.51, 0.10], [0.55, 0.59, 0.62, 0.20], [0.50, 0.56, 0.54, 0.15]]
    )
    results = table(scores)
    assert results["is_near_best"].tolist() == [False, True, True, False]
    assert choose(results, "one-se")[0] == 2
    assert choose(results, "one-se")[1].tolist() == [2]
    best, averaged = choose(results, "average")
    assert best == results["rank_test_score"].argmin()
    assert averaged.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("simple", "other"),
    [
        ({"strength": 10.0}, {"strength": 1.0}),
        ({"hidden_sizes": (), "strength": 1.0}, {"hidden_sizes": (8,), "strength": 5.0}),
        ({"hidden_sizes": (4,)}, {"hidden_sizes": (8,)}),
        (
            {"strength": 1.0, "shrinkage": {"task": 0.3}},
            {"strength": 1.0, "shrinkage": {"task": 0.1}},
        ),
        ({"strength": 1.0, "start": 0.6}, {"strength": 1.0, "start": 0.3}),
        ({"task_intercepts": False}, {"task_intercepts": True}),
        ({"n_updates": 0}, {"n_updates": 1}),
        ({"ridge": 2.0}, {"ridge": 1.0}),
    ],
    ids=str,
)
def test_what_is_held_back_more_is_simpler(simple: dict, other: dict):
    for settings in ([simple, other], [other, simple]):
        results = table([[0.5, 0.5]], settings=settings)
        assert results["params"][choose(results, "one-se")[0]] == simple


def test_settings_that_not_all_candidates_have_are_masked():
    results = table([[0.1, 0.2]], settings=[{"strength": 1.0}, {"start": 0.3}])
    assert results["param_strength"].mask.tolist() == [False, True]
    assert results["param_start"].mask.tolist() == [True, False]


def test_no_score_at_all_says_what_to_do():
    with pytest.raises(
        ValueError, match="got no score of any task in 2 splits. Use another metric"
    ):
        table([[NAN, NAN], [NAN, NAN]])
