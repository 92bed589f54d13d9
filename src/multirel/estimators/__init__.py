"""Estimators in scikit-learn's manners, whose rows belong to tasks."""

from multirel.estimators._dmtl import DMTLClassifier, DMTLRegressor
from multirel.estimators._load_estimator import load_estimator
from multirel.estimators._mean_regularized import (
    MeanRegularizedClassifier,
    MeanRegularizedRegressor,
)
from multirel.estimators._mrn import MRNClassifier, MRNRegressor
from multirel.estimators._mtfl import MTFLClassifier, MTFLRegressor
from multirel.estimators._mtrl import MTRLClassifier, MTRLRegressor
from multirel.estimators._pooled import PooledClassifier, PooledRegressor
from multirel.estimators._rmtl import RMTLClassifier, RMTLRegressor
from multirel.estimators._search_twins import (
    DMTLClassifierCV,
    DMTLRegressorCV,
    MeanRegularizedClassifierCV,
    MeanRegularizedRegressorCV,
    MRNClassifierCV,
    MRNRegressorCV,
    MTFLClassifierCV,
    MTFLRegressorCV,
    MTRLClassifierCV,
    MTRLRegressorCV,
    PooledClassifierCV,
    PooledRegressorCV,
    RMTLClassifierCV,
    RMTLRegressorCV,
    SharedNetworkClassifierCV,
    SharedNetworkRegressorCV,
    SingleTaskClassifierCV,
    SingleTaskRegressorCV,
)
from multirel.estimators._shared_network import SharedNetworkClassifier, SharedNetworkRegressor
from multirel.estimators._single_task import SingleTaskClassifier, SingleTaskRegressor

__all__ = [
    "DMTLClassifier",
    "DMTLClassifierCV",
    "DMTLRegressor",
    "DMTLRegressorCV",
    "MRNClassifier",
    "MRNClassifierCV",
    "MRNRegressor",
    "MRNRegressorCV",
    "MTFLClassifier",
    "MTFLClassifierCV",
    "MTFLRegressor",
    "MTFLRegressorCV",
    "MTRLClassifier",
    "MTRLClassifierCV",
    "MTRLRegressor",
    "MTRLRegressorCV",
    "MeanRegularizedClassifier",
    "MeanRegularizedClassifierCV",
    "MeanRegularizedRegressor",
    "MeanRegularizedRegressorCV",
    "PooledClassifier",
    "PooledClassifierCV",
    "PooledRegressor",
    "PooledRegressorCV",
    "RMTLClassifier",
    "RMTLClassifierCV",
    "RMTLRegressor",
    "RMTLRegressorCV",
    "SharedNetworkClassifier",
    "SharedNetworkClassifierCV",
    "SharedNetworkRegressor",
    "SharedNetworkRegressorCV",
    "SingleTaskClassifier",
    "SingleTaskClassifierCV",
    "SingleTaskRegressor",
    "SingleTaskRegressorCV",
    "load_estimator",
]
