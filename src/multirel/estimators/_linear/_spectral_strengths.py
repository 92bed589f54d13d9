"""Strengths that certified solutions need."""

import math
from numbers import Real
from typing import Any

__all__ = ["check_strength"]


def check_strength(name: str, value: Any, *, may_be_zero: bool = False) -> float:
    """The strength as a number.

    Args:
        name: The name of the setting.
        value: What the user gave.
        may_be_zero: Whether 0 is allowed.

    Raises:
        ValueError: If it is no finite number that is large enough.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number = float(value) if is_number else math.nan
    if not (math.isfinite(number) and (number > 0 or (may_be_zero and number == 0))):
        rule = "not be negative" if may_be_zero else "be above 0"
        hint = "" if may_be_zero else " Use a single-task model for no penalty at all."
        raise ValueError(f"`{name}` must {rule}: expected a finite number, got {value!r}.{hint}")
    return number
