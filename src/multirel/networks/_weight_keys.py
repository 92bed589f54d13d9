"""Weights from a file to the layers that they belong to, strictly."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from multirel.exceptions import NotFiniteError
from multirel.networks._architectures import find_architecture
from multirel.networks._weight_file import WeightFile, first_few

__all__ = ["absent_layers", "load_weights"]

COUNTER = "num_batches_tracked"
"""What old files lack, and no network needs to predict: batches that a batch normalization has seen."""


def load_weights(
    module: nn.Module,
    file: WeightFile,
    *,
    name: str,
    known: Mapping[str, torch.Size],
    absent: Mapping[str, str],
) -> None:
    """Copy the tensors of `file` into `module`; every key and every shape must be as expected.

    Args:
        module: What the weights are for.
        file: The weights.
        name: The architecture, for messages.
        known: Keys and shapes of a whole file; those that `module` does not have are passed over.
        absent: Prefixes of the keys that the file lacks on purpose, by layer.

    Raises:
        ValueError: If keys are missing or unknown, or a shape differs.
        NotFiniteError: If the file holds NaN or infinity.
    """
    expected = {
        key: value
        for key, value in module.state_dict().items()
        if not key.startswith(tuple(absent.values()))
    }
    _check_keys(file, expected, name=name, known=known)
    state: dict[str, Tensor] = {}
    for key, value in expected.items():
        if key in file.tensors:
            _check_tensor(key, value, file=file, name=name)
            state[key] = file.tensors[key]
        else:
            state[key] = torch.zeros_like(value)
    module.load_state_dict(state, strict=False)


def absent_layers(
    module: nn.Module, file: WeightFile, prefixes: Mapping[str, str]
) -> dict[str, str]:
    """The layers of `prefixes` that `module` has and of which the file holds no tensor at all."""
    keys = [*module.state_dict()]
    return {
        layer: prefix
        for layer, prefix in prefixes.items()
        if any(key.startswith(prefix) for key in keys)
        and not any(key.startswith(prefix) for key in file.tensors)
    }


def _check_keys(
    file: WeightFile,
    expected: Mapping[str, Tensor],
    *,
    name: str,
    known: Mapping[str, torch.Size],
) -> None:
    """Raise if the file lacks a key or has one that the architecture does not know."""
    missing = [k for k in expected if k not in file.tensors and not k.endswith(COUNTER)]
    unknown = [key for key in file.tensors if key not in known]
    problems = []
    if missing:
        problems.append(f"{len(missing)} missing ({first_few(missing)})")
    if unknown:
        problems.append(f"{len(unknown)} unknown ({first_few(unknown)})")
    if not problems:
        return
    other = find_architecture(file.tensors)
    if other is not None and other != name:
        advice = f'It is a file of another architecture: use the name "{other}".'
    else:
        advice = f"Check that the file is whole and made for {name}."
    raise ValueError(
        f"`weights` must have the keys of {name}: expected {len(expected)} such as "
        f"{first_few(list(expected))}, got {' and '.join(problems)} in {file.path}. {advice}"
    )


def _check_tensor(key: str, value: Tensor, *, file: WeightFile, name: str) -> None:
    """Raise if the tensor of the file cannot take the place of `value`."""
    tensor = file.tensors[key]
    if tensor.shape != value.shape:
        raise ValueError(
            f"`weights` must have the shapes of {name}: expected {tuple(value.shape)} for {key}, got "
            f"{tuple(tensor.shape)} in {file.path}. Check that the file is made for {name}."
        )
    if tensor.is_floating_point() != value.is_floating_point():
        raise ValueError(
            f"`weights` must not be quantized: expected {value.dtype} for {key}, got {tensor.dtype} in "
            f"{file.path}. Use the file with floating point weights."
        )
    if not bool(torch.isfinite(tensor).all()):
        raise NotFiniteError(
            f"`weights` must be finite: expected numbers, got NaN or infinity for {key} in {file.path}. "
            f"Download the file again."
        )
