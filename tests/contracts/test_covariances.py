"""Every type of covariance against a dense matrix: one suite, one table of cases."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from multirel.exceptions import NotPositiveDefiniteError
from multirel.tensor_normal import (
    Covariance,
    DenseCovariance,
    IdentityCovariance,
    LowRankCovariance,
    PseudoInverseCovariance,
)
from tests.builders import positive_definite, rotation, singular, spectrum
from tests.environment import DEVICE, DTYPE, array, assert_close, tensor
from tests.reference import dense

SIZE = 5
FACTOR = 10.0
"""Room for a product of several matrices."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A covariance and the dense matrix that it stands for."""

    covariance: Covariance
    matrix: np.ndarray

    @property
    def batch(self) -> tuple[int, ...]:
        return self.matrix.shape[:-2]

    def over_batch(self, function: Callable[[np.ndarray], object]) -> np.ndarray:
        """`function` of every matrix of the batch."""
        results = [function(self.matrix[index]) for index in np.ndindex(*self.batch)]
        return np.reshape(np.array(results), (*self.batch, *np.shape(results[0])))

    def times(self, matrices: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Every matrix of the batch times its vector."""
        return np.einsum("...ij,...j->...i", matrices, x)

    def vectors(self, seed: int = 1) -> np.ndarray:
        """One vector per matrix of the batch."""
        return np.random.default_rng(seed).standard_normal((*self.batch, SIZE))


def dense_case(batch: tuple[int, ...] = ()) -> Case:
    matrix = positive_definite(np.random.default_rng(0), SIZE, batch=batch)
    return Case(covariance=DenseCovariance(tensor(matrix)), matrix=matrix)


def identity_case() -> Case:
    covariance = IdentityCovariance(SIZE, dtype=DTYPE, device=DEVICE)
    return Case(covariance=covariance, matrix=np.eye(SIZE))


def low_rank_case(rank: int, batch: tuple[int, ...] = ()) -> Case:
    rng = np.random.default_rng(0)
    bases = np.empty((*batch, SIZE, rank))
    for index in np.ndindex(*batch):
        bases[index] = rotation(rng, SIZE)[:, :rank]
    eigenvalues = np.broadcast_to(spectrum(rank, 4.0), (*batch, rank)).copy()
    complement = np.full(batch, 0.3)
    projection = bases @ np.swapaxes(bases, -1, -2)
    matrix = (bases * eigenvalues[..., None, :]) @ np.swapaxes(bases, -1, -2)
    matrix = matrix + 0.3 * (np.eye(SIZE) - projection)
    covariance = LowRankCovariance(tensor(bases), tensor(eigenvalues), tensor(complement))
    return Case(covariance=covariance, matrix=matrix)


def pseudo_inverse_case(rank: int, batch: tuple[int, ...] = ()) -> Case:
    matrix = singular(np.random.default_rng(0), SIZE, rank, batch=batch)
    return Case(covariance=PseudoInverseCovariance(tensor(matrix)), matrix=matrix)


CASES: dict[str, Callable[[], Case]] = {
    "dense": dense_case,
    "dense-batched": lambda: dense_case((3,)),
    "dense-batched-twice": lambda: dense_case((2, 3)),
    "identity": identity_case,
    "low-rank": lambda: low_rank_case(2),
    "low-rank-batched": lambda: low_rank_case(2, (3,)),
    "low-rank-none": lambda: low_rank_case(0),
    "low-rank-none-batched": lambda: low_rank_case(0, (3,)),
    "low-rank-all": lambda: low_rank_case(SIZE),
    "pseudo-inverse": lambda: pseudo_inverse_case(3),
    "pseudo-inverse-batched": lambda: pseudo_inverse_case(3, (2,)),
    "pseudo-inverse-of-full-rank": lambda: pseudo_inverse_case(SIZE),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def columns(function: Callable[[torch.Tensor], torch.Tensor], case: Case) -> np.ndarray:
    """The matrices, "*batch d d", of the linear map `function`, a column at a time."""
    units = [np.broadcast_to(unit, (*case.batch, SIZE)).copy() for unit in np.eye(SIZE)]
    return np.stack([array(function(tensor(unit))) for unit in units], axis=-1)


def transposed(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2)


def test_size_batch_dtype_and_device_are_those_of_the_matrix(case: Case):
    """The properties say what `dense()` returns."""
    covariance = case.covariance
    assert covariance.size == SIZE
    assert tuple(covariance.batch_shape) == case.batch
    assert covariance.dtype == covariance.dense().dtype == DTYPE
    assert covariance.device.type == covariance.dense().device.type == DEVICE.type


def test_dense_is_the_matrix(case: Case):
    """`dense()` forms Σ, symmetric."""
    assert_close(case.covariance.dense(), case.matrix)


def test_written_out_as_dense_it_is_the_same_covariance(case: Case):
    """`DenseCovariance(covariance.dense())` converts; without its zero eigenvalues where it has some."""
    matrix = case.covariance.dense()
    if case.covariance.rank < SIZE:
        matrix = matrix - 1e-3 * torch.eye(SIZE, dtype=DTYPE, device=DEVICE)
        with pytest.raises(NotPositiveDefiniteError, match="use PseudoInverseCovariance"):
            DenseCovariance(matrix).log_determinant()
        return
    x = tensor(case.vectors())
    converted = DenseCovariance(matrix)
    assert_close(converted.solve(x), case.covariance.solve(x), factor=FACTOR)
    assert_close(converted.log_determinant(), case.covariance.log_determinant(), factor=FACTOR)


def test_rank_counts_eigenvalues_above_zero(case: Case):
    """Full for all types but the pseudo-inverse of a singular matrix."""
    assert case.covariance.rank == dense.rank(case.matrix.reshape(-1, SIZE, SIZE)[0])


def test_matvec_is_the_matrix_product(case: Case):
    """Σ x along the last axis."""
    x = case.vectors()
    assert_close(case.covariance.matvec(tensor(x)), case.times(case.matrix, x))


def test_solve_is_the_pseudo_inverse_times_the_vector(case: Case):
    """Σ⁻¹ x, or Σ⁺ x where Σ is singular."""
    x = case.vectors()
    expected = case.times(case.over_batch(dense.symmetric_pseudo_inverse), x)
    assert_close(case.covariance.solve(tensor(x)), expected, factor=FACTOR)


def test_color_is_a_square_root(case: Case):
    """F Fᵀ = Σ for the matrix F of the linear map `color`."""
    factor = columns(case.covariance.color, case)
    assert_close(factor @ transposed(factor), case.matrix, factor=FACTOR)


def test_whiten_is_a_square_root_of_the_precision(case: Case):
    """Gᵀ G = Σ⁻¹ (Σ⁺) for the matrix G of the linear map `whiten`."""
    factor = columns(case.covariance.whiten, case)
    expected = case.over_batch(dense.symmetric_pseudo_inverse)
    assert_close(transposed(factor) @ factor, expected, factor=FACTOR)


def test_whitening_undoes_coloring(case: Case):
    """The covariance of whitened samples is the projection on the span of Σ: G Σ Gᵀ has that rank of ones."""
    factor = columns(case.covariance.whiten, case)
    whitened = factor @ case.matrix @ transposed(factor)
    assert_close(whitened @ whitened, whitened, factor=FACTOR)
    assert_close(np.trace(whitened, axis1=-2, axis2=-1), np.full(case.batch, case.covariance.rank))


def test_factor_is_the_matrix_of_color(case: Case):
    """`factor()` is "*batch d d", and its product with its transpose is Σ."""
    factor = array(case.covariance.factor())
    assert_close(factor @ transposed(factor), case.matrix, factor=FACTOR)
    assert_close(factor, columns(case.covariance.color, case), factor=FACTOR)


def test_log_determinant_sums_log_eigenvalues(case: Case):
    """ln|Σ|, of the eigenvalues kept."""
    expected = case.over_batch(dense.log_pseudo_determinant)
    assert_close(case.covariance.log_determinant(), expected, factor=FACTOR)


def test_trace_and_diagonal_are_those_of_the_matrix(case: Case):
    """tr Σ and diag Σ without forming Σ."""
    assert_close(case.covariance.trace(), np.trace(case.matrix, axis1=-2, axis2=-1))
    assert_close(case.covariance.diagonal(), np.diagonal(case.matrix, axis1=-2, axis2=-1))


@pytest.mark.parametrize("amount", [0.0, 0.3, 1.0])
def test_shrinking_to_identity_mixes_with_the_mean_eigenvalue(case: Case, amount: float):
    """(1 − a) Σ + a (tr Σ / d) I."""
    target = case.over_batch(lambda matrix: np.trace(matrix) / SIZE * np.eye(SIZE))
    expected = (1 - amount) * case.matrix + amount * target
    assert_close(case.covariance.shrink(amount).dense(), expected)


@pytest.mark.parametrize("amount", [0.3, 1.0])
def test_shrinking_to_constant_correlation_mixes_with_the_projection(case: Case, amount: float):
    """(1 − a) Σ + a T with T the orthogonal projection of Σ on span{I, 11ᵀ}, which keeps the trace."""
    target = case.over_batch(dense.constant_correlation_target)
    expected = (1 - amount) * case.matrix + amount * target
    shrunk = case.covariance.shrink(amount, target="constant-correlation")
    assert_close(shrunk.dense(), expected)
    assert_close(shrunk.trace(), np.trace(case.matrix, axis1=-2, axis2=-1))


@pytest.mark.parametrize("amount", [-0.1, 1.5])
def test_shrinking_by_more_than_everything_is_an_error(case: Case, amount: float):
    """The amount is a weight."""
    with pytest.raises(ValueError, match=r"`shrinkage` must be a weight: expected 0 to 1, got"):
        case.covariance.shrink(amount)


def test_shrinking_to_an_unknown_target_names_the_known_ones(case: Case):
    """The message lists both targets."""
    with pytest.raises(ValueError, match="'identity' or 'constant-correlation': got 'diagonal'"):
        case.covariance.shrink(0.1, target="diagonal")


def test_scaled_multiplies_the_matrix(case: Case):
    """c Σ is the same type, c a number."""
    scaled = case.covariance.scaled(2.5)
    assert_close(scaled.dense(), 2.5 * case.matrix)
    assert scaled.rank == case.covariance.rank


def test_select_is_the_principal_submatrix(case: Case):
    """Rows and columns in the order asked for."""
    indices = [3, 0, 2]
    selected = case.covariance.select(torch.tensor(indices, device=DEVICE))
    expected = case.matrix[..., indices, :][..., :, indices]
    assert selected.size == len(indices)
    assert_close(selected.dense(), expected)


@pytest.mark.parametrize(("observed", "rest"), [([1], [4, 0, 2, 3]), ([3, 0], [1, 2, 4])])
def test_condition_is_the_regression_on_the_observed_entries(case: Case, observed, rest):
    """Gain Σ_RO Σ_OO⁺ and what is left, Σ_RR − Σ_RO Σ_OO⁺ Σ_OR."""

    def part(matrix, rows, columns):
        return matrix[np.ix_(rows, columns)]

    def gain(matrix):
        inverse = dense.symmetric_pseudo_inverse(part(matrix, observed, observed))
        return part(matrix, rest, observed) @ inverse

    def left(matrix):
        return part(matrix, rest, rest) - gain(matrix) @ part(matrix, observed, rest)

    actual, conditional = case.covariance.condition(observed, rest)

    expected = np.broadcast_to(case.over_batch(gain), np.shape(array(actual)))
    assert_close(actual, expected, factor=10 * FACTOR)
    assert_close(conditional.dense(), case.over_batch(left), factor=10 * FACTOR)


def test_to_moves_and_converts(case: Case):
    """`to` follows `Tensor.to`."""
    single = case.covariance.to(torch.float32)
    assert single.dtype == single.dense().dtype == torch.float32
    assert_close(single.dense(), case.matrix, dtype=torch.float32)
    assert single.rank == case.covariance.rank
    x = case.vectors()
    expected = case.times(case.over_batch(dense.symmetric_pseudo_inverse), x)
    solved = single.solve(tensor(x, dtype=torch.float32))
    assert_close(solved, expected, dtype=torch.float32, factor=FACTOR)
    assert case.covariance.to(device=DEVICE).device.type == DEVICE.type


def test_precision_spectrum_rebuilds_the_precision(case: Case):
    """U diag(inside) Uᵀ + outside (I − U Uᵀ) = Σ⁻¹ (Σ⁺)."""
    spectrum_ = case.covariance.precision_spectrum()
    expected = case.over_batch(dense.symmetric_pseudo_inverse)
    rebuilt = np.zeros_like(expected)
    projection = np.zeros_like(expected)
    if spectrum_.basis is not None:
        basis, inside = array(spectrum_.basis), array(spectrum_.inside)
        rebuilt = (basis * inside[..., None, :]) @ transposed(basis)
        projection = basis @ transposed(basis)
    if spectrum_.outside is None:
        assert_close(projection, np.broadcast_to(np.eye(SIZE), projection.shape))
    else:
        outside = array(spectrum_.outside)[..., None, None]
        rebuilt = rebuilt + outside * (np.eye(SIZE) - projection)
    assert_close(rebuilt, expected, factor=FACTOR)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_products_act_on_any_mode_with_batch_axes_in_front(case: Case, mode: int):
    """Σ along axis `mode` of "*batch 2 3 4" with one of the sizes that of Σ, and along no other."""
    shape = [2, 3, 4]
    shape[mode] = SIZE
    x = np.random.default_rng(2).standard_normal((*case.batch, *shape))
    axis = len(case.batch) + mode
    letters = "ijk"
    letter = letters[mode]
    equation = f"...z{letter},...{letters}->...{letters.replace(letter, 'z')}"
    expected = np.einsum(equation, case.matrix, x)

    for axis_ in (axis, axis - x.ndim):
        assert_close(case.covariance.matvec(tensor(x), axis_), expected, factor=FACTOR)
    solved = case.covariance.solve(tensor(expected), axis)
    projected = case.covariance.project(tensor(x), axis)
    assert_close(solved, array(projected), factor=FACTOR)


def test_projection_is_on_the_range_of_the_matrix(case: Case):
    """Σ Σ⁺ x: everything, unless Σ is singular."""
    x = case.vectors()
    onto = case.over_batch(lambda matrix: matrix @ dense.symmetric_pseudo_inverse(matrix))
    assert_close(case.covariance.project(tensor(x)), case.times(onto, x), factor=FACTOR)


def test_products_along_an_axis_of_another_size_are_errors(case: Case):
    """Both sizes are in the message."""
    x = torch.zeros(*case.batch, SIZE + 1, dtype=DTYPE, device=DEVICE)
    for product in (case.covariance.matvec, case.covariance.solve, case.covariance.color):
        with pytest.raises(ValueError, match=rf"{SIZE}.*got {SIZE + 1}|{SIZE + 1}.*got {SIZE}"):
            product(x)


def test_copies_and_pickles_are_equal(case: Case):
    """A covariance whose factors were already computed survives both."""
    case.covariance.log_determinant()
    x = tensor(case.vectors())
    solved = case.covariance.solve(x)
    for other in (copy.deepcopy(case.covariance), pickle.loads(pickle.dumps(case.covariance))):
        assert type(other) is type(case.covariance)
        assert_close(other.solve(x), array(solved))


def test_repr_says_type_and_size(case: Case):
    """And the batch shape where there is one."""
    text = repr(case.covariance)
    assert text.startswith(f"{type(case.covariance).__name__}(size={SIZE}")
    assert ("batch_shape" in text) == bool(case.batch)


def test_gradients_reach_the_parameters():
    """Every type is differentiable through solve and log_determinant."""
    rng = np.random.default_rng(0)
    x = tensor(rng.standard_normal(SIZE))
    matrix = tensor(positive_definite(rng, SIZE)).requires_grad_()
    covariance = DenseCovariance(matrix)
    (covariance.solve(x).square().sum() + covariance.log_determinant()).backward()
    assert matrix.grad is not None
    assert torch.isfinite(matrix.grad).all()

    eigenvalues = tensor(spectrum(2, 4.0)).requires_grad_()
    complement = tensor(0.3).requires_grad_()
    covariance = LowRankCovariance(tensor(rotation(rng, SIZE)[:, :2]), eigenvalues, complement)
    (covariance.solve(x).square().sum() + covariance.log_determinant()).backward()
    assert eigenvalues.grad is not None
    assert complement.grad is not None
