"""The invented tasks of the demonstration."""

import numpy as np

from multirel.experiments._review_tasks import MODE_NAMES, REVIEW_LABELS, review_correlations


def test_every_mode_has_a_correlation_matrix_with_a_name_per_row():
    for labels, matrix in zip(REVIEW_LABELS, review_correlations(), strict=True):
        assert matrix.shape == (len(labels), len(labels))
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(matrix.diagonal(), 1.0)
        assert np.linalg.eigvalsh(matrix).min() > 0.05
    assert len(MODE_NAMES) == len(REVIEW_LABELS)


def test_returns_are_opposed_to_every_other_task():
    tasks = review_correlations()[0]

    assert REVIEW_LABELS[0][-1] == "returns"
    assert (tasks[-1, :-1] < 0).all()
    assert (tasks[:-1, :-1] > 0).all()
