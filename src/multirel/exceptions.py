"""Every exception and warning that multirel raises on purpose."""

__all__ = [
    "ConvergenceWarning",
    "MultirelError",
    "MultirelWarning",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "PriorCollapseWarning",
    "SavedModelError",
    "UnboundedLikelihoodError",
]


class MultirelError(Exception):
    """Base of the exceptions that a caller may want to catch."""


class NotPositiveDefiniteError(MultirelError, ValueError):
    """A covariance has an eigenvalue that is not above zero."""


class NotFiniteError(MultirelError, ValueError):
    """An input holds NaN or infinity."""


class UnboundedLikelihoodError(MultirelError, ValueError):
    """The likelihood has no maximum: too few samples for the shape."""


class SavedModelError(MultirelError, ValueError):
    """A folder holds no saved model, or one that is damaged, changed, or of another version."""


class MultirelWarning(UserWarning):
    """Base of the warnings that multirel gives."""


class ConvergenceWarning(MultirelWarning):
    """An iteration stopped before it settled."""


class PriorCollapseWarning(MultirelWarning):
    """A prior and the weights under it draw one another to zero."""
