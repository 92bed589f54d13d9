"""The distribution as torch knows distributions: shapes, arguments, copies, gradients, compilation."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence

from multirel.exceptions import NotFiniteError, NotPositiveDefiniteError
from multirel.tensor_normal import (
    DenseCovariance,
    IdentityCovariance,
    LowRankCovariance,
    PseudoInverseCovariance,
    TensorNormal,
)
from tests.builders import positive_definite, rotation, singular
from tests.environment import DEVICE, DTYPE, array, assert_close, tensor
from tests.reference import dense

SHAPE = (2, 3)


def standard(shape=SHAPE, **arguments):
    """The standard tensor normal of `shape`."""
    loc = torch.zeros(shape, dtype=DTYPE, device=DEVICE)
    eyes = [torch.eye(size, dtype=DTYPE, device=DEVICE) for size in shape]
    return TensorNormal(loc, eyes, **arguments)


def random(shape=SHAPE, batch=(), seed=0):
    """A random tensor normal, with batched covariances."""
    rng = np.random.default_rng(seed)
    matrices = [positive_definite(rng, size, batch=batch) for size in shape]
    loc = tensor(rng.standard_normal((*batch, *shape)))
    return TensorNormal(loc, [tensor(matrix) for matrix in matrices])


@pytest.mark.parametrize("loc_batch", [(), (4,), (3, 1)])
@pytest.mark.parametrize("covariance_batch", [(), (4,), (3, 4)])
def test_batch_shape_is_that_of_mean_and_covariances_together(loc_batch, covariance_batch):
    """They broadcast; a sample has "*sample *batch *event", a density "*sample *batch"."""
    rng = np.random.default_rng(0)
    first = tensor(positive_definite(rng, 2, batch=covariance_batch))
    loc = tensor(rng.standard_normal((*loc_batch, *SHAPE)))
    distribution = TensorNormal(loc, [first, IdentityCovariance(3, dtype=DTYPE, device=DEVICE)])

    batch = torch.broadcast_shapes(loc_batch, covariance_batch)
    assert distribution.batch_shape == batch
    assert distribution.event_shape == SHAPE
    assert distribution.order == 2
    assert distribution.mean.shape == distribution.variance.shape == (*batch, *SHAPE)
    assert distribution.entropy().shape == batch
    sample = distribution.rsample((5,))
    assert sample.shape == (5, *batch, *SHAPE)
    assert distribution.log_prob(sample).shape == (5, *batch)
    assert distribution.sample().shape == (*batch, *SHAPE)


def test_independent_moves_batch_axes_into_the_event():
    """`Independent` sums the log-densities of the batch."""
    distribution = random(batch=(4,))
    joint = Independent(distribution, 1)
    assert joint.batch_shape == ()
    assert joint.event_shape == (4, *SHAPE)
    x = joint.rsample((2,))
    assert_close(joint.log_prob(x), distribution.log_prob(x).sum(-1), factor=10)


def test_expand_keeps_the_law_and_refuses_other_shapes():
    """New axes in front, singletons repeated."""
    distribution = random(batch=(3,))
    expanded = distribution.expand((2, 3))
    assert expanded.batch_shape == (2, 3)
    assert expanded.rsample().shape == (2, 3, *SHAPE)
    assert_close(expanded.entropy(), distribution.entropy().expand(2, 3))
    assert_close(expanded.variance, distribution.variance.expand(2, 3, *SHAPE))
    with pytest.raises(RuntimeError):
        distribution.expand((2,))


def test_standard_tensor_normal_is_a_product_of_standard_normals():
    """All identities: torch's own Normal, summed."""
    x = torch.randn(SHAPE, dtype=DTYPE, device=DEVICE)
    normal = Normal(torch.zeros_like(x), torch.ones_like(x))
    assert_close(standard().log_prob(x), normal.log_prob(x).sum())
    assert_close(standard().entropy(), normal.entropy().sum())
    assert_close(standard().stddev, torch.ones(SHAPE))


def test_prior_in_a_plain_torch_model_pulls_related_rows_together():
    """Gradient steps on −ln p of correlated rows leave them closer than independent ones."""
    rows = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=DTYPE, device=DEVICE)
    gaps = []
    for first in (rows, torch.eye(2, dtype=DTYPE, device=DEVICE)):
        linear = torch.nn.Linear(3, 2, bias=False, dtype=DTYPE, device=DEVICE)
        torch.nn.init.constant_(linear.weight[0], 1.0)
        torch.nn.init.constant_(linear.weight[1], 0.5)
        eye = torch.eye(3, dtype=DTYPE, device=DEVICE)
        prior = TensorNormal(torch.zeros_like(linear.weight).detach(), [first, eye])
        optimizer = torch.optim.SGD(linear.parameters(), lr=0.05)
        for _ in range(5):
            optimizer.zero_grad()
            (-prior.log_prob(linear.weight)).backward()
            optimizer.step()
        gaps.append(float((linear.weight[0] - linear.weight[1]).norm().detach()))
    assert gaps[0] < 0.5 * gaps[1]


@pytest.mark.parametrize(
    "double", [lambda d: copy.deepcopy(d), lambda d: pickle.loads(pickle.dumps(d))]
)
def test_copies_and_pickles_are_the_same_law(double):
    """Also after factors were computed and kept."""
    distribution = random()
    x = distribution.sample()
    value = distribution.log_prob(x)
    other = double(distribution)
    assert_close(other.log_prob(x), value)
    assert other.event_shape == distribution.event_shape


@pytest.mark.parametrize("mode", [0, -2])
def test_marginal_of_one_slice_keeps_the_mode_with_size_one(mode):
    """A single number and a list of one are the same."""
    distribution = random()
    one, same = distribution.marginal({mode: 1}), distribution.marginal({mode: [1]})
    assert one.event_shape == same.event_shape == (1, 3)
    assert_close(one.variance, distribution.variance[1:])
    assert_close(one.mean, same.mean)


def test_conditioning_on_batches_of_values_makes_a_batch():
    """Axes in front of the value become batch axes of the result."""
    distribution = random((3, 2))
    values = tensor(np.random.default_rng(1).standard_normal((5, 2)))
    batch = distribution.condition(0, 1, values)
    assert batch.batch_shape == (5,)
    assert batch.event_shape == (2, 2)
    for value, mean in zip(values, batch.mean, strict=True):
        assert_close(distribution.condition(0, 1, value).mean, mean, factor=10)


def test_conditioning_on_a_negative_slice_counts_from_the_end():
    """As indices of a sequence do."""
    distribution = random((3, 2))
    value = torch.ones(2, dtype=DTYPE, device=DEVICE)
    one, same = distribution.condition(0, -1, value), distribution.condition(0, 2, value)
    assert_close(one.mean, same.mean)


@pytest.mark.parametrize(
    ("mode", "index", "value", "message"),
    [
        (2, 0, (3,), "`mode` must be one of the 2 modes: expected -2 to 1, got 2"),
        (0, 2, (3,), "must name slices of mode 0: expected -2 to 1, got 2"),
        (1, [0, 0], (2, 2), "must name each slice of mode 1 once"),
        (1, [], (2, 0), "must name at least one slice of mode 1"),
        (0, [0, 1], (2, 3), "must leave at least one slice of mode 0: got all 2"),
        (1, [0, 2], (2, 3), r"expected shape \(…, 2, 2\), got \(2, 3\)"),
    ],
)
def test_conditioning_on_what_does_not_exist_is_an_error(mode, index, value, message):
    """Mode, slice and value are each named."""
    with pytest.raises(ValueError, match=message):
        standard().condition(mode, index, torch.zeros(value, dtype=DTYPE, device=DEVICE))


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ({2: [0]}, "`mode` must be one of the 2 modes: expected -2 to 1, got 2"),
        ({1: [3]}, "must name slices of mode 1: expected -3 to 2, got 3"),
        ({0: [1, 1]}, "must name each slice of mode 0 once"),
        ({0: []}, "must name at least one slice of mode 0"),
    ],
)
def test_marginal_of_what_does_not_exist_is_an_error(indices, message):
    """Mode and slice are each named."""
    with pytest.raises(ValueError, match=message):
        standard().marginal(indices)


def test_sizes_that_do_not_match_are_an_error():
    """The message has the sizes of the covariances and the shape of the mean."""
    eyes = [torch.eye(2), torch.eye(3)]
    for shape in ((3, 2), (3,), (2, 2, 4)):
        with pytest.raises(ValueError, match=r"`loc` must end in the sizes .*\(…, 2, 3\), got"):
            TensorNormal(torch.zeros(shape), eyes)


def test_no_covariance_is_an_error():
    """K is at least 1."""
    with pytest.raises(ValueError, match="one covariance per mode: got none"):
        TensorNormal(torch.zeros(2), [])


def test_mixed_dtypes_are_an_error_naming_the_mode():
    """Nothing is converted behind the user's back."""
    eyes = [torch.eye(2), torch.eye(3, dtype=torch.float64)]
    message = r"`covariances\[1\]` must have the dtype .*torch.float32 .*got torch.float64"
    with pytest.raises(ValueError, match=message):
        TensorNormal(torch.zeros(2, 3), eyes)


def test_integer_mean_and_covariance_are_errors():
    """Each says which argument and what to call."""
    with pytest.raises(TypeError, match=r"`loc` must be of floating type: got torch.int64"):
        TensorNormal(torch.zeros(2, dtype=torch.int64), [torch.eye(2)])
    with pytest.raises(TypeError, match=r"must be of floating type: got torch.int64"):
        TensorNormal(torch.zeros(2), [torch.eye(2, dtype=torch.int64)])


def test_covariance_that_is_not_positive_definite_is_an_error_naming_mode_size_and_eigenvalue():
    """The smallest eigenvalue of [[1, 2], [2, 1]] is −1."""
    bad = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    message = r"`covariances\[1\]` of size 2 must be positive definite: .*eigenvalue of -1\."
    with pytest.raises(NotPositiveDefiniteError, match=message):
        TensorNormal(torch.zeros(3, 2), [torch.eye(3), bad], validate_args=True)


def test_covariance_that_is_not_symmetric_is_an_error_naming_the_mode():
    """With the size of the difference."""
    skewed = torch.tensor([[1.0, 0.5], [0.0, 1.0]])
    message = r"`covariances\[0\]` must be symmetric: .*got a difference of 0\.5"
    with pytest.raises(ValueError, match=message):
        TensorNormal(torch.zeros(2, 3), [skewed, torch.eye(3)], validate_args=True)


def test_roundoff_asymmetry_is_no_error():
    """A product A Aᵀ of single precision is symmetric up to its own roundoff."""
    root = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
    matrix = root @ root.mT / 40 + torch.eye(40)
    matrix[0, 1] += 1e-6
    TensorNormal(torch.zeros(40), [matrix], validate_args=True)


def test_values_that_are_not_finite_are_errors():
    """In the mean and in any covariance, with how many entries."""
    bad = torch.eye(3)
    bad[0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match=r"`covariances\[1\]` must be finite: .*1 of 9"):
        TensorNormal(torch.zeros(2, 3), [torch.eye(2), bad], validate_args=True)
    loc = torch.full((2, 3), torch.inf)
    with pytest.raises(NotFiniteError, match="`loc` must be finite: .*6 of 6"):
        TensorNormal(loc, [torch.eye(2), torch.eye(3)], validate_args=True)


def test_validation_can_be_turned_off():
    """Then values are not looked at, shapes still are."""
    bad = torch.tensor([[1.0, 0.5], [0.0, 1.0]])
    TensorNormal(torch.zeros(2), [bad], validate_args=False)
    with pytest.raises(ValueError, match="must end in the sizes"):
        TensorNormal(torch.zeros(3), [bad], validate_args=False)


def test_values_are_validated_when_arguments_are():
    """torch's own messages: support and shape of what is scored."""
    distribution = standard(validate_args=True)
    with pytest.raises(ValueError, match="support"):
        distribution.log_prob(torch.full(SHAPE, torch.nan, dtype=DTYPE, device=DEVICE))
    with pytest.raises(ValueError, match="shape"):
        distribution.log_prob(torch.zeros(2, 2, dtype=DTYPE, device=DEVICE))


def test_divergence_of_different_events_is_an_error():
    """Both shapes are in the message."""
    with pytest.raises(ValueError, match=r"one event shape: got \(2, 3\) and \(3, 2\)"):
        kl_divergence(standard(), standard((3, 2)))


def test_singular_distribution_has_density_zero_off_its_support():
    """And the density of its own dimension on it."""
    rng = np.random.default_rng(0)
    matrix = singular(rng, 3, 2)
    distribution = TensorNormal(
        torch.zeros(SHAPE, dtype=DTYPE, device=DEVICE),
        [torch.eye(2, dtype=DTYPE, device=DEVICE), PseudoInverseCovariance(tensor(matrix))],
    )
    on = rng.standard_normal(SHAPE) @ matrix
    expected = dense.log_density(on, np.zeros(SHAPE), [np.eye(2), matrix])
    assert_close(distribution.log_prob(tensor(on)), expected, factor=10)
    off = torch.randn(SHAPE, dtype=DTYPE, device=DEVICE)
    assert distribution.log_prob(off) == -torch.inf
    sample = distribution.rsample((100,))
    assert torch.isfinite(distribution.log_prob(sample)).all()


def test_singular_distribution_is_conditioned_on_its_support():
    """What one slice leaves open of the others; one that determines the others is an error."""
    rng = np.random.default_rng(0)
    matrices = [singular(rng, 4, 3), positive_definite(rng, 2)]
    loc = rng.standard_normal((4, 2))
    covariances = [PseudoInverseCovariance(tensor(matrices[0])), tensor(matrices[1])]
    distribution = TensorNormal(tensor(loc), covariances)
    on = loc + matrices[0] @ rng.standard_normal((4, 2))

    conditional = distribution.condition(0, [2], tensor(on[[2]]))

    mean, covariance = dense.condition(loc, matrices, 0, [2], on[[2]])
    assert_close(conditional.mean.flatten(), mean, factor=100)
    left = dense.kronecker([array(c.dense()) for c in conditional.covariances])
    assert_close(left, covariance, factor=100)
    assert torch.isfinite(conditional.log_prob(tensor(np.delete(on, 2, axis=0))))

    with pytest.raises(
        NotPositiveDefiniteError, match=r"the observed slices \[0, 1, 2\] determine"
    ):
        distribution.condition(0, [0, 1, 2], tensor(on[:3]))


@pytest.mark.parametrize("eigenvalues", [[], [3.0, 2.0], [2.0, 2.0]])
@pytest.mark.parametrize("law", ["marginal", "conditional"])
def test_gradients_of_low_rank_parts_are_those_of_dense_ones(eigenvalues, law):
    """Of marginals and conditionals, in the eigenvalues and the complement."""
    basis = rotation(np.random.default_rng(0), 5)[:, : len(eigenvalues)]
    gradients = []
    for kind in (LowRankCovariance, DenseCovariance):
        values = tensor(eigenvalues).requires_grad_()
        complement = tensor(0.5).requires_grad_()
        covariance = LowRankCovariance(tensor(basis), values, complement)
        if kind is DenseCovariance:
            covariance = DenseCovariance(covariance.dense())
        distribution = TensorNormal(tensor(np.zeros(5)), [covariance])
        if law == "marginal":
            part = distribution.marginal({0: [0, 1, 2]})
        else:
            part = distribution.condition(0, [3, 4], tensor(np.ones(2)))
        part.log_prob(tensor(np.arange(3.0))).backward()
        gradients.append(np.append(array(values.grad), array(complement.grad)))
    assert_close(*gradients, factor=100)


def test_divergence_of_singular_distributions_is_refused():
    """It is infinite unless the ranges agree."""
    matrix = PseudoInverseCovariance(torch.diag(torch.tensor([1.0, 0.0])))
    singular_ = TensorNormal(torch.zeros(2), [matrix])
    with pytest.raises(NotImplementedError, match="singular"):
        kl_divergence(singular_, singular_)


def test_low_rank_covariances_stay_low_rank_in_marginals():
    """The form is kept, so a marginal is as cheap."""
    rng = np.random.default_rng(0)
    covariance = LowRankCovariance.from_matrix(tensor(positive_definite(rng, 6)), 2)
    distribution = TensorNormal(torch.zeros(6, dtype=DTYPE, device=DEVICE), [covariance])
    marginal = distribution.marginal({0: [4, 1, 2, 5]})
    assert isinstance(marginal.covariances[0], LowRankCovariance)
    expected = array(covariance.dense())[np.ix_([4, 1, 2, 5], [4, 1, 2, 5])]
    assert_close(marginal.covariances[0].dense(), expected, factor=10)


def test_no_samples_are_samples_too():
    """A sample shape with a zero in it: the right shapes, no numbers."""
    distribution = standard(validate_args=True).expand((4,))
    nothing = distribution.rsample((0,))
    assert nothing.shape == (0, 4, *SHAPE)
    assert distribution.log_prob(nothing).shape == (0, 4)


def test_covariances_are_kept_as_given():
    """Objects as they are, tensors as `DenseCovariance`."""
    identity = IdentityCovariance(3)
    matrix = torch.eye(2)
    distribution = TensorNormal(torch.zeros(2, 3), [matrix, identity])
    assert distribution.covariances[1] is identity
    assert isinstance(distribution.covariances[0], DenseCovariance)
    assert distribution.covariances[0].dense() is matrix


def test_repr_says_the_event_shape():
    """And the batch shape where there is one."""
    assert "(2, 3)" in repr(standard())
    assert "(4,)" in repr(random(batch=(4,)))
