"""Settings that several estimators have, checked where `fit` begins."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

__all__ = ["check_settings"]

LOSSES = ("logistic", "squared")
COUNTS = ("max_epochs", "batch_size")
SWITCHES = ("standardize", "task_intercepts")


def check_settings(estimator: Any) -> None:
    """Refuse settings that make no sense, those of them that the estimator has.

    Raises:
        ValueError: If a setting does not fit; the message says what.
    """
    settings = vars(estimator)
    for name in ("strength", "ridge"):
        if name in settings:
            _check_number(name, settings[name], may_be_zero=True)
    for name in ("tolerance", "learning_rate"):
        if name in settings:
            _check_number(name, settings[name], may_be_zero=False)
    for name in COUNTS:
        if name in settings and not _is_count(settings[name]):
            raise ValueError(f"`{name}` must be a whole number above 0: got {settings[name]!r}.")
    for name in SWITCHES:
        if name in settings and not isinstance(settings[name], bool | np.bool_):
            raise ValueError(f"`{name}` must be True or False: got {settings[name]!r}.")
    if not isinstance(settings.get("verbose", False), Integral | np.bool_):
        raise ValueError(f"`verbose` must be True or False: got {settings['verbose']!r}.")
    if settings.get("weights") is not None and settings.get("backbone") is None:
        raise ValueError(
            f"`weights` must be None without a backbone: got {settings['weights']!r}. Name the backbone that "
            f"they belong to."
        )
    if "device" in settings:
        _check_device(settings["device"])
    # It refuses what is no seed.
    check_random_state(settings.get("random_state"))
    if "loss" in settings and settings["loss"] not in LOSSES:
        known = ", ".join(map(repr, LOSSES))
        raise ValueError(f"`loss` must be one of {known}: got {settings['loss']!r}.")
    if "hidden_sizes" in settings:
        _check_hidden_sizes(settings["hidden_sizes"])
    _check_task_column(settings.get("task_column"))
    kinds = settings.get("kinds")
    if kinds is not None and not isinstance(kinds, Mapping):
        raise ValueError(
            f"`kinds` must be a mapping from task to 'regression' or 'classification': got {kinds!r}."
        )


def _check_number(name: str, value: Any, *, may_be_zero: bool) -> None:
    # True is a number to Python.
    is_number = not isinstance(value, bool | np.bool_) and isinstance(value, Real)
    number = float(value) if is_number else float("nan")
    if not (np.isfinite(number) and (number > 0 or (may_be_zero and number == 0))):
        rule = "a finite number that is not negative" if may_be_zero else "a finite number above 0"
        raise ValueError(f"`{name}` must be {rule}: got {value!r}.")


def _check_device(device: Any) -> None:
    try:
        torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"`device` must be a device of torch, such as 'cpu' or 'cuda': got {device!r}."
        ) from None


def _check_task_column(column: Any) -> None:
    is_number = isinstance(column, Integral) and not isinstance(column, bool)
    if not (column is None or isinstance(column, str) or is_number):
        raise ValueError(
            f"`task_column` must be the name or number of a column, or None: got {column!r}."
        )


def _check_hidden_sizes(sizes: Any) -> None:
    is_sequence = isinstance(sizes, Sequence | np.ndarray) and not isinstance(sizes, str)
    if not is_sequence or not all(_is_count(size) for size in sizes):
        hint = f" Write `({sizes},)` for one layer." if _is_count(sizes) else ""
        raise ValueError(
            f"`hidden_sizes` must be a sequence of whole numbers above 0, or () for a linear model: got "
            f"{sizes!r}.{hint}"
        )


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) > 0
