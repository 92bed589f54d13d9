"""Computations that answer a question from start to end, and return the answer as a value."""

from multirel.experiments._recovery import Recovery, TaskPair, recover_covariances

__all__ = ["Recovery", "TaskPair", "recover_covariances"]
