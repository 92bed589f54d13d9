"""Lets docstrings say "Example:", where griffe knows "Examples:" only."""

import re

import griffe

HEADING = re.compile(r"^Example:$", flags=re.MULTILINE)


class ExampleSections(griffe.Extension):
    """Has examples shown as code rather than as a remark."""

    def on_object(self, *, obj, **_):
        """Rename the heading in the docstring of `obj`, before the docstring is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = HEADING.sub("Examples:", obj.docstring.value)
