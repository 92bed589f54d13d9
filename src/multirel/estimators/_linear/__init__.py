"""Convex problems of linear models of several tasks, and how they are solved."""

from multirel.estimators._linear._coordinates import Coordinates, standardized
from multirel.estimators._linear._design import Design
from multirel.estimators._linear._problem import LinearProblem, LinearSolution, Loss

__all__ = ["Coordinates", "Design", "LinearProblem", "LinearSolution", "Loss", "standardized"]
