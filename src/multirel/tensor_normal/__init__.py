"""The tensor normal distribution: its algebra, its density, its samples and its estimation."""

from multirel.tensor_normal._covariance import Covariance
from multirel.tensor_normal._dense_covariance import DenseCovariance, as_covariance
from multirel.tensor_normal._distribution import TensorNormal
from multirel.tensor_normal._existence import is_likelihood_bounded, n_samples_needed
from multirel.tensor_normal._flip_flop import TensorNormalFit, fit_tensor_normal
from multirel.tensor_normal._identity_covariance import IdentityCovariance
from multirel.tensor_normal._kronecker import (
    kronecker_color,
    kronecker_log_determinant,
    kronecker_matvec,
    kronecker_prox,
    kronecker_quadratic_form,
    kronecker_solve,
    kronecker_whiten,
)
from multirel.tensor_normal._kronecker_prox import KroneckerProx
from multirel.tensor_normal._low_rank_covariance import LowRankCovariance
from multirel.tensor_normal._modes import fold, mode_product, multi_mode_product, unfold
from multirel.tensor_normal._normalize import correlation_matrix, normalize_covariances
from multirel.tensor_normal._precision import accurate_product, without_autocast
from multirel.tensor_normal._pseudo_inverse_covariance import PseudoInverseCovariance
from multirel.tensor_normal._spectrum import Spectrum, spectral_prox

__all__ = [
    "Covariance",
    "DenseCovariance",
    "IdentityCovariance",
    "KroneckerProx",
    "LowRankCovariance",
    "PseudoInverseCovariance",
    "Spectrum",
    "TensorNormal",
    "TensorNormalFit",
    "accurate_product",
    "as_covariance",
    "correlation_matrix",
    "fit_tensor_normal",
    "fold",
    "is_likelihood_bounded",
    "kronecker_color",
    "kronecker_log_determinant",
    "kronecker_matvec",
    "kronecker_prox",
    "kronecker_quadratic_form",
    "kronecker_solve",
    "kronecker_whiten",
    "mode_product",
    "multi_mode_product",
    "n_samples_needed",
    "normalize_covariances",
    "spectral_prox",
    "unfold",
    "without_autocast",
]
