"""Docstrings of estimators: what every setting and every learned attribute means is written once."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import cleandoc
from textwrap import fill
from typing import Any, TypeVar

__all__ = ["ATTRIBUTES", "SETTINGS", "documented"]

Class = TypeVar("Class", bound=type)

WIDTH = 101

OF_CLASSIFIERS = ("classes_", "multi_class_", "kinds_")
"""Attributes that regressors do not have."""

SETTINGS: Mapping[str, str] = {
    "strength": "The multiplier λ of the penalty.",
    "hidden_sizes": "Sizes of the hidden layers; () is a linear model.",
    "backbone": "A module, or the name of one for `build_backbone`, that turns images into features.",
    "weights": "File with the weights of a backbone that is given by its name.",
    "max_epochs": "Epochs that a network is trained.",
    "batch_size": "Rows per step of training.",
    "learning_rate": "Rate at the start of training.",
    "standardize": "Whether features are brought to mean 0 and deviation 1, by all training rows together; "
    "sparse features are only scaled.",
    "task_column": "The name or number of a column of X that holds the tasks; it is taken out of the "
    "features.",
    "task_weighting": '"rows": every row counts the same; "equal": every task does.',
    "loss": '"logistic", or "squared": (y − f)² with ±1 for the classes.',
    "class_weight": 'What rows of every class count: a mapping, "balanced", or None for 1.',
    "classes": 'Whether tasks have the same classes, "shared" or "per-task"; None guesses "per-task" where '
    "no two tasks have one in common.",
    "kinds": 'Tasks that predict numbers: a mapping from task to "regression". They are related to the '
    "others by hidden layers.",
    "tolerance": "Largest relative gap to the smallest objective.",
    "random_state": "Seed of everything that is drawn.",
    "device": "Where backbones and networks run; linear problems are solved on the CPU.",
    "verbose": "Whether to show progress, and what is in `notes_`, on the error stream.",
    "missing_label": "A label that stands for no label, beside NaN and None.",
}
"""What a setting means, unless an estimator says more."""

ATTRIBUTES: Mapping[str, str] = {
    "tasks_": "The names of the tasks, (T,).",
    "task_counts_": "How many rows of every task had a label and counted, (T,).",
    "total_weight_": "The sum N of the weights of the rows.",
    "classes_": "The classes, (C,), of the type that the labels have: with NaN among them whole numbers are "
    "floats. A list with those of every task where tasks have their own.",
    "multi_class_": 'How classes are told apart: "binary", "softmax", or "one-vs-rest".',
    "kinds_": "What every task predicts.",
    "coef_": "Weights of linear models in the user's units, (T, C, F), with C = 1 for numbers and for two "
    "classes; a list where tasks have different classes.",
    "intercept_": "Intercepts of linear models, (T, C).",
    "feature_mean_": "What is taken off every feature before it is divided, (F,).",
    "feature_scale_": "What every feature is divided by, (F,).",
    "n_features_in_": "The number of columns of X, with that of the tasks.",
    "feature_names_in_": "The names of the columns of X, where all are text.",
    "notes_": "Sentences about choices that were made for the user.",
    "objective_": "The objective at the end.",
    "gap_": "A certified bound on how far the objective is above its smallest value, relative to it.",
    "n_iter_": "Iterations of the solver.",
    "converged_": "Whether the gap came down to `tolerance`.",
}
"""What a learned attribute is, unless an estimator says more."""


def documented(
    *, settings: Mapping[str, str] | None = None, attributes: Mapping[str, str] | None = None
) -> Callable[[Class], Class]:
    """A decorator that adds the sections "Args" and "Attributes" to the docstring of an estimator.

    Args:
        settings: Settings that mean more here than `SETTINGS` says.
        attributes: Attributes beside those that all estimators have, or that mean more here.
    """

    def decorate(cls: Class) -> Class:
        means = {**SETTINGS, **(settings or {})}
        args = {field.name: means[field.name] for field in fields(cls)}
        learned = {**ATTRIBUTES, **(attributes or {})}
        if "class_weight" not in args:
            learned = {name: text for name, text in learned.items() if name not in OF_CLASSIFIERS}
        text, heading, example = cleandoc(cls.__doc__ or "").partition("\nExample:\n")
        parts = [text.rstrip(), _section("Args", args), _section("Attributes", learned)]
        cls.__doc__ = (
            "\n\n".join([*parts, *([heading.lstrip() + example] if heading else [])]) + "\n"
        )
        return cls

    return decorate


def _section(title: str, entries: Mapping[str, Any]) -> str:
    lines = [
        fill(
            f"{name}: {text}",
            WIDTH,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
            break_on_hyphens=False,
        )
        for name, text in entries.items()
    ]
    return "\n".join([f"{title}:", *lines])
