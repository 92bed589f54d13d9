"""Priors over shapes, modes, means and scales, against dense references, and what they promise to keep."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multirel.priors import TensorNormalPrior
from tests.environment import DTYPE, array, assert_close
from tests.properties.strategies import dtypes, seeds, shapes
from tests.reference import prior as reference
from tests.stacks import (
    MODES,
    covariances_of,
    prior_on,
    random_weight,
    related_weight,
    set_weight,
    weight_of,
)

FACTOR = 1000.0
RELATIVE = {"torch.float64": 1e-9, "torch.float32": 2e-4}[str(DTYPE)]
MEANS = ("zero", "initial", "task-average")
EXAMPLES = settings(max_examples=25)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A prior whose covariances were learned from one weight, and which now acts on another.

    Made when first asked for: strategies draw numbers only.
    """

    shape: tuple[int, ...]
    options: dict
    n_updates: int
    dtype: torch.dtype
    seed: int

    @cached_property
    def initial(self) -> np.ndarray:
        return random_weight(self.shape, self.seed)

    @cached_property
    def weight(self) -> np.ndarray:
        return related_weight(self.shape, self.seed + 1)

    @cached_property
    def _made(self) -> tuple[TensorNormalPrior, torch.nn.ModuleDict]:
        prior, network = prior_on(self.initial, dtype=self.dtype, **self.options)
        set_weight(network, related_weight(self.shape, self.seed + 2))
        for _ in range(self.n_updates):
            prior.update()
        set_weight(network, self.weight)
        return prior, network

    @property
    def prior(self) -> TensorNormalPrior:
        return self._made[0]

    @property
    def network(self) -> torch.nn.ModuleDict:
        return self._made[1]

    @property
    def is_on(self) -> list[bool]:
        (stack,) = self.prior.stacks
        return [mode in self.options["modes"] for mode in stack.modes]

    def deviation(self) -> np.ndarray:
        """W − M as far as M is fixed."""
        is_moved = self.options["mean"] == "initial"
        return self.weight - self.initial if is_moved else self.weight

    def precisions(self) -> list[np.ndarray]:
        """Q_k as the prior acts, by explicit inverses of its covariances."""
        found = []
        for mode, matrix in enumerate(covariances_of(self.prior)):
            if self.is_on[mode] and self.options["scale"] == "determinant":
                shrink = partial(reference.shrunk_precision, shrinkage=self.options["shrinkage"])
                found.append(shrink(matrix, jitter=1e-6))
            else:
                found.append(np.linalg.inv(matrix))
        if self.options["mean"] == "task-average":
            strength = self.options["mean_strength"]
            found[0] = reference.task_average_precision(found[0], strength)
        return found


def stack_shapes():
    """Two to four tasks with up to four more modes."""
    return shapes(min_order=2, max_order=5).filter(lambda shape: shape[0] > 1)


@st.composite
def cases(draw, *, means=MEANS, scales=("trace", "trace", "free", "determinant"), ranks=True):
    shape, dtype, seed = draw(stack_shapes()), draw(dtypes()), draw(seeds())
    names = MODES[len(shape)]
    scale = draw(st.sampled_from(scales))
    mean = draw(st.sampled_from(means))
    modes = draw(st.sets(st.sampled_from(names), min_size=1).map(sorted))
    options = {
        "modes": tuple(modes),
        "scale": scale,
        "mean": mean,
        "mean_strength": draw(st.sampled_from([0.0, 0.5])) if mean == "task-average" else 0.0,
    }
    if scale == "free":
        options["jitter"] = 0.3
    else:
        options["shrinkage"] = draw(st.sampled_from([0.2, 0.6]))
    if "task" in modes:
        options["start"] = draw(st.sampled_from([0.0, 0.3, 0.8]))
    if ranks and scale != "determinant":
        options["rank"] = draw(st.sampled_from([None, 1, 2]))
    if scale == "trace":
        targets = ("identity", "constant-correlation")
        options["shrinkage_target"] = draw(st.sampled_from(targets))
    n_updates = draw(st.sampled_from([0, 1, 2]))
    return Case(shape=shape, options=options, n_updates=n_updates, dtype=dtype, seed=seed)


@given(cases())
def test_penalty_and_gradient_are_those_of_the_dense_precision(case):
    """All modes on or off, K = 2 to 5, full or low rank, every mean and scale."""
    value = case.prior()
    value.backward()
    deviation, precisions = case.deviation(), case.precisions()
    expected = reference.half_distance(deviation, precisions) / 10
    assert_close(value, expected, dtype=case.dtype, factor=FACTOR)
    gradient = reference.gradient(deviation, precisions) / 10
    assert_close(case.network["a"].weight.grad, gradient, dtype=case.dtype, factor=FACTOR)


@given(cases(), st.sampled_from([1e-2, 1.0, 50.0]))
def test_application_is_the_dense_solve(case, rate):
    """W − M becomes (I + c P)⁻¹ (W − M) with c = (λ/N) times the learning rate."""
    optimizer = torch.optim.SGD(case.network.parameters(), lr=rate)
    expected = reference.prox(case.deviation(), case.precisions(), rate / 10)
    if case.options["mean"] == "initial":
        expected = expected + case.initial
    case.prior.apply(optimizer)
    assert_close(weight_of(case.network), expected, dtype=case.dtype, factor=FACTOR)


@EXAMPLES
@given(cases(), seeds())
def test_gradient_is_the_slope_of_the_penalty(case, seed):
    """The penalty is quadratic, so a central difference of any size is exact."""
    direction = np.random.default_rng(seed).standard_normal(case.weight.shape)
    case.prior().backward()
    slope = float((array(case.network["a"].weight.grad) * direction).sum())
    values = []
    for sign in (1, -1):
        set_weight(case.network, case.weight + sign * direction)
        values.append(array(case.prior()).item())
    assert_close((values[0] - values[1]) / 2, slope, dtype=case.dtype, factor=FACTOR)


@given(cases(ranks=False), st.integers(1, 2))
def test_updates_are_those_of_the_dense_reference(case, n_sweeps):
    """One sweep after another over the modes that are on, for every mean and scale."""
    steps = [_step(case) if is_on else None for is_on in case.is_on]

    def precision_of(mode, matrix):
        if case.is_on[mode] and case.options["scale"] == "determinant":
            shrinkage = case.options["shrinkage"]
            return reference.shrunk_precision(matrix, shrinkage=shrinkage, jitter=1e-6)
        return np.linalg.inv(matrix)

    expected = covariances_of(case.prior)
    for _ in range(n_sweeps):
        expected = reference.sweep(
            case.deviation(),
            expected,
            steps,
            precision_of=precision_of,
            center_tasks=case.options["mean"] == "task-average",
            task_strength=case.options["mean_strength"],
        )
        case.prior.update()
    for actual, matrix in zip(covariances_of(case.prior), expected, strict=True):
        assert_close(actual, matrix, dtype=case.dtype, factor=10 * FACTOR)


def _step(case):
    options = case.options
    if options["scale"] == "free":
        return lambda matrix: matrix + options["jitter"] * np.eye(len(matrix))
    if options["scale"] == "determinant":
        return partial(reference.unit_determinant, shrinkage=options["shrinkage"], jitter=1e-6)
    return partial(
        reference.trace_scaled,
        shrinkage=options["shrinkage"],
        target=options["shrinkage_target"],
        jitter=1e-6,
    )


@EXAMPLES
@given(cases(scales=("free", "determinant"), ranks=False))
def test_objective_never_increases_under_updates(case):
    """With a free scale and with unit determinants each covariance is an exact minimizer."""
    values = [array(case.prior.objective()).item()]
    for _ in range(4):
        case.prior.update()
        values.append(array(case.prior.objective()).item())
    roundoff = {torch.float64: 1e-9, torch.float32: 1e-3}[case.dtype]
    assert (np.diff(values) <= roundoff * (1 + np.abs(values[0]))).all()


@EXAMPLES
@given(stack_shapes(), seeds(), st.sampled_from(["free", "determinant"]), st.sampled_from(MEANS))
def test_objective_never_increases_under_updates_and_steps_of_the_weights(shape, seed, scale, mean):
    """F = ½‖W − A‖² + prior: exact steps in W by `apply`, exact steps in the covariances by `update`."""
    target = related_weight(shape, seed)
    options = {"jitter": 0.1} if scale == "free" else {"shrinkage": 0.2}
    prior, network = prior_on(random_weight(shape, seed + 1), scale=scale, mean=mean, **options)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)

    def objective():
        loss = ((weight_of(network) - target) ** 2).sum() / 2
        return loss + array(prior.objective()).item()

    set_weight(network, target)
    values = [objective()]
    for _ in range(6):
        # The minimizer of the loss plus the penalty is the proximal point of the target.
        set_weight(network, target)
        prior.apply(optimizer)
        values.append(objective())
        prior.update()
        values.append(objective())
    roundoff = {"torch.float64": 1e-10, "torch.float32": 1e-4}[str(DTYPE)]
    assert (np.diff(values) <= roundoff * (1 + np.abs(values[0]))).all()
    if scale == "determinant":
        assert min(values) >= 0


@settings(max_examples=8)
@given(stack_shapes(), seeds(), st.sampled_from(["logdet", "trace"]))
def test_updates_with_fixed_traces_settle_at_a_fixed_point(shape, seed, covariance_update):
    """The residual of Σ_k = shrunk S_k falls by orders of magnitude; tr Σ_k = d_k all along."""
    prior, _ = prior_on(
        related_weight(shape, seed),
        shrinkage=0.3,
        n_updates=None,
        covariance_update=covariance_update,
    )

    def residual():
        before = covariances_of(prior)
        prior.update()
        found = 0.0
        for one, other in zip(before, covariances_of(prior), strict=True):
            assert abs(np.trace(other) - len(other)) <= RELATIVE * len(other)
            found = max(found, np.abs(one - other).max() / len(one))
        return found

    residuals = [residual() for _ in range(50)]
    # Square roots of eigenvalues that are zero up to roundoff leave a noise of its square root.
    settled = RELATIVE if covariance_update == "logdet" else RELATIVE**0.5
    assert residuals[-1] <= max(1e-4 * residuals[0], settled)
    assert max(residuals[-5:]) <= max(max(residuals[5:10]), settled)


@EXAMPLES
@given(stack_shapes(), seeds(), st.sampled_from([1e-3, 0.1, 40.0]), st.sampled_from(MEANS))
def test_covariances_do_not_depend_on_the_scale_of_the_weights(shape, seed, scale, mean):
    """With fixed traces W and cW have the same covariances, and so have c(W − M)."""
    initial, weight = random_weight(shape, seed), related_weight(shape, seed + 1)
    found = []
    for factor in (1.0, scale):
        prior, network = prior_on(factor * initial, mean=mean)
        set_weight(network, factor * weight)
        prior.update()
        found.append(covariances_of(prior))
    for one, other in zip(*found, strict=True):
        assert_close(one, other, factor=FACTOR)


@EXAMPLES
@given(stack_shapes(), seeds())
def test_covariances_follow_the_order_of_the_tasks(shape, seed):
    """Permuted tasks have the permuted covariance, and the same penalty."""
    weight = related_weight(shape, seed)
    order = np.random.default_rng(seed).permutation(shape[0])
    prior, _ = prior_on(weight)
    other, _ = prior_on(weight[order])
    prior.update()
    other.update()
    assert_close(covariances_of(other)[0], covariances_of(prior)[0][np.ix_(order, order)])
    assert_close(other(), array(prior()), factor=FACTOR)
