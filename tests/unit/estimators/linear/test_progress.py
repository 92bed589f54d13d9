"""`verbose` shows a line per step of a solver, and nothing is shown without it."""

import re

import pytest

from multirel import estimators
from multirel.data import make_related_tasks

LINEAR = ("SingleTask", "Pooled", "MeanRegularized", "MTFL", "RMTL", "MTRL", "DMTL", "MRN")


@pytest.mark.parametrize("family", LINEAR)
def test_verbose_shows_how_far_a_fit_is(family: str, capsys):
    data = make_related_tasks(3, 40, 5, n_classes=2)
    estimator = getattr(estimators, f"{family}Classifier")
    estimator(verbose=True).fit(data.X, data.y, tasks=data.tasks)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.search(rf"{family}Classifier: .*relative (gap|residual) \d", shown.err)
    estimator().fit(data.X, data.y, tasks=data.tasks)
    assert capsys.readouterr().err == ""


def test_verbose_tells_of_updates(capsys):
    data = make_related_tasks(3, 40, 5)
    estimators.MRNRegressor(verbose=True, n_updates=2).fit(data.X, data.y, tasks=data.tasks)
    assert "MRNRegressor: update 2 of the covariances" in capsys.readouterr().err
