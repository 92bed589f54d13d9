"""What the rows of every class count."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ClassWeight", "check_class_weight", "class_factors"]

ClassWeight = Mapping[Any, float] | Literal["balanced"] | None


def check_class_weight(class_weight: ClassWeight, known: "list[Any]") -> None:
    """Refuse weights of classes that make no sense.

    A class that is not among those of y is a slip where other classes are left out. Where all have a
    weight it is one that these rows happen to lack, as a fold may.

    Args:
        class_weight: The setting.
        known: The classes of all tasks.

    Raises:
        ValueError: If a class is unknown, or a weight negative or not finite.
    """
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"`class_weight` must be None, 'balanced' or a mapping from class to weight: got "
            f"{class_weight!r}."
        )
    strangers = [label for label in class_weight if label not in known]
    if strangers and not all(label in class_weight for label in known):
        raise ValueError(
            f"`class_weight` must name classes of y: expected some of {', '.join(map(repr, known))}, got "
            f"{strangers[0]!r}."
        )
    for label, factor in class_weight.items():
        if not (np.isfinite(factor) and factor >= 0):
            raise ValueError(
                f"`class_weight` must be finite and not negative: got {factor} for class {label!r}."
            )


def class_factors(
    class_weight: ClassWeight,
    classes: "NDArray[Any]",
    y: "NDArray[np.float64]",
    *,
    weight: "NDArray[np.float64]",
) -> "NDArray[np.float64]":
    """The factor of every row's weight.

    Args:
        class_weight: Weights by class, classes left out count 1; "balanced" lets all classes weigh the same
            and leaves the sum of all weights alone; None means 1.
        classes: The classes.
        y: The position of each row's class.
        weight: What the rows count without it.
    """
    if class_weight is None:
        return np.ones_like(weight)
    position = y.astype(np.int64)
    if isinstance(class_weight, str):
        totals = np.bincount(position, weights=weight, minlength=len(classes))
        present = totals > 0
        factors = np.ones(len(classes))
        factors[present] = weight.sum() / (present.sum() * totals[present])
    else:
        factors = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    return factors[position]
