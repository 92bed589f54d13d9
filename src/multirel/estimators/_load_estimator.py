"""Reading an estimator that was saved; nothing in its folder is ever run."""

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from multirel.estimators import _search_twins
from multirel.estimators._model import LinearModel, Model
from multirel.estimators._network_images import BackboneModel
from multirel.estimators._network_model import NetworkModel
from multirel.estimators._saved_estimator import OF_MODEL, OWN_BACKBONE, load_model
from multirel.estimators._saved_files import read_files
from multirel.estimators._saved_values import decode_value
from multirel.exceptions import SavedModelError

__all__ = ["load_estimator"]

TWINS = [getattr(_search_twins, name) for name in _search_twins.__all__]

ESTIMATORS: Mapping[str, type[Any]] = {
    cls.__name__: cls for twin in TWINS for cls in (twin, twin._estimator_class)
}
"""Every class that can be loaded, by name."""

N_BINARY = 2


def load_estimator(path: str | os.PathLike[str], network: nn.Module | None = None) -> Any:
    """The estimator that `save` has written into a folder, with the same predictions to the bit.

    Its tensors are read by safetensors and the rest as JSON: no code is run, whoever has written the folder.

    Args:
        path: The folder.
        network: A module like the backbone, where that was a module of your own; a copy of it gets the
            weights.

    Raises:
        SavedModelError: If the folder holds no model, or one that is damaged, changed, or of another version.
        ValueError: If `network` is missing.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from multirel.data import make_related_tasks
        >>> from multirel.estimators import MRNRegressor
        >>> data = make_related_tasks(3, 20, 5)
        >>> model = MRNRegressor().fit(data.X, data.y, tasks=data.tasks)
        >>> with TemporaryDirectory() as folder:
        ...     model.save(folder)
        ...     same = load_estimator(folder)
        >>> bool((same.predict(data.X, tasks=data.tasks) == model.predict(data.X, tasks=data.tasks)).all())
        True
    """
    folder = Path(path).expanduser()
    tensors, description = read_files(folder)
    code: Any = description.get("estimator")
    if network is None and _needs_network(code):
        raise ValueError(
            "`network` must be given where the backbone was a module of your own: got None. Give a module "
            "like it; its weights are replaced."
        )
    try:
        # Copies lie in memory as arrays of numpy do, on which the last bit of a product may depend.
        return _decode(code, {name: value.clone() for name, value in tensors.items()}, network)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise SavedModelError(
            f"`path` must hold a model whose parts fit together: in {folder} they do not ({error}). Save it "
            f"again."
        ) from error


def _needs_network(code: Any) -> bool:
    settings = code.get("settings") if isinstance(code, Mapping) else None
    return isinstance(settings, Mapping) and settings.get("backbone") == OWN_BACKBONE


def _decode(
    code: Mapping[str, Any], tensors: Mapping[str, Tensor], network: nn.Module | None
) -> Any:
    """An estimator, or the best one of a search."""
    name = code["class"]
    if name not in ESTIMATORS:
        raise ValueError(f"{name!r} is no estimator of multirel")
    cls = ESTIMATORS[name]
    mine = {
        name: tensor.numpy() for name, tensor in tensors.items() if "." not in name or _is_own(name)
    }
    settings = {
        name: network if value == OWN_BACKBONE else decode_value(value, mine)
        for name, value in code["settings"].items()
    }
    known = {field.name for field in fields(cls)}
    if set(settings) != known:
        wrong = ", ".join(sorted(known ^ set(settings)))
        raise ValueError(f"{name} has other settings: they differ in {wrong}")
    estimator = cls(**settings)
    for attribute, value in code["learned"].items():
        if not attribute.isidentifier() or attribute.startswith("_") or attribute[-1] != "_":
            raise ValueError(f"{attribute!r} is nothing that an estimator learns")
        vars(estimator)[attribute] = decode_value(value, mine)
    if "best_estimator" in code:
        estimator.best_estimator_ = _decode(
            code["best_estimator"], _below("best_estimator_.", tensors), network
        )
    if "model" in code:
        _set_model(estimator, code["model"], _below("model_.", tensors), network)
    return estimator


def _is_own(name: str) -> bool:
    """Whether a tensor belongs to a setting or an attribute, and not to a model inside."""
    return not name.startswith(("model_.", "best_estimator_."))


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _set_model(
    estimator: Any,
    description: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    network: nn.Module | None,
) -> None:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(f"the tensor {name!r} of the model holds NaN or infinity")
    estimator.device = _available(estimator.device)
    model = load_model(tensors, description, network=network, device=estimator.device)
    _check_shapes(estimator, model)
    estimator.model_ = model
    inner = model.inner if isinstance(model, BackboneModel) else model
    if isinstance(inner, LinearModel):
        # Those that were other arrays than the model's own have been read already.
        for name, part in OF_MODEL.items():
            vars(estimator).setdefault(name, getattr(inner, part))
    if isinstance(inner, NetworkModel):
        estimator.network_ = inner.network


def _available(device: Any) -> str:
    """The device that networks were trained on, or the CPU where there is no such device."""
    wanted = torch.device(device)
    if wanted.type == "cuda" and not torch.cuda.is_available():
        return "cpu"
    return str(device)


def _check_shapes(estimator: Any, model: Model) -> None:
    """Refuse weights of linear models that belong to other tasks, classes or features."""
    if not isinstance(model, LinearModel):
        return
    n_features = estimator.n_features_in_ - (estimator.task_column is not None)
    classes_of = getattr(estimator, "classes_of_", [None] * len(estimator.tasks_))
    if not len(model.weights) == len(model.intercepts) == len(classes_of) == len(estimator.tasks_):
        raise ValueError(
            f"the model has {len(model.weights)} tasks where {len(estimator.tasks_)} have names"
        )
    sizes = [0 if classes is None else len(classes) for classes in classes_of]
    for weight, intercept, size in zip(model.weights, model.intercepts, sizes, strict=True):
        n_outputs = 1 if size <= N_BINARY else size
        # A task with one class has outputs for two where tasks have their own.
        if weight.shape != (len(intercept), n_features) or len(intercept) not in (
            n_outputs,
            N_BINARY,
        ):
            raise ValueError(
                f"weights of shape {weight.shape} are not those of {n_outputs} outputs and {n_features} "
                f"features"
            )
