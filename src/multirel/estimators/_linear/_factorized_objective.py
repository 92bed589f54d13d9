r"""The objective of factorized weights with the best intercepts, on charts: value, gradient and Hessian.

$$\min_b\sum_n c_n\,\ell(y_n, \hat W_{t(n)}x_n + b_{t(n)}) + \frac\mu2\lVert\hat W\rVert^2$$
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from multirel.estimators._linear._factorized_chart import Chart
from multirel.estimators._linear._profiled_loss import Curvature, ProfiledLoss

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FactorizedObjective"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FactorizedObjective:
    """The objective around z = 0 of a chart."""

    loss: ProfiledLoss
    """The loss as a function of W x."""

    ridge: float
    """μ, which is λ/N."""

    chart: Chart
    """The coordinates."""

    products: "NDArray[np.float64]"
    """W x of every row, "n C"."""

    intercepts: "NDArray[np.float64]"
    """The best intercepts, "T C"."""

    slope: "NDArray[np.float64]"
    """The gradient by the stack, "T C r"."""

    curvature: Curvature
    """The second derivative by the products."""

    value: float
    """The objective."""

    @classmethod
    def at(
        cls, loss: ProfiledLoss, ridge: float, chart: Chart, *, near: "NDArray[np.float64]"
    ) -> "FactorizedObjective":
        """The objective at z = 0 of a chart.

        Args:
            loss: The loss.
            ridge: μ.
            chart: The coordinates.
            near: Intercepts that may be near the best ones.
        """
        design, weights = loss.problem.design, chart.weights
        products = design.products(weights)
        intercepts = loss.intercepts(products, near)
        penalty = ridge / 2 * float(np.vdot(weights, weights))
        return cls(
            loss=loss,
            ridge=ridge,
            chart=chart,
            products=products,
            intercepts=intercepts,
            slope=design.pull_back(loss.slopes(products, intercepts)) + ridge * weights,
            curvature=loss.curvature(products, intercepts),
            value=loss.value(products, intercepts) + penalty,
        )

    def moved(self, z: "NDArray[np.float64]") -> "FactorizedObjective":
        """The objective at z, with a chart around there."""
        chart = Chart(self.chart.form, self.chart.move(z))
        return FactorizedObjective.at(self.loss, self.ridge, chart, near=self.intercepts)

    def gradient(self) -> "NDArray[np.float64]":
        """The gradient by z."""
        return self.chart.gradient(self.slope)

    def hessian_product(self, z: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The Hessian by z, times a vector."""
        along, design = self.chart.direction(z), self.loss.problem.design
        change = self.curvature.product(design.products(along.weights))
        slope_change = design.pull_back(change) + self.ridge * along.weights
        return self.chart.gradient_change(along, (self.slope, slope_change))
