"""Writing a fitted estimator into a folder, as tensors and JSON."""

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from multirel import __version__
from multirel.estimators._averaging import AveragedModel
from multirel.estimators._model import Model
from multirel.estimators._network_images import BackboneModel
from multirel.estimators._network_state import model_from_state, model_to_state
from multirel.estimators._saved_files import write_files
from multirel.estimators._saved_values import encode_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OF_TRAINING", "OWN_BACKBONE", "load_model", "save_estimator"]

OF_TRAINING = ("network_", "prior_")
"""Attributes that are not written: the network is that of the model, and the prior is for training alone."""

OWN_BACKBONE: Mapping[str, Any] = {"backbone": "own"}
"""What is written for a backbone that is a module."""

OF_MODEL: Mapping[str, str] = {"coef_": "weights", "intercept_": "intercepts"}
"""Attributes that are parts of a linear model."""


def save_estimator(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator into a folder, from which `load_estimator` reads it.

    Args:
        estimator: The estimator.
        path: The folder, which is made if need be; a model that is there is replaced.

    Raises:
        sklearn.exceptions.NotFittedError: If the estimator is not fitted.
        TypeError: If a setting or an attribute is nothing that JSON or tensors can hold.
        OSError: If the folder cannot be written.
    """
    check_is_fitted(estimator)
    tensors: dict[str, Tensor] = {}
    code = _encode(estimator, "", tensors)
    write_files(Path(path).expanduser(), tensors, {"version": __version__, "estimator": code})


def _encode(estimator: Any, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """An estimator, or the best one of a search, whose tensors have names that begin with `prefix`."""
    arrays: dict[str, NDArray[Any]] = {}
    settings = {}
    for setting in fields(estimator):
        value = getattr(estimator, setting.name)
        settings[setting.name] = _encode_setting(setting.name, value, arrays)
    code: dict[str, Any] = {"class": type(estimator).__name__, "settings": settings, "learned": {}}
    learned = {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_") and name not in OF_TRAINING
    }
    if "best_estimator_" in learned:
        inner = f"{prefix}best_estimator_."
        code["best_estimator"] = _encode(learned.pop("best_estimator_"), inner, tensors)
    if "model_" in learned:
        model = learned.pop("model_")
        parts, code["model"] = save_model(model)
        tensors |= {f"{prefix}model_.{name}": tensor for name, tensor in parts.items()}
        for name, part in OF_MODEL.items():
            if name in learned and learned[name] is getattr(model, part, None):
                learned.pop(name)
    code["learned"] = {name: encode_value(value, name, arrays) for name, value in learned.items()}
    tensors |= {f"{prefix}{name}": _to_tensor(array) for name, array in arrays.items()}
    return code


def _encode_setting(name: str, value: Any, arrays: "dict[str, NDArray[Any]]") -> Any:
    if isinstance(value, nn.Module):
        return dict(OWN_BACKBONE)
    if isinstance(value, torch.device):
        value = str(value)
    return encode_value(value, name, arrays)


def _to_tensor(array: "NDArray[Any]") -> Tensor:
    return torch.from_numpy(np.array(array, order="C"))


def save_model(model: Model) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What a model consists of: tensors by name, and a description that JSON can hold.

    Of models that answer together behind one backbone only the first is written with it.

    Args:
        model: A model, or several that answer together.
    """
    inner = model.inner if isinstance(model, BackboneModel) else model
    if not isinstance(inner, AveragedModel):
        return model_to_state(model)
    first, *others = inner.models
    if isinstance(model, BackboneModel):
        first = BackboneModel(model.backbone, first, device=model.device)
    tensors: dict[str, Tensor] = {}
    descriptions = []
    for number, one in enumerate([first, *others]):
        parts, description = model_to_state(one)
        tensors |= {f"{number}.{name}": tensor for name, tensor in parts.items()}
        descriptions.append(description)
    return tensors, {
        "form": "average",
        "models": descriptions,
        "sizes": inner.sizes,
        "is_logistic": bool(inner.is_logistic),
        "is_behind_backbone": inner is not model,
    }


def load_model(
    tensors: Mapping[str, Tensor],
    description: Mapping[str, Any],
    *,
    network: nn.Module | None,
    device: str,
) -> Model:
    """The model that `save_model` has described.

    Args:
        tensors: The tensors by name.
        description: The description.
        network: A module like the backbone, where that is one of the user's own.
        device: Where networks run.

    Raises:
        ValueError: If tensors and description do not belong together.
    """
    if description["form"] != "average":
        return model_from_state(tensors, description, network=network, device=device)
    models = []
    for number, one in enumerate(description["models"]):
        mine = {
            name.partition(".")[2]: tensor
            for name, tensor in tensors.items()
            if name.partition(".")[0] == str(number)
        }
        models.append(model_from_state(mine, one, network=network, device=device))
    answers = {"sizes": description["sizes"], "is_logistic": bool(description["is_logistic"])}
    first = models[0]
    if description["is_behind_backbone"] and isinstance(first, BackboneModel):
        inner = AveragedModel([first.inner, *models[1:]], **answers)
        return BackboneModel(first.backbone, inner, device=device)
    return AveragedModel(models, **answers)
