"""Priors on the weights of related tasks: attach one to any layers of any network."""

from multirel.priors._attach import attach_prior
from multirel.priors._penalty import Penalty
from multirel.priors._stack import Stack
from multirel.priors._summary import PriorSummary, SummaryRow
from multirel.priors._task_relationship import TaskRelationship
from multirel.priors._tensor_normal_prior import TensorNormalPrior

__all__ = [
    "Penalty",
    "PriorSummary",
    "Stack",
    "SummaryRow",
    "TaskRelationship",
    "TensorNormalPrior",
    "attach_prior",
]
