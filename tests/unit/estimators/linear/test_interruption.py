"""Ctrl-C during a linear fit leaves a fit that can be used."""

import signal
import threading

import numpy as np
import pytest

from multirel import estimators
from multirel.data import make_related_tasks
from multirel.estimators._linear._interruption import interruptible, is_interrupted
from multirel.exceptions import MultirelWarning

LINEAR = ("SingleTask", "Pooled", "MeanRegularized", "MTFL", "RMTL", "MTRL", "DMTL", "MRN")


def press_at_first_step(monkeypatch) -> None:
    """Press Ctrl-C as soon as a solver multiplies features with weights."""
    from multirel.estimators._linear import Design

    products = Design.products
    pressed = []

    def press(self, weights):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return products(self, weights)

    monkeypatch.setattr(Design, "products", press)


@pytest.mark.parametrize("family", LINEAR)
def test_ctrl_c_leaves_a_fit_that_predicts(family: str, monkeypatch):
    data = make_related_tasks(4, 60, 5, n_classes=3, seed=1)
    estimator = getattr(estimators, f"{family}Classifier")()
    press_at_first_step(monkeypatch)
    with pytest.warns(MultirelWarning, match="was interrupted: it keeps the weights"):
        estimator.fit(data.X, data.y, tasks=data.tasks)
    assert not estimator.converged_
    assert np.isfinite(estimator.coef_).all()
    assert set(estimator.predict(data.X, tasks=data.tasks)) <= {0, 1, 2}


def test_a_second_ctrl_c_ends_at_once():
    def press_twice() -> None:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
            assert is_interrupted()
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert not is_interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_that_handles_ctrl_c_goes_on_doing_so(monkeypatch):
    seen = []
    previous = signal.signal(signal.SIGINT, lambda *_: seen.append(True))
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
            assert not is_interrupted()
    finally:
        signal.signal(signal.SIGINT, previous)
    assert seen == [True]


def test_threads_fit_without_handlers():
    data = make_related_tasks(3, 30, 4)
    found = []

    def fit() -> None:
        estimator = estimators.MRNRegressor().fit(data.X, data.y, tasks=data.tasks)
        found.append(estimator.converged_)

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert found == [True]
