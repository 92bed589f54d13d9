"""A linear layer per task whose weights are a product of factors that tasks share.

Yang, Hospedales: Deep multi-task representation learning, a tensor factorisation approach. ICLR 2017.
"""

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from multirel._annotations import Float, Int
from multirel.exceptions import NotFiniteError
from multirel.networks._factorization import (
    FACTOR_NAMES,
    Factorization,
    Ranks,
    check_factorization,
    compose,
    factorize,
    input_basis,
    random_factors,
)
from multirel.networks._rows_by_task import RowsByTask
from multirel.networks._task_linear import check_features, draw_stack, multiply_by_task
from multirel.networks._task_names import check_size, name_tasks

__all__ = ["FactorizedTaskLinear"]

N_AXES = 3
"""Tasks, outputs and inputs."""


class FactorizedTaskLinear(nn.Module):
    """A linear layer per task whose weights "T O I" are composed of factors that are learned.

    The factors are the parameters; biases are not shared. `weight` composes the stack. It is no native
    stack: a factorization relates the tasks by itself, so priors do not look for it.

    Attributes:
        factors: The factors by name: "core", "task", "output" and "input" for Tucker; "task", "output"
            and "input" for a tensor train; "task" and "layers" for LAF, where each task combines
            shared layers.
        bias: One bias per task and output, "T O", or None.
        tasks: The names of the tasks.
        factorization: The form of the factors.

    Args:
        tasks: The number of tasks, or their names.
        in_features: Inputs I of every task.
        out_features: Outputs O of every task.
        factorization: "tucker", "tt" (tensor train) or "laf".
        ranks: Three ranks (task, output, input) for Tucker, two for a tensor train, one for LAF; an
            int is each of them, as far as the sizes allow; None are the largest, with which every
            stack can be composed.
        bias: Whether there is a bias.
        equal_start: Whether all tasks start with the same random weights.
        device: Where the factors are.
        dtype: Floating type of the factors.

    Raises:
        TypeError: If `tasks` is neither a number nor names, or a size is no whole number.
        ValueError: If there is no such factorization, or `ranks` or another argument does not fit.

    Example:
        >>> layer = FactorizedTaskLinear(5, 20, 3, factorization="tucker", ranks=(2, 3, 4))
        >>> layer.weight.shape, layer.factors["core"].shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 4]))
        >>> layer(torch.randn(2, 20), torch.tensor([4, 1])).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        tasks: int | Sequence[str],
        in_features: int,
        out_features: int,
        *,
        factorization: Factorization,
        ranks: Ranks = None,
        bias: bool = True,
        equal_start: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size("in_features", in_features)
        check_size("out_features", out_features)
        check_factorization(factorization)
        self.tasks = name_tasks(tasks)
        self.in_features, self.out_features = in_features, out_features
        self.factorization: Factorization = factorization
        factors = random_factors(
            (len(self.tasks), out_features, in_features),
            factorization,
            ranks=ranks,
            equal_start=equal_start,
            device=device,
            dtype=dtype,
        )
        self.factors = nn.ParameterDict(_named(factors, factorization))
        self.bias: nn.Parameter | None
        if bias:
            bound = 1 / sqrt(in_features)
            zeros = torch.zeros(len(self.tasks), out_features, device=device, dtype=dtype)
            self.bias = nn.Parameter(zeros)
            with torch.no_grad():
                draw_stack(self.bias, bound, is_equal=equal_start)
        else:
            self.register_parameter("bias", None)

    @property
    def n_tasks(self) -> int:
        """The number of tasks T."""
        return len(self.tasks)

    @property
    def weight(self) -> Float[Tensor, "T O I"]:
        """The stack that the factors compose."""
        return compose(self._ordered_factors(), self.factorization)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the factors."""
        if self.factorization == "tucker":
            return tuple(self.factors["core"].shape)
        first = self.factors["task"].shape[1]
        return (first,) if self.factorization == "laf" else (first, self.factors["input"].shape[0])

    def forward(
        self, x: Float[Tensor, "n *rest I"], task: Int[Tensor, "n"] | int | RowsByTask
    ) -> Float[Tensor, "n *rest O"]:
        """Every row of `x` multiplied by the composed weights of its task.

        What all tasks share on the side of the inputs is multiplied first, so the whole stack is
        composed for LAF only.

        Args:
            x: Inputs; axes between the rows and the features are kept.
            task: The task of each row, as for `TaskLinear`.

        Raises:
            TypeError: If `task` is no tensor of whole numbers, or `x` has another floating type.
            ValueError: If `x` has another number of features, or `task` another number of rows or an
                index of no task.
        """
        factors = self._ordered_factors()
        basis = input_basis(factors, self.factorization)
        if basis is None:
            return multiply_by_task(x, task, weight=self.weight, bias=self.bias)
        check_features(x, basis.mT)
        reduced = compose(factors[:-1], self.factorization)
        return multiply_by_task(x @ basis, task, weight=reduced, bias=self.bias)

    @classmethod
    def from_weights(
        cls,
        weight: Float[Tensor, "T O I"],
        factorization: Factorization,
        *,
        ranks: Ranks = None,
        relative_error: float = 0.1,
        bias: Float[Tensor, "T O"] | None = None,
        tasks: Sequence[str] | None = None,
    ) -> "FactorizedTaskLinear":
        """The layer whose factors come from trained weights, by truncated SVDs.

        Args:
            weight: Weights of every task, such as those of single-task training.
            factorization: "tucker" (higher-order SVD), "tt" (TT-SVD) or "laf" (SVD).
            ranks: The ranks; None takes small ones that keep the weights within `relative_error`.
            relative_error: The largest ‖W − Ŵ‖ / ‖W‖ where ranks are not given.
            bias: Biases of every task.
            tasks: The names of the tasks; None names them by number.

        Raises:
            TypeError: If `weight` holds no floating point numbers.
            ValueError: If an argument does not fit the weights.
            NotFiniteError: If `weight` holds NaN or infinity.

        Example:
            >>> weight = torch.ones(5, 3, 1) * torch.arange(20.0)
            >>> FactorizedTaskLinear.from_weights(weight, "tucker").ranks
            (1, 1, 1)
        """
        check_factorization(factorization)
        if not 0 <= relative_error < 1:
            raise ValueError(
                f"`relative_error` must be at least 0 and below 1: got {relative_error}."
            )
        _check_given(weight, bias)
        n_tasks, n_outputs, n_inputs = weight.shape
        names = name_tasks(n_tasks if tasks is None else tasks)
        if len(names) != n_tasks:
            raise ValueError(
                f"`tasks` must name every slice of `weight`: expected {n_tasks} names, "
                f"got {len(names)}."
            )
        with torch.no_grad():
            factors = factorize(
                weight.detach(), factorization, ranks=ranks, relative_error=relative_error
            )
        layer = cls(
            names, n_inputs, n_outputs, factorization=factorization, ranks=1, bias=bias is not None
        )
        layer.factors = nn.ParameterDict(_named(factors, factorization))
        if bias is not None:
            layer.bias = nn.Parameter(bias.detach().clone())
        return layer

    def _ordered_factors(self) -> tuple[Tensor, ...]:
        """The factors in the order of the formulas, which a `ParameterDict` does not keep."""
        return tuple(self.factors[name] for name in FACTOR_NAMES[self.factorization])

    def extra_repr(self) -> str:
        """The sizes, as `repr` shows them."""
        return (
            f"n_tasks={self.n_tasks}, in_features={self.in_features}, "
            f"out_features={self.out_features}, factorization={self.factorization!r}, "
            f"ranks={self.ranks}, bias={self.bias is not None}"
        )


def _check_given(weight: Tensor, bias: Tensor | None) -> None:
    """Raise unless `weight` is a stack of numbers, and `bias` has one for every task and output."""
    if weight.ndim != N_AXES:
        raise ValueError(
            f"`weight` must have axes for tasks, outputs and inputs: expected three, "
            f"got shape {tuple(weight.shape)}."
        )
    if not weight.is_floating_point():
        raise TypeError(
            f"`weight` must hold floating point numbers: got {weight.dtype}. Use `weight.float()`."
        )
    if not bool(torch.isfinite(weight).all()):
        raise NotFiniteError("`weight` must be finite: got NaN or infinity. Check the training.")
    if bias is not None and bias.shape != weight.shape[:2]:
        raise ValueError(
            f"`bias` must have one entry per task and output: expected shape "
            f"{tuple(weight.shape[:2])}, got {tuple(bias.shape)}."
        )


def _named(factors: Sequence[Tensor], factorization: Factorization) -> dict[str, nn.Parameter]:
    names = FACTOR_NAMES[factorization]
    return {n: nn.Parameter(f.contiguous()) for n, f in zip(names, factors, strict=True)}
