"""The estimators that choose their settings by cross-validation: one for every estimator."""

from typing import final

from multirel.estimators._dmtl import DMTLClassifier, DMTLRegressor
from multirel.estimators._mean_regularized import (
    MeanRegularizedClassifier,
    MeanRegularizedRegressor,
)
from multirel.estimators._mrn import MRNClassifier, MRNRegressor
from multirel.estimators._mtfl import MTFLClassifier, MTFLRegressor
from multirel.estimators._mtrl import MTRLClassifier, MTRLRegressor
from multirel.estimators._pooled import PooledClassifier, PooledRegressor
from multirel.estimators._rmtl import RMTLClassifier, RMTLRegressor
from multirel.estimators._search import SearchedEstimator
from multirel.estimators._search_grid import (
    dmtl_grid,
    mean_regularized_grid,
    mrn_grid,
    mtfl_grid,
    mtrl_grid,
    pooled_grid,
    prior_grid,
    rmtl_grid,
)
from multirel.estimators._search_twin import twin_of
from multirel.estimators._shared_network import SharedNetworkClassifier, SharedNetworkRegressor
from multirel.estimators._single_task import SingleTaskClassifier, SingleTaskRegressor

__all__ = [
    "DMTLClassifierCV",
    "DMTLRegressorCV",
    "MRNClassifierCV",
    "MRNRegressorCV",
    "MTFLClassifierCV",
    "MTFLRegressorCV",
    "MTRLClassifierCV",
    "MTRLRegressorCV",
    "MeanRegularizedClassifierCV",
    "MeanRegularizedRegressorCV",
    "PooledClassifierCV",
    "PooledRegressorCV",
    "RMTLClassifierCV",
    "RMTLRegressorCV",
    "SharedNetworkClassifierCV",
    "SharedNetworkRegressorCV",
    "SingleTaskClassifierCV",
    "SingleTaskRegressorCV",
]


@final
@twin_of(DMTLClassifier, grid=dmtl_grid)
class DMTLClassifierCV(SearchedEstimator):
    """`DMTLClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(DMTLRegressor, grid=dmtl_grid)
class DMTLRegressorCV(SearchedEstimator):
    """`DMTLRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(MRNClassifier, grid=mrn_grid)
class MRNClassifierCV(SearchedEstimator):
    """`MRNClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(MRNRegressor, grid=mrn_grid)
class MRNRegressorCV(SearchedEstimator):
    """`MRNRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(MTFLClassifier, grid=mtfl_grid)
class MTFLClassifierCV(SearchedEstimator):
    """`MTFLClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(MTFLRegressor, grid=mtfl_grid)
class MTFLRegressorCV(SearchedEstimator):
    """`MTFLRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(MTRLClassifier, grid=mtrl_grid)
class MTRLClassifierCV(SearchedEstimator):
    """`MTRLClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(MTRLRegressor, grid=mtrl_grid)
class MTRLRegressorCV(SearchedEstimator):
    """`MTRLRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(MeanRegularizedClassifier, grid=mean_regularized_grid)
class MeanRegularizedClassifierCV(SearchedEstimator):
    """`MeanRegularizedClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(MeanRegularizedRegressor, grid=mean_regularized_grid)
class MeanRegularizedRegressorCV(SearchedEstimator):
    """`MeanRegularizedRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(PooledClassifier, grid=pooled_grid)
class PooledClassifierCV(SearchedEstimator):
    """`PooledClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(PooledRegressor, grid=pooled_grid)
class PooledRegressorCV(SearchedEstimator):
    """`PooledRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(RMTLClassifier, grid=rmtl_grid)
class RMTLClassifierCV(SearchedEstimator):
    """`RMTLClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(RMTLRegressor, grid=rmtl_grid)
class RMTLRegressorCV(SearchedEstimator):
    """`RMTLRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(SharedNetworkClassifier, grid=prior_grid)
class SharedNetworkClassifierCV(SearchedEstimator):
    """`SharedNetworkClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(SharedNetworkRegressor, grid=prior_grid)
class SharedNetworkRegressorCV(SearchedEstimator):
    """`SharedNetworkRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(SingleTaskClassifier, grid=prior_grid)
class SingleTaskClassifierCV(SearchedEstimator):
    """`SingleTaskClassifier` whose settings are chosen by cross-validation on the rows of `fit`."""


@final
@twin_of(SingleTaskRegressor, grid=prior_grid)
class SingleTaskRegressorCV(SearchedEstimator):
    """`SingleTaskRegressor` whose settings are chosen by cross-validation on the rows of `fit`."""
