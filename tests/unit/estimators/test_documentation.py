"""Docstrings of estimators say what every setting and every learned attribute is."""

import inspect
from dataclasses import dataclass, fields

import pytest

import multirel.estimators
from multirel.estimators._documentation import documented

ESTIMATORS = [
    found
    for name in multirel.estimators.__all__
    if inspect.isclass(found := getattr(multirel.estimators, name))
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda found: found.__name__)
def test_every_setting_is_explained(estimator):
    section = estimator.__doc__.split("Args:\n")[1].split("\n\n")[0]
    assert not [f.name for f in fields(estimator) if f"    {f.name}: " not in section]


@pytest.mark.parametrize(
    "estimator",
    [found for found in ESTIMATORS if not found.__name__.endswith("CV")],
    ids=lambda found: found.__name__,
)
def test_only_classifiers_have_classes(estimator):
    is_classifier = estimator.__name__.endswith("Classifier")
    assert ("    classes_: " in estimator.__doc__) == is_classifier


def test_sections_come_before_the_example():
    @documented(settings={"strength": "λ."}, attributes={"more_": "More."})
    @dataclass(kw_only=True)
    class Documented:
        """A thing.

        Example:
            >>> 1 + 1
            2
        """

        strength: float = 1.0

    doc = Documented.__doc__
    assert doc.startswith("A thing.\n\nArgs:\n    strength: λ.\n\nAttributes:\n    tasks_: ")
    assert doc.index("    more_: More.") < doc.index("Example:\n    >>> 1 + 1\n    2")


def test_a_setting_that_nobody_explained_is_an_error():
    with pytest.raises(KeyError, match="unknown"):

        @documented()
        @dataclass(kw_only=True)
        class Undocumented:
            """A thing."""

            unknown: int = 0
