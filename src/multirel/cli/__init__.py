"""The command `multirel`: the only package that parses, prints and exits."""

from multirel.cli._main import main

__all__ = ["main"]
