"""Losses per row: cross-entropy, binary and squared, one for all tasks or one per task."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from multirel._annotations import Float, Int
from multirel.training._labels import to_tensor

__all__ = ["ClassWeight", "Loss", "Losses"]

Loss = Literal["cross-entropy", "binary", "squared"]

ClassWeight = Sequence[float] | Tensor | Mapping[int, Sequence[float] | Tensor] | None

N_BINARY_CLASSES = 2


@final
class Losses:
    """The loss of every row, by the kind of its task, and what its class counts.

    | loss | outputs of a row | label | value |
    |---|---|---|---|
    | "cross-entropy" | a score per class | number of the class | −ln of the class's softmax |
    | "binary" | a score, or several | 0 or 1 for each | −ln of the label's probability, summed |
    | "squared" | a number, or several | the same | (y − f)², summed |

    Columns of outputs that are −∞, since the task has fewer classes than others, count nothing and get no
    gradient. Where kinds are mixed, labels have one axis, and a binary or squared task has its output in
    the first column. Where a row has several labels, those that are NaN count nothing.

    Args:
        losses: One loss for all tasks, or a mapping from the index of every task to its loss.
        n_tasks: The number of tasks.
        class_weight: How much the rows of each class count (for "binary": of 0 and of 1), the same for all
            tasks, or a mapping from the index of a task to the weights of its classes.

    Raises:
        ValueError: If there is no such loss, a task has none, or weights do not fit.

    Example:
        >>> losses = Losses("squared", n_tasks=1)
        >>> losses(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]), torch.tensor([0, 0]))
        tensor([0., 4.])
    """

    def __init__(
        self, losses: Loss | Mapping[int, Loss], *, n_tasks: int, class_weight: ClassWeight = None
    ) -> None:
        self.of_task = _loss_per_task(losses, n_tasks)
        self._kinds: tuple[Loss, ...] = tuple(dict.fromkeys(self.of_task))
        self._class_weight = _class_weight_per_task(class_weight, self.of_task)

    @property
    def is_mixed(self) -> bool:
        """Whether tasks have different losses."""
        return len(self._kinds) > 1

    def describe(self) -> dict[str, Any]:
        """The losses and the weights of classes by name, for the record."""
        weights = {str(task): weight.tolist() for task, weight in self._class_weight.items()}
        of_task = self._kinds[0] if not self.is_mixed else list(self.of_task)
        return {"of_task": of_task, "class_weight": weights}

    def __call__(self, outputs: Tensor, y: Tensor, task: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """The loss of every row.

        Args:
            outputs: What the network gives, (n, O), or (n,) where that is one number.
            y: The labels, (n,) or (n, O), on the device of `outputs`.
            task: The index of each row's task, on the CPU.

        Raises:
            TypeError: If the outputs are no tensor.
            ValueError: If shapes do not fit the loss, or, on the CPU, a label is none of its task.
        """
        if not isinstance(outputs, Tensor):
            raise TypeError(
                f"`network` must give a tensor of outputs: got {type(outputs).__name__}. Return the "
                f"scores only."
            )
        if outputs.dtype in (torch.float16, torch.bfloat16):
            outputs = outputs.float()
        if outputs.ndim == 1:
            outputs = outputs.unsqueeze(1)
        if outputs.ndim != 2 or len(outputs) != len(task):  # noqa: PLR2004
            raise ValueError(
                f"`network` must give one row of outputs per row of its input: expected shape "
                f"({len(task)}, outputs), got {tuple(outputs.shape)}."
            )
        if not self.is_mixed:
            return _row_losses(self._kinds[0], outputs, y, task)
        if y.ndim != 1:
            raise ValueError(
                f"`y` must have one label per row where tasks have different losses: expected shape "
                f"({len(outputs)},), got {tuple(y.shape)}."
            )
        result = outputs.new_zeros(len(outputs))
        kinds = torch.tensor([self._kinds.index(loss) for loss in self.of_task])[task]
        for number, kind in enumerate(self._kinds):
            rows = (kinds == number).nonzero().squeeze(1)
            here = rows.to(outputs.device)
            columns = outputs[here] if kind == "cross-entropy" else outputs[here, :1]
            part = _row_losses(kind, columns, y[here], task[rows])
            result = result.index_put((here,), part)
        return result

    def class_weights(self, y: Tensor, task: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """How much the class of each row counts, on the CPU; 1 without `class_weight`.

        Args:
            y: The labels.
            task: The index of each row's task.

        Raises:
            ValueError: If a label has no weight.
        """
        factors = torch.ones(len(task), dtype=torch.float64)
        for index, weights in self._class_weight.items():
            rows = (task == index).nonzero().squeeze(1)
            labels = y[rows.to(y.device)].cpu()
            if labels.ndim > 1:
                labels = labels.squeeze(1) if labels.shape[1] == 1 else labels
            _check_weighted(labels, weights, index)
            factors[rows] = weights[labels.long()]
        return factors


def _row_losses(kind: Loss, outputs: Tensor, y: Tensor, task: Tensor) -> Tensor:
    if kind == "cross-entropy":
        return _cross_entropy(outputs, y, task)
    labels = _as_columns(y, outputs, kind)
    known = ~labels.isnan()
    labels = labels.nan_to_num()
    if kind == "squared":
        values = (outputs - labels).square()
    else:
        _check_binary(labels)
        values = F.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
    return torch.where(known, values, 0).sum(1)


def _cross_entropy(outputs: Tensor, y: Tensor, task: Tensor) -> Tensor:
    n_classes = outputs.shape[1]
    if y.ndim == 2 and y.shape[1] == 1:  # noqa: PLR2004
        y = y.squeeze(1)
    if y.shape != (len(outputs),):
        raise ValueError(
            f"`y` must hold one class per row for losses='cross-entropy': expected shape "
            f"({len(outputs)},), got {tuple(y.shape)}. Labels with columns go with 'binary'."
        )
    label = y.long().clamp(0, n_classes - 1)
    is_class = label == y
    if outputs.device.type == "cpu":
        has_output = outputs.gather(1, label.unsqueeze(1)).squeeze(1) != -torch.inf
        _check_classes(outputs, y, is_class & has_output, task)
    losses = F.cross_entropy(outputs, label, reduction="none")
    # Where labels cannot be looked at without waiting for the device, a wrong one gives infinity.
    return torch.where(is_class, losses, torch.inf)


def _check_classes(outputs: Tensor, y: Tensor, is_class: Tensor, task: Tensor) -> None:
    """Raise unless all labels are classes of their tasks; other outputs that are not finite pass."""
    largest = torch.finfo(outputs.dtype).max ** 0.5
    if bool(is_class.all()):
        return
    for row in (~is_class).nonzero().squeeze(1).tolist():
        # −∞ in a column says that the task has no such class, unless others say that training has failed.
        scores = outputs[row][outputs[row] != -torch.inf]
        has_failed = not bool((scores.abs() < largest).all())
        n_classes, label = len(scores), float(y[row])
        if not has_failed and (not label.is_integer() or not 0 <= label < n_classes):
            raise ValueError(
                f"`y` must hold classes of the row's task: expected 0 to {n_classes - 1} for task "
                f"{int(task[row])}, got {label:g}."
            )


def _as_columns(y: Tensor, outputs: Tensor, kind: Loss) -> Tensor:
    """The labels in the shape of the outputs."""
    columns = y.unsqueeze(1) if y.ndim == 1 else y
    if columns.shape != outputs.shape:
        expected = f"({len(outputs)}, {outputs.shape[1]})"
        if outputs.shape[1] == 1:
            expected = f"({len(outputs)},) or {expected}"
        raise ValueError(
            f"`y` must have one label per output for losses={kind!r}: expected shape {expected}, got "
            f"{tuple(y.shape)}. Set `n_outputs` of the network to the number of labels."
        )
    return columns.to(outputs.dtype)


def _check_binary(labels: Tensor) -> None:
    if labels.device.type != "cpu":
        return
    wrong = labels[(labels != 0) & (labels != 1)]
    if len(wrong) > 0:
        raise ValueError(
            f"`y` must be 0 or 1 for losses='binary': got {float(wrong[0]):g}. Classes beyond two go with "
            f"'cross-entropy'."
        )


def _loss_per_task(losses: Any, n_tasks: int) -> tuple[Loss, ...]:
    if not isinstance(losses, Mapping):
        _check_loss(losses)
        return (losses,) * n_tasks
    for loss in losses.values():
        _check_loss(loss)
    if set(losses) != set(range(n_tasks)):
        wrong = sorted(set(range(n_tasks)) ^ set(losses), key=str)
        raise ValueError(
            f"`losses` must name a loss for every task: expected tasks 0 to {n_tasks - 1}, which differs "
            f"in {', '.join(map(str, wrong))}."
        )
    return tuple(losses[index] for index in range(n_tasks))


def _check_loss(loss: Any) -> None:
    if loss not in get_args(Loss):
        raise ValueError(
            f"`losses` must be losses by name: expected {', '.join(map(repr, get_args(Loss)))}, got "
            f"{loss!r}."
        )


def _class_weight_per_task(
    class_weight: ClassWeight, losses: tuple[Loss, ...]
) -> dict[int, Tensor]:
    if class_weight is None:
        return {}
    if not isinstance(class_weight, Mapping):
        class_weight = dict.fromkeys(range(len(losses)), class_weight)
    found = {}
    for index, values in class_weight.items():
        weights = to_tensor("class_weight", values).to(device="cpu", dtype=torch.float64)
        if weights.ndim != 1:
            raise ValueError(
                f"`class_weight` must hold one weight per class: expected one axis, got shape "
                f"{tuple(weights.shape)}. Weigh rows by `weight`."
            )
        if index not in range(len(losses)) or losses[index] == "squared":
            known = [str(task) for task, loss in enumerate(losses) if loss != "squared"]
            raise ValueError(
                f"`class_weight` must be for tasks with classes: expected some of "
                f"{', '.join(known) or 'none'}, got task {index}."
            )
        if losses[index] == "binary" and len(weights) != N_BINARY_CLASSES:
            raise ValueError(
                f"`class_weight` must hold the weights of 0 and of 1 for a binary task: got {len(weights)} "
                f"weights for task {index}."
            )
        if not bool((weights.isfinite() & (weights >= 0)).all()):
            raise ValueError(
                f"`class_weight` must be finite and not negative: got {weights.tolist()} for task {index}."
            )
        found[int(index)] = weights
    return found


def _check_weighted(labels: Tensor, weights: Tensor, index: int) -> None:
    if labels.ndim > 1:
        raise ValueError(
            f"`class_weight` must be None where rows have several labels: got y with {labels.shape[1]} "
            f"columns. Weigh rows by `weight`."
        )
    wrong = labels[~((labels >= 0) & (labels < len(weights)))]
    if len(wrong) > 0:
        raise ValueError(
            f"`class_weight` must hold a weight for every class: expected one for class "
            f"{float(wrong[0]):g} of task {index}, got {len(weights)} weights."
        )
