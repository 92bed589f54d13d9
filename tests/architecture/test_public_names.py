"""Names and signatures that users rely on. A change here is a change for them."""

import importlib
import inspect
import re
from itertools import chain

import pytest

SIGNATURES = {
    "multirel.tensor_normal": {
        "TensorNormal": "(loc, covariances, validate_args=None)",
        "TensorNormal.rsample": "(self, sample_shape=ANY)",
        "TensorNormal.log_prob": "(self, value)",
        "TensorNormal.entropy": "(self)",
        "TensorNormal.marginal": "(self, indices)",
        "TensorNormal.condition": "(self, mode, index, value)",
        "fit_tensor_normal": (
            "(samples, *, mean='estimate', start=None, shrinkage=0.0,"
            " shrinkage_target='identity', jitter=0.0, max_iterations=100, tolerance=1e-8)"
        ),
        "mode_product": "(weight, matrix, mode, *, batch_dims=None)",
        "unfold": "(weight, mode, *, batch_dims=0)",
        "fold": "(matrix, mode, shape)",
    },
}
"""Signatures without annotations, by package and name. ANY stands for any default."""

ATTRIBUTES = {
    "multirel": {"": {"__version__"}},
    "multirel.tensor_normal": {
        "TensorNormal": {"covariances", "order", "mean", "variance"},
        "TensorNormalFit": {"distribution", "log_likelihoods", "converged", "n_iterations"},
    },
}
"""Attributes, properties and fields, by package and name of the class."""


class _Any:
    """Equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


def _parameters(signature: inspect.Signature) -> list[tuple]:
    return [(p.name, p.kind, p.default) for p in signature.parameters.values()]


@pytest.mark.parametrize(
    ("package", "name", "expected"),
    [(package, *row) for package, rows in SIGNATURES.items() for row in rows.items()],
)
def test_signatures_are_those_that_users_know(package: str, name: str, expected: str):
    found = importlib.import_module(package)
    assert name.split(".")[0] in found.__all__
    for part in name.split("."):
        found = getattr(found, part)
    namespace = {"ANY": _Any()}
    exec(f"def function{expected}: ...", namespace)
    known = inspect.signature(namespace["function"])
    assert _parameters(known) == _parameters(inspect.signature(found))


@pytest.mark.parametrize(
    ("package", "name", "expected"),
    [(package, *row) for package, rows in ATTRIBUTES.items() for row in rows.items()],
)
def test_attributes_are_those_that_users_know(package: str, name: str, expected: set[str]):
    found = importlib.import_module(package)
    if name:
        assert name in found.__all__
        found = getattr(found, name)
    # Fields and attributes made by `__init__` are not in `dir` of the class.
    made = re.findall(r"\bself\.(\w+)\b.* = |^    (\w+):", inspect.getsource(found), re.MULTILINE)
    assert expected <= {*dir(found), *chain.from_iterable(made)}
