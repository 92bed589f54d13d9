"""Lets docstrings say "Example:", where griffe knows "Examples:" only, and reads them whole."""

import importlib
import inspect
import re

import griffe

HEADING = re.compile(r"^Example:$", flags=re.MULTILINE)

COMPLETED = "multirel.estimators."
"""Where decorators add sections to docstrings, which the source does not have."""


class ExampleSections(griffe.Extension):
    """Has examples shown as code rather than as a remark."""

    def on_object(self, *, obj, **_):
        """Rename the heading in the docstring of `obj`, before the docstring is parsed."""
        if obj.docstring is None:
            return
        if obj.is_class and obj.path.startswith(COMPLETED):
            module, _, name = obj.path.rpartition(".")
            found = getattr(importlib.import_module(module), name)
            obj.docstring.value = inspect.getdoc(found) or ""
        obj.docstring.value = HEADING.sub("Examples:", obj.docstring.value)
