"""Find the stacks of a network by the names of its layers."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn
from torch.nn.parameter import UninitializedParameter

from multirel.priors._stack import Stack, merged_modes

__all__ = ["find_stacks"]

COPY = "copy"
"""Name of a first axis of independent copies in the `stack_modes` of a layer; it is no mode."""

LAYER_MODES: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Linear: ("output", "input"),
    nn.Conv1d: ("output", "input", "width"),
    nn.Conv2d: ("output", "input", "height", "width"),
    nn.Conv3d: ("output", "input", "depth", "height", "width"),
    nn.ConvTranspose1d: ("input", "output", "width"),
    nn.ConvTranspose2d: ("input", "output", "height", "width"),
    nn.ConvTranspose3d: ("input", "output", "depth", "height", "width"),
}
"""Axes of the weight of each kind of layer; other parameters go by their number of axes."""

PLAIN_MODES = {
    2: LAYER_MODES[nn.Linear],
    3: LAYER_MODES[nn.Conv1d],
    4: LAYER_MODES[nn.Conv2d],
    5: LAYER_MODES[nn.Conv3d],
}


def find_stacks(
    network: nn.Module, layers: str | Sequence[str], *, modes: Sequence[str]
) -> list[Stack]:
    """The stacks that `layers` name, in that order.

    A name without `*` is a layer that keeps its tasks in one tensor. One `*` stands for the task, and
    matches one part of a dotted name: "heads.*.fc7", "head_*.fc".

    Raises:
        ValueError: If a pattern matches nothing or one task only, has two `*`, or names weights that
            cannot be stacked: of different shapes, parametrized, or used twice.
        TypeError: If `network` is no module, or `layers` are no names.
    """
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"`network` must be a torch.nn.Module: got {type(network).__name__}. Layers of your own go "
            f"into a torch.nn.ModuleDict."
        )
    patterns = _names(layers)
    if not patterns:
        raise ValueError("`layers` must name at least one layer: got none.")
    stacks = [_find_stack(network, pattern, modes) for pattern in patterns]
    _check_used_once(stacks)
    _check_loaded(stacks)
    return stacks


def _names(layers: Any) -> list[str]:
    patterns = [layers] if isinstance(layers, str) else layers
    if not isinstance(patterns, Iterable) or not all(isinstance(p, str) for p in patterns):
        raise TypeError(f"`layers` must be names of layers: got {layers!r}. Write ['heads.*'].")
    return [*patterns]


def _find_stack(network: nn.Module, pattern: str, modes: Sequence[str]) -> Stack:
    n_stars = pattern.count("*")
    if n_stars > 1:
        raise ValueError(
            f"`layers` must mark the task by one `*`: got {n_stars} in {pattern!r}. Write one pattern "
            f"per layer."
        )
    if n_stars == 0:
        return _native_stack(network, pattern, modes)
    return _collected_stack(network, pattern, modes)


def _native_stack(network: nn.Module, pattern: str, modes: Sequence[str]) -> Stack:
    layer = dict(network.named_modules(remove_duplicate=False)).get(pattern)
    if layer is None:
        raise _nothing_matches(network, pattern)
    layer_modes = getattr(layer, "stack_modes", None)
    if layer_modes is None and getattr(layer, "weight", None) is None:
        raise ValueError(
            f"`layers` must name stacks: {pattern!r} is a {type(layer).__name__}, which has no weight of "
            f"its own. Name layers in it; where tasks have different outputs, put the prior on hidden "
            f"layers only."
        )
    if layer_modes is None:
        raise ValueError(
            f"`layers` must name stacks: {pattern!r} is a single {type(layer).__name__}. Put `*` in "
            f"the place of the task, or use a layer that keeps its tasks in one tensor (TaskLinear)."
        )
    name, parameter = _weight_of(layer, pattern)
    sizes = tuple(parameter.shape)
    n_copies = None
    if layer_modes[0] == COPY:
        layer_modes, n_copies, sizes = layer_modes[1:], sizes[0], sizes[1:]
    tasks = getattr(layer, "tasks", None) or range(sizes[0])
    names, sizes = merged_modes(layer_modes, sizes, modes)
    _check_several(pattern, [*map(str, tasks)])
    return Stack(
        layer=pattern,
        tasks=tuple(map(str, tasks)),
        parameters=(parameter,),
        parameter_names=(name,),
        is_native=True,
        modes=names,
        shape=sizes,
        n_copies=n_copies,
    )


def _collected_stack(network: nn.Module, pattern: str, modes: Sequence[str]) -> Stack:
    before, after = pattern.split("*")
    expression = re.compile(re.escape(before) + r"([^.]+)" + re.escape(after))
    found: dict[str, tuple[str, nn.Parameter]] = {}
    kinds: set[tuple[str, ...]] = set()
    # Modules and parameters that have two names are shared, which is refused by these names.
    for name, layer in network.named_modules(remove_duplicate=False):
        match = expression.fullmatch(name)
        if match and (hasattr(layer, "weight") or hasattr(layer, "parametrizations")):
            _check_single(layer, pattern, name)
            found[match[1]] = _weight_of(layer, name)
            kinds.add(_modes_of(layer, found[match[1]][1], name))
    if not found:
        for name, parameter in network.named_parameters(remove_duplicate=False):
            match = expression.fullmatch(name)
            if match:
                _check_values(name, parameter)
                _check_whole(name, parameter)
                found[match[1]] = (name, parameter)
                kinds.add(_modes_of(_owner_of(network, name), parameter, name))
    if not found:
        raise _nothing_matches(network, pattern)
    _check_several(pattern, [*found])
    _check_alike(pattern, found, kinds)
    parameters = tuple(parameter for _, parameter in found.values())
    sizes = (len(found), *parameters[0].shape)
    names, merged = merged_modes(("task", *kinds.pop()), sizes, modes)
    return Stack(
        layer=pattern,
        tasks=tuple(found),
        parameters=parameters,
        parameter_names=tuple(name for name, _ in found.values()),
        is_native=False,
        modes=names,
        shape=merged,
    )


def _weight_of(layer: nn.Module, name: str) -> tuple[str, nn.Parameter]:
    """The name and the weight of a layer, if it is a plain parameter."""
    if "weight" in getattr(layer, "parametrizations", {}):
        raise ValueError(
            f"`layers` must name plain weights: that of {name!r} is parametrized. Remove the "
            f"parametrization, or name a parameter of it ({name}.parametrizations.weight.original)."
        )
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, nn.Parameter):
        raise ValueError(
            f"`layers` must name layers with a weight: {name!r} is a {type(layer).__name__} without "
            f"one that is a parameter."
        )
    full_name = f"{name}.weight" if name else "weight"
    _check_values(name, weight)
    _check_whole(full_name, weight)
    return full_name, weight


def _check_values(name: str, parameter: nn.Parameter) -> None:
    """Raise unless a parameter holds real numbers."""
    if isinstance(parameter, UninitializedParameter):
        raise ValueError(
            f"`layers` must name weights that have a shape: {name!r} is lazy. Call the network once, "
            f"then attach the prior."
        )
    if not parameter.is_floating_point():
        raise ValueError(
            f"`layers` must name weights of a floating type: {name!r} is {parameter.dtype}. Leave it out."
        )


def _check_whole(name: str, parameter: nn.Parameter) -> None:
    """Raise if processes share a parameter among them."""
    # What only sharded parameters have: their class is not in every build of torch.
    mesh = getattr(parameter, "device_mesh", None)
    if mesh is not None:
        raise ValueError(
            f"`layers` must name weights that every process holds whole: {name!r} is sharded over "
            f"{mesh.size()}. Shard the backbone only, and put the prior on the heads."
        )


def _owner_of(network: nn.Module, name: str) -> nn.Module | None:
    """The layer whose weight a parameter is; None where it is something else."""
    owner, _, leaf = name.rpartition(".")
    return network.get_submodule(owner) if leaf == "weight" else None


def _modes_of(layer: nn.Module | None, parameter: nn.Parameter, name: str) -> tuple[str, ...]:
    for kind, modes in LAYER_MODES.items():
        if isinstance(layer, kind):
            return modes
    if parameter.ndim not in PLAIN_MODES:
        raise ValueError(
            f"`layers` must name weights with an output and an input axis: {name!r} has shape "
            f"{tuple(parameter.shape)}."
        )
    return PLAIN_MODES[parameter.ndim]


def _check_single(layer: nn.Module, pattern: str, name: str) -> None:
    if hasattr(layer, "stack_modes"):
        raise ValueError(
            f"`layers` must name a layer that keeps its tasks in one tensor without `*`: {pattern!r} "
            f"matches {name!r}, a {type(layer).__name__}. Write {name!r}."
        )


def _check_several(pattern: str, tasks: Sequence[str]) -> None:
    if len(tasks) < 2:  # noqa: PLR2004
        raise ValueError(
            f"`layers` must name stacks of at least two tasks: {pattern!r} has only {tasks[0]!r}."
        )


def _check_alike(
    pattern: str, found: dict[str, tuple[str, nn.Parameter]], kinds: set[tuple[str, ...]]
) -> None:
    """Raise unless the weights have one shape, kind, dtype and device."""
    shapes = {name: tuple(parameter.shape) for name, parameter in found.values()}
    if len(set(shapes.values())) > 1 or len(kinds) > 1:
        shown = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"`layers` must name weights of one shape: {pattern!r} has {shown}. Where tasks have "
            f"different outputs, put the prior on hidden layers only; otherwise name one layer per task."
        )
    places = {(parameter.dtype, parameter.device) for _, parameter in found.values()}
    if len(places) > 1:
        raise ValueError(
            f"`layers` must name weights of one dtype on one device: {pattern!r} has "
            f"{', '.join(sorted(f'{dtype} on {device}' for dtype, device in places))}."
        )


def _check_used_once(stacks: Sequence[Stack]) -> None:
    """Raise if a parameter is in two stacks, or twice in one."""
    seen: dict[int, str] = {}
    for stack in stacks:
        for name, parameter in zip(stack.parameter_names, stack.parameters, strict=True):
            key = id(parameter)
            if key in seen:
                raise ValueError(
                    f"`layers` must use each weight once: {name!r} (pattern {stack.layer!r}) is the "
                    f"same parameter as {seen[key]}."
                )
            seen[key] = f"{name!r} (pattern {stack.layer!r})"


def _check_loaded(stacks: Sequence[Stack]) -> None:
    for stack in stacks:
        if stack.parameters[0].is_meta:
            raise ValueError(
                f"`layers` must name weights that have values: those of {stack.layer!r} are on the meta "
                f"device. Load the weights, then attach the prior."
            )


def _nothing_matches(network: nn.Module, pattern: str) -> ValueError:
    names = [
        name
        for name, layer in network.named_modules()
        if getattr(layer, "weight", None) is not None
    ]
    near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3) or names[:3]
    hint = f" Layers with weights are, for example: {', '.join(near)}." if near else ""
    return ValueError(
        f"`layers` must match layers of the network: {pattern!r} matches nothing.{hint}"
    )
