"""A covariance given as a matrix."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from multirel._annotations import Float
from multirel.exceptions import NotPositiveDefiniteError
from multirel.tensor_normal._checks import (
    check_finite,
    check_matrix,
    check_symmetric,
    positive_definite_error,
)
from multirel.tensor_normal._covariance import Covariance, ShrinkageTarget
from multirel.tensor_normal._matrix_shrinkage import shrink_matrix, symmetrize
from multirel.tensor_normal._modes import mode_product
from multirel.tensor_normal._spectrum import Spectrum

__all__ = ["DenseCovariance", "as_covariance"]


@final
class DenseCovariance(Covariance):
    """Σ as a matrix; its Cholesky factor and its eigenvectors are computed once, when first asked for.

    Densities and samples use the Cholesky factor, through which gradients pass, also where eigenvalues
    coincide; the eigenvectors serve `precision_spectrum`.

    Args:
        matrix: Symmetric positive definite matrix, or a batch of them.

    Raises:
        NotPositiveDefiniteError: When the factor is first needed and `matrix` has none.

    Example:
        >>> DenseCovariance(torch.tensor([[2.0, 0.0], [0.0, 4.0]])).solve(torch.ones(2))
        tensor([0.5000, 0.2500])
    """

    def __init__(self, matrix: Float[Tensor, "*batch d d"]) -> None:
        check_matrix("matrix", matrix)
        self.matrix = matrix
        # Plain attributes, since torch.compile does not trace functools.cached_property.
        self._factor: Tensor | None = None
        self._inverse: Tensor | None = None
        self._log_determinant: Tensor | None = None
        self._eigen: tuple[Tensor, Tensor] | None = None

    def factor(self) -> Float[Tensor, "*batch d d"]:
        """The lower Cholesky factor."""
        if self._factor is None:
            factor, failures = torch.linalg.cholesky_ex(self.matrix)
            if not torch.compiler.is_compiling() and bool(failures.any()):
                raise positive_definite_error("matrix", self.matrix)
            self._factor = factor
        return self._factor

    def _inverse_factor(self) -> Tensor:
        # Products with L⁻¹ are plain matrix products, several times faster than triangular solves
        # of the many short fibers of a tensor, and as accurate: L is triangular.
        if self._inverse is None:
            factor = self.factor()
            identity = torch.eye(self.size, dtype=self.dtype, device=self.device)
            self._inverse = torch.linalg.solve_triangular(
                factor, identity.expand_as(factor), upper=False
            )
        return self._inverse

    def __getstate__(self) -> dict[str, Tensor]:
        return {"matrix": self.matrix}

    def __setstate__(self, state: dict[str, Tensor]) -> None:
        self.__init__(state["matrix"])

    @property
    def size(self) -> int:
        return self.matrix.shape[-1]

    @property
    def rank(self) -> int:
        return self.size

    @property
    def batch_shape(self) -> torch.Size:
        return self.matrix.shape[:-2]

    @property
    def dtype(self) -> torch.dtype:
        return self.matrix.dtype

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    def matvec(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return mode_product(x, self.matrix, mode, batch_dims=batch_dims)

    def solve(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        white = mode_product(x, self._inverse_factor(), mode, batch_dims=batch_dims)
        return mode_product(white, self._inverse_factor().mT, mode, batch_dims=batch_dims)

    def color(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return mode_product(x, self.factor(), mode, batch_dims=batch_dims)

    def whiten(self, x: Tensor, mode: int = -1, *, batch_dims: int | None = None) -> Tensor:
        return mode_product(x, self._inverse_factor(), mode, batch_dims=batch_dims)

    def check(self, name: str) -> None:
        check_finite(name, self.matrix)
        check_symmetric(name, self.matrix)
        try:
            self.factor()
        except NotPositiveDefiniteError:
            raise positive_definite_error(name, self.matrix) from None

    def log_determinant(self) -> Float[Tensor, "*batch"]:
        if self._log_determinant is None:
            self._log_determinant = 2 * self.factor().diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return self._log_determinant

    def diagonal(self) -> Float[Tensor, "*batch d"]:
        return self.matrix.diagonal(dim1=-2, dim2=-1)

    def dense(self) -> Float[Tensor, "*batch d d"]:
        return self.matrix

    def precision_spectrum(self) -> Spectrum:
        if self._eigen is None:
            values, vectors = torch.linalg.eigh(symmetrize(self.matrix))
            if not torch.compiler.is_compiling() and bool((values <= 0).any()):
                raise positive_definite_error("matrix", self.matrix)
            self._eigen = values, vectors
        values, vectors = self._eigen
        precisions = values.reciprocal()
        return Spectrum(basis=vectors, inside=precisions, outside=torch.zeros_like(values[..., 0]))

    def shrink(self, amount: float, target: ShrinkageTarget = "identity") -> "DenseCovariance":
        return DenseCovariance(shrink_matrix(self.matrix, amount, target))

    def scaled(self, factor: Float[Tensor, "*batch"] | float) -> "DenseCovariance":
        factor = torch.as_tensor(factor, dtype=self.dtype, device=self.device)
        return DenseCovariance(self.matrix * factor[..., None, None])

    def select(self, indices: Sequence[int]) -> "DenseCovariance":
        rows = torch.as_tensor(indices, device=self.device)
        return DenseCovariance(self.matrix.index_select(-2, rows).index_select(-1, rows))

    def condition(
        self, observed: Sequence[int], rest: Sequence[int]
    ) -> tuple[Float[Tensor, "*batch rest observed"], Covariance]:
        rows = torch.as_tensor(rest, device=self.device)
        columns = torch.as_tensor(observed, device=self.device)
        cross = self.matrix.index_select(-2, rows).index_select(-1, columns)
        gain = self.select(observed).solve(cross, batch_dims=len(self.batch_shape))
        schur = self.select(rest).matrix - gain @ cross.mT
        return gain, DenseCovariance(symmetrize(schur))

    def to(self, *args: Any, **kwargs: Any) -> "DenseCovariance":
        return DenseCovariance(self.matrix.to(*args, **kwargs))


def as_covariance(value: Float[Tensor, "*batch d d"] | Covariance) -> Covariance:
    """A covariance object as it is, a tensor as a `DenseCovariance`."""
    return value if isinstance(value, Covariance) else DenseCovariance(value)
