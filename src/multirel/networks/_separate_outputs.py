"""Output layers of tasks that have different numbers of outputs."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multirel._annotations import Float
from multirel.networks._rows_by_task import RowsByTask
from multirel.networks._task_linear import check_floating_type

__all__ = ["SeparateOutputs"]


class SeparateOutputs(nn.Module):
    """One linear layer per task, each with as many outputs as its task has.

    Args:
        in_features: Inputs of every task.
        out_features: Outputs of each task.
    """

    def __init__(self, in_features: int, out_features: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(in_features, size) for size in out_features)
        self.out_features = max(out_features)

    def forward(self, x: Float[Tensor, "n I"], rows: RowsByTask) -> Float[Tensor, "n O"]:
        """The outputs of every row's task, and −∞ in the columns that the task does not have.

        The columns are constants, so gradients never pass through them.

        Raises:
            TypeError: If `x` has another floating type.
        """
        check_floating_type(x, next(self.layers.parameters()))
        if torch.compiler.is_compiling():
            apply_layers = torch.compiler.disable(self._apply_layers)
        else:
            apply_layers = self._apply_layers
        y: Tensor = apply_layers(x, rows)
        return y

    def _apply_layers(self, x: Tensor, rows: RowsByTask) -> Tensor:
        parts = [
            self._pad(self.layers[index](group))
            for index, group in zip(rows.tasks.tolist(), rows.split(x), strict=True)
        ]
        return rows.join(parts) if parts else self._pad(self.layers[0](x))

    def _pad(self, y: Tensor) -> Tensor:
        return F.pad(y, (0, self.out_features - y.shape[1]), value=-torch.inf)
