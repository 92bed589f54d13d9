"""The state of a prior as named tensors, and whether a state belongs to a prior."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from multirel.priors._covariance_tensors import covariance_from_tensors, covariance_to_tensors
from multirel.priors._stack_prior import TASK, StackPrior
from multirel.tensor_normal import Covariance, without_autocast

__all__ = ["check_state", "covariances_from_state", "memory_of", "stack_to_tensors"]


def stack_to_tensors(prior: StackPrior) -> dict[str, Tensor]:
    """The covariances of a layer, and what else it remembers, by the name of the layer."""
    layer = prior.stack.layer
    found = {f"{layer}.{part}": value for part, value in prior.memory().items()}
    for mode, covariance in zip(prior.stack.modes, prior.covariances, strict=True):
        for part, value in covariance_to_tensors(covariance).items():
            found[f"{layer}.{mode}.{part}"] = value
    return {name: value.detach().clone().contiguous() for name, value in found.items()}


def memory_of(state: Mapping[str, Tensor], prior: StackPrior) -> dict[str, Tensor]:
    """What a state holds of a layer beside its covariances."""
    parts = _below(state, f"{prior.stack.layer}.")
    return {name: value for name, value in parts.items() if "." not in name}


def covariances_from_state(state: Mapping[str, Tensor], prior: StackPrior) -> list[Covariance]:
    """The covariance of every mode of a layer.

    Raises:
        ValueError: If the tensors do not make covariances of these sizes.
    """
    like = prior.covariances[TASK].diagonal()
    with without_autocast(like.device):
        return [
            covariance_from_tensors(_below(state, f"{prior.stack.layer}.{mode}."), size, like)
            for mode, size in zip(prior.stack.modes, prior.stack.shape, strict=True)
        ]


def check_state(state: Mapping[str, Tensor], priors: Sequence[StackPrior]) -> None:
    """Raise unless the names in `state` are those of these layers, modes and tasks.

    Raises:
        ValueError: If something is missing, does not belong there, or has another shape.
    """
    wrong = {"counts", "pending"} - set(state)
    known = {"counts", "pending"}
    for prior in priors:
        layer = prior.stack.layer
        memory = memory_of(state, prior)
        prior.check_shapes(memory)
        prior.check_tasks(memory)
        known |= {f"{layer}.{part}" for part in memory}
        wrong |= {f"{layer}.{part}" for part in prior.check_memory(memory)}
        disputed = prior.modes_in_dispute(memory)
        for mode, step in zip(prior.stack.modes, prior.steps, strict=True):
            parts = {name for name in state if name.startswith(f"{layer}.{mode}.")}
            # Modes that have not been updated may have nothing to store, the task mode always does.
            is_needed = step is not None and mode == prior.stack.modes[TASK]
            if not parts and (is_needed or mode in disputed):
                wrong.add(f"{layer}.{mode}")
            known |= parts if step is not None else set()
    wrong |= set(state) - known
    if wrong or len(state["pending"]) != len(priors):
        raise ValueError(
            f"`state` must be that of a prior on the same layers and modes: it differs in "
            f"{', '.join(sorted(wrong)) or 'the number of layers'}."
        )


def _below(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
