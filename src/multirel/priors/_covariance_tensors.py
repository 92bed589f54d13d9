"""Covariances as named tensors, the form in which they are stored."""

from collections.abc import Mapping

import torch
from torch import Tensor

from multirel.tensor_normal import (
    Covariance,
    DenseCovariance,
    IdentityCovariance,
    LowRankCovariance,
    PseudoInverseCovariance,
)

__all__ = ["covariance_from_tensors", "covariance_to_tensors"]


def covariance_to_tensors(covariance: Covariance) -> dict[str, Tensor]:
    """The numbers of a covariance by name; none for an identity."""
    if isinstance(covariance, IdentityCovariance):
        return {}
    if isinstance(covariance, LowRankCovariance):
        return {
            "basis": covariance.basis,
            "eigenvalues": covariance.eigenvalues,
            "complement": covariance.complement,
        }
    if isinstance(covariance, PseudoInverseCovariance):
        tolerance = torch.tensor(covariance.tolerance or 0.0, dtype=torch.float64)
        return {"singular": covariance.matrix, "tolerance": tolerance}
    return {"matrix": covariance.dense()}


def covariance_from_tensors(tensors: Mapping[str, Tensor], size: int, like: Tensor) -> Covariance:
    """The covariance that `covariance_to_tensors` took apart, with the dtype and device of `like`.

    Raises:
        ValueError: If the tensors do not make a covariance of that size.
    """
    names = set(tensors)
    if not names:
        return IdentityCovariance(size, dtype=like.dtype, device=like.device)
    covariance: Covariance
    if names == {"matrix"}:
        covariance = DenseCovariance(tensors["matrix"])
    elif names == {"basis", "eigenvalues", "complement"}:
        covariance = LowRankCovariance(
            tensors["basis"], tensors["eigenvalues"], tensors["complement"]
        )
    elif names == {"singular", "tolerance"}:
        tolerance = float(tensors["tolerance"]) or None
        covariance = PseudoInverseCovariance(tensors["singular"], tolerance=tolerance)
    else:
        raise ValueError(
            f"`state` must hold covariances: got the parts {', '.join(sorted(names))}."
        )
    if covariance.size != size:
        raise ValueError(
            f"`state` must hold covariances of this network: expected size {size}, got "
            f"{covariance.size}."
        )
    covariance.check("state")
    return covariance.to(dtype=like.dtype, device=like.device)
