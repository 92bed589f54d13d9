"""Does the likelihood of a tensor normal distribution have a maximum?"""

from collections.abc import Sequence
from math import prod

__all__ = ["is_likelihood_bounded", "n_samples_needed"]


def is_likelihood_bounded(shape: Sequence[int], n_samples: int) -> bool:
    """Whether the likelihood of almost all samples is bounded above.

    Take the largest mode d and the product p of `n_samples` and all other modes. With d > p the likelihood is
    unbounded; with d = p or 2d ≤ p it is bounded; in between, it is bounded exactly when it is after d
    has been replaced by p − d.

    Args:
        shape: Sizes of the modes.
        n_samples: Number of samples, less one if their mean is estimated.

    Example:
        >>> is_likelihood_bounded((4, 5, 6), 1), is_likelihood_bounded((4, 30), 7)
        (True, False)
    """
    sizes = [*shape]
    if n_samples < 1:
        return False
    while True:
        sizes.sort()
        largest = sizes[-1]
        others = n_samples * prod(sizes[:-1])
        if largest > others:
            return False
        if largest == others or 2 * largest <= others:
            return True
        sizes[-1] = others - largest


def n_samples_needed(shape: Sequence[int], *, more_than: int = 0) -> int:
    """The smallest number of samples above `more_than` with which the likelihood is bounded.

    Args:
        shape: Sizes of the modes.
        more_than: A number of samples that is known not to do.

    Example:
        >>> n_samples_needed((4, 30))
        8
    """
    n_samples = more_than + 1
    while not is_likelihood_bounded(shape, n_samples):
        n_samples += 1
    return n_samples
