"""Making the class that searches for the settings of another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import cleandoc
from textwrap import fill
from typing import Any, TypeVar

from multirel.estimators._documentation import WIDTH
from multirel.estimators._search import SearchedEstimator
from multirel.estimators._search_grid import Grid, LinearGrid
from multirel.estimators._search_results import Selection

__all__ = ["twin_of"]

Twin = TypeVar("Twin", bound=type[SearchedEstimator])

SEARCH_SETTINGS: dict[str, tuple[Any, Any, str]] = {
    "grid": (
        Grid | None,
        None,
        "Values to try by setting, or a list of such mappings; None tries strengths, and values of the "
        "method's other settings where these are at their defaults, that suit the rows. Linear models are "
        "compared at a relative gap of 1e-4, or `tolerance` if that is larger. Several `hidden_sizes`, as in "
        "((), (256,)), are tried with each.",
    ),
    "cv": (
        Any,
        5,
        "The number of folds, in which every task and class has its share; where a class of a task has fewer "
        "rows than that, as many hold-outs are drawn; without `random_state` always the same. Or a splitter, "
        "or pairs of rows that train and "
        "rows held out. Rows of X are divided, also where y has a column per task.",
    ),
    "n_repeats": (int, 1, "How often the rows are divided anew."),
    "scoring": (
        str | Callable[..., float] | None,
        None,
        'What settings are chosen by: None for `score`, "accuracy", "roc-auc", "log-loss", '
        '"explained-variance", "r2" or "rmse" of every task, averaged over those that have it, with the sign '
        "that makes higher better; R² and explained variance are relative to the variance of all rows of a "
        "task, since that of a few held-out ones varies wildly; or a function of a fitted estimator, X and "
        "y, and `tasks` if given.",
    ),
    "selection": (
        Selection,
        "best",
        '"best"; "one-se": the simplest setting that is as good as the best by one standard error of their '
        'difference over the splits; "average": the average of the models of all these, which for linear '
        "ones is linear.",
    ),
    "n_jobs": (int | None, None, "Splits that run at the same time, as in joblib."),
}
"""Type, default and meaning of what a search adds to the settings of an estimator."""

SEVERAL: dict[str, Any] = {"hidden_sizes": Sequence[int] | Sequence[Sequence[int]]}
"""Types of settings of which there may be several to choose from, whatever the grid."""

SEARCH_ATTRIBUTES = {
    "best_estimator_": "The estimator with the chosen settings, fitted to all rows; with "
    '`selection="average"` its model, `coef_` and `intercept_` are averages and the rest is that of the best '
    "setting.",
    "best_params_": "The chosen settings.",
    "best_score_": "Their mean score over the splits.",
    "best_index_": "Their row in `cv_results_`.",
    "averaged_": "The rows of `cv_results_` whose models make the predictions.",
    "cv_results_": "A column per name, as in scikit-learn: settings, scores of every split, their mean, "
    "standard deviation and standard error, ranks with ties broken by `mean_test_loss`, the difference to "
    "the best and its standard error, tasks without a score (`n_undefined`), and times.",
    "cv_protocol_": "How the splits were made, and why there were no folds.",
    "refit_time_": "Seconds of the fit to all rows.",
}


def twin_of(estimator_class: type[Any], *, grid: LinearGrid) -> Callable[[Twin], Twin]:
    """A decorator that gives a class the settings of an estimator and those of a search.

    Args:
        estimator_class: The estimator whose settings are searched.
        grid: Gives what to try for a linear problem where the user does not say.
    """

    def decorate(cls: Twin) -> Twin:
        annotations: dict[str, Any] = {}
        for known in fields(estimator_class):
            annotations[known.name] = SEVERAL.get(known.name, known.type)
            setattr(
                cls, known.name, field(default=known.default, default_factory=known.default_factory)
            )
        for name, (kind, default, _) in SEARCH_SETTINGS.items():
            annotations[name] = kind
            setattr(cls, name, default)
        cls.__annotations__ = annotations
        cls._estimator_class = estimator_class
        cls._linear_grid = staticmethod(grid)
        # This changes the class and gives it back.
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        cls.__doc__ = _document(cls.__doc__ or "", estimator_class)
        return cls

    return decorate


def _document(text: str, estimator_class: type[Any]) -> str:
    """The docstring of a twin: its own words, the settings of the estimator, and those of the search."""
    known = cleandoc(estimator_class.__doc__ or "")
    args = known.partition("Args:\n")[2].partition("\n\n")[0]
    search = _entries({name: words for name, (_, _, words) in SEARCH_SETTINGS.items()})
    learned = _entries(SEARCH_ATTRIBUTES)
    return (
        f"{cleandoc(text)}\n\nArgs:\n{args}\n{search}\n\nAttributes:\n{learned}\n\n"
        f"Everything that `{estimator_class.__name__}` has is there too, of the chosen estimator.\n"
    )


def _entries(words: Mapping[str, str]) -> str:
    return "\n".join(
        fill(f"{name}: {text}", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
        for name, text in words.items()
    )
