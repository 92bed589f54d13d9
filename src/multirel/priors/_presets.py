"""Priors as others have used them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from torch import nn

from multirel.priors._attach import prior_with_settings
from multirel.priors._settings import PriorSettings, mode_names
from multirel.priors._tensor_normal_prior import TensorNormalPrior

__all__ = ["PRESETS", "prior_from_preset"]

PRESETS: dict[str, dict[str, Any]] = {
    # The paper's text: Eq. (9) with the sign of a density, Eq. (10) as part of every gradient, Eq. (11)
    # again and again. The paper names no ε.
    "paper": {
        "scale": "free",
        "jitter": 1e-3,
        "start": 0.0,
        "n_updates": None,
        "rank": None,
        "application": "gradient",
    },
    # The code released with it: task covariance only, ⟨W, W ×_T P⟩ without ½ and without log-determinant,
    # added once to the sum over tasks of the mean losses.
    "released-code": {
        "modes": ("task",),
        "covariance_update": "released-code",
        "start": 0.0,
        "n_updates": None,
        "update_every": 100,
        "rank": None,
        "application": "gradient",
    },
}
"""Settings of each preset; everything else is the default."""


def prior_from_preset(
    preset: str, network: nn.Module, layers: str | Sequence[str], **settings: Any
) -> TensorNormalPrior:
    """The prior of a preset on layers of `network`; `settings` are those of `attach_prior`."""
    if preset not in PRESETS:
        known = ", ".join(map(repr, PRESETS))
        raise ValueError(f"`preset` must be one of {known}: got {preset!r}.")
    share = settings.pop("share_task_covariance", False)
    _check_names(settings)
    merged = {**PRESETS[preset], **settings}
    merged["modes"] = mode_names(merged.get("modes", PriorSettings.modes))
    if preset == "released-code":
        # (λ/N) ½⟨W, P W⟩ becomes ⟨W, P W⟩ times the strength that was asked for.
        merged["strength"] = 2 * merged["n_samples"] * merged.get("strength", 1.0)
    return prior_with_settings(network, layers, PriorSettings(**merged), share=share)


def _check_names(settings: Mapping[str, Any]) -> None:
    """Raise unless these are settings of `attach_prior`, the number of rows among them."""
    if "n_samples" not in settings:
        raise TypeError("`n_samples` must be given: the number of training rows.")
    known = {field.name for field in fields(PriorSettings)}
    strangers = sorted(set(settings) - known)
    if strangers:
        raise TypeError(
            f"`settings` must be settings of `attach_prior`: got {', '.join(strangers)}."
        )
