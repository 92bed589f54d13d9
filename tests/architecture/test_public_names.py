"""Names and signatures that users rely on. A change here is a change for them."""

import importlib
import inspect
import re
from itertools import chain

import pytest

METHODS = (
    "SingleTask",
    "Pooled",
    "SharedNetwork",
    "MeanRegularized",
    "MTFL",
    "RMTL",
    "MTRL",
    "DMTL",
    "MRN",
)

CLASSIFIERS = [f"{method}Classifier" for method in METHODS]

ESTIMATORS = [*CLASSIFIERS, *[f"{method}Regressor" for method in METHODS]]

METHODS_OF_ESTIMATORS = {
    "fit": "(self, X, y, *, tasks=None, sample_weight=None)",
    "predict": "(self, X, *, tasks=None)",
    "score": "(self, X, y, *, tasks=None, sample_weight=None)",
    "add_task": "(self, X, y, *, name, sample_weight=None)",
    "save": "(self, path)",
}

OF_CLASSIFIERS = ("predict_proba", "predict_log_proba", "decision_function")

SIGNATURES = {
    "multirel.data": {
        "make_related_tasks": (
            "(n_tasks, n_samples, n_features, *, covariances=None, correlation=0.8, n_classes=None,"
            " noise=1.0, seed=0)"
        ),
    },
    "multirel.estimators": {
        f"{name}.{method}": signature
        for name in ESTIMATORS
        for method, signature in METHODS_OF_ESTIMATORS.items()
    }
    | {
        f"{name}.{method}": "(self, X, *, tasks=None)"
        for name in CLASSIFIERS
        for method in OF_CLASSIFIERS
    }
    | {"load_estimator": "(path, network=None)"},
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
    "multirel.priors": {
        "attach_prior": (
            "(network, layers, *, n_samples, strength=1.0, modes=('task', 'output', 'input'),"
            " shrinkage=None, shrinkage_target='identity', mean='zero', mean_strength=0.0, start=0.5,"
            " n_updates=1, update_every=100, apply_every='auto', rank='auto', scale='trace',"
            " covariance_update='logdet', inverse='ridge', jitter=1e-6, share_task_covariance=False,"
            " weighting='equal', application='proximal')"
        ),
        "TensorNormalPrior.from_preset": "(preset, network, layers, **settings)",
        "TensorNormalPrior.__call__": "(self)",
        "TensorNormalPrior.objective": "(self)",
        "TensorNormalPrior.step": "(self, optimizer=None)",
        "TensorNormalPrior.apply": "(self, optimizer)",
        "TensorNormalPrior.update": "(self)",
        "TensorNormalPrior.hold": "(self)",
        "TensorNormalPrior.correlations": "(self, layer, mode='task', raw=False)",
        "TensorNormalPrior.summary": "(self)",
        "TensorNormalPrior.state_dict": "(self)",
        "TensorNormalPrior.load_state_dict": "(self, state)",
        "TaskRelationship": "(tasks, *, start=0.5, shrinkage=0.1, weighting='equal')",
    },
    "multirel.networks": {
        "build_backbone": "(name, *, weights=None, frozen=False, output='features')",
        "MultitaskNetwork": (
            "(backbone, tasks, *, n_outputs, hidden_sizes=(), shared_layers=0, dropout=0.0,"
            " n_features=None, factorization=None, ranks=None)"
        ),
        "MultitaskNetwork.forward": "(self, x, task)",
        "TaskLinear": (
            "(tasks, in_features, out_features, bias=True, *, equal_start=False, device=None,"
            " dtype=None)"
        ),
        "TaskLinear.forward": "(self, x, task)",
        "TaskConv2d": (
            "(tasks, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,"
            " groups=1, bias=True, *, equal_start=False, device=None, dtype=None)"
        ),
        "TaskConv2d.forward": "(self, x, task)",
    },
}
"""Signatures without annotations, by package and name. ANY stands for any default."""

ATTRIBUTES = {
    "multirel": {"": {"__version__"}},
    "multirel.data": {
        "TaskData": {
            "X",
            "y",
            "tasks",
            "task_names",
            "class_names",
            "feature_names",
            "kind",
            "true_weights",
            "true_intercepts",
            "true_covariances",
        },
    },
    "multirel.tensor_normal": {
        "TensorNormal": {"covariances", "order", "mean", "variance"},
        "TensorNormalFit": {"distribution", "log_likelihoods", "converged", "n_iterations"},
    },
    "multirel.priors": {
        "TensorNormalPrior": {"application", "n_updates", "stacks"},
        "TaskRelationship": {
            "covariance",
            "correlations",
            "shrinkage",
            "start",
            "tasks",
            "weighting",
        },
        "Stack": {"layer", "modes", "n_weights", "order", "shape", "tasks"},
        "SummaryRow": {"layer", "shape", "modes", "rank", "condition", "strength", "cost"},
        "PriorSummary": {"rows"},
    },
    "multirel.networks": {
        "MultitaskNetwork": {"backbone", "heads", "n_outputs", "shared", "tasks"},
        "TaskLinear": {"bias", "stack_modes", "tasks", "weight"},
        "TaskConv2d": {"bias", "stack_modes", "tasks", "weight"},
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
