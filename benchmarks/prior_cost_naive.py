"""The prior as one would first write it: inverses, mode products, and autograd through all of them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

SHRINKAGE = (0.1, 0.95, 0.95)
START = 0.5


class NaivePrior:
    """(λ/N) Σ ½⟨W, W ×₁ Σ_T⁻¹ ×₂ Σ_O⁻¹ ×₃ Σ_I⁻¹⟩ in the loss, updated every `update_every` steps.

    Args:
        weights: The stacks, "T O I".
        rate: λ/N.
        update_every: Steps between two updates.
    """

    def __init__(self, weights: Sequence[nn.Parameter], *, rate: float, update_every: int) -> None:
        self.weights = weights
        self.rate = rate
        self.update_every = update_every
        self.n_steps = 0
        self.inverses = [[_identity(size, weight) for size in weight.shape] for weight in weights]
        for weight, inverses in zip(weights, self.inverses, strict=True):
            start = (1 - START) * _identity(len(weight), weight) + START
            inverses[0] = torch.linalg.inv(start)

    def __call__(self) -> Tensor:
        total = self.weights[0].new_zeros(())
        for weight, inverses in zip(self.weights, self.inverses, strict=True):
            total = total + 0.5 * (weight * _products(weight, inverses, skip=None)).sum()
        return self.rate * total

    @torch.no_grad()
    def update(self) -> None:
        for weight, inverses in zip(self.weights, self.inverses, strict=True):
            for mode, size in enumerate(weight.shape):
                rows = _unfold(_products(weight, inverses, skip=mode), mode)
                scatter = rows @ _unfold(weight, mode).mT
                scatter = (scatter + scatter.mT) * (size / (2 * scatter.trace()))
                shrunk = (1 - SHRINKAGE[mode]) * scatter
                shrunk += SHRINKAGE[mode] * _identity(size, weight)
                inverses[mode] = torch.linalg.inv(shrunk)

    def step(self) -> None:
        self.n_steps += 1
        if self.n_steps % self.update_every == 0:
            self.update()


def _identity(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)


def _unfold(weight: Tensor, mode: int) -> Tensor:
    return weight.movedim(mode, 0).flatten(1)


def _products(weight: Tensor, matrices: Sequence[Tensor], *, skip: int | None) -> Tensor:
    for mode, matrix in enumerate(matrices):
        if mode != skip:
            weight = torch.tensordot(matrix, weight, dims=([1], [mode])).movedim(0, mode)
    return weight
