"""Anderson mixing: fixed points from few applications of a map."""

from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AndersonMixing"]

JITTER = 1e-10
"""Part of the mean squared step of the residuals that keeps the least squares problem solvable."""

JITTER_OF_POINTS = 1e-13
"""Part of the mean squared step of the points that is added to it: where residuals hardly change they say
nothing about how far to go."""

LARGEST_GROWTH = 2.0
"""How much longer than the shortest so far a residual may be before mixing starts anew."""

PROGRESS = 0.5
"""A residual that is shorter than this part of the shortest so far makes up for failures."""


@final
class AndersonMixing:
    """Proposes the next point from the last points and where the map takes them.

    A map that takes no two points further apart converges on its own. Mixing is much faster and may fail:
    where the residual grows it goes back to the best point and starts anew, after plain steps, which are
    more every time that there is no progress.

    Args:
        size: The number of entries of a point.
        memory: The number of differences that are kept.
    """

    def __init__(self, size: int, *, memory: int) -> None:
        self._residual_steps = np.empty((memory, size))
        self._image_steps = np.empty((memory, size))
        self._inner = np.zeros((memory, memory))
        self._squares = np.zeros(memory)
        self._n_steps, self._pause, self._n_pauses = 0, 0, 0
        self._reference, self._has_last = np.inf, False
        self._best = self._last_residual = self._last_image = np.empty(0)
        self._memory = memory
        self.forget()

    def forget(self) -> None:
        """Start anew: the map has changed."""
        self.shortest = np.inf
        """The length of the shortest residual since."""
        self._n_pauses = 0
        self._restart()

    def next_point(
        self, point: "NDArray[np.float64]", image: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """Where to apply the map next.

        Args:
            point: Where it was applied.
            image: What it gave.
        """
        residual = (image - point).ravel()
        length = float(residual @ residual) ** 0.5
        if length < PROGRESS * self.shortest:
            self._n_pauses = 0
        self.shortest = min(self.shortest, length)
        if self._pause > 0:
            self._pause -= 1
            return image
        if length > LARGEST_GROWTH * self._reference:
            best = self._best
            self._restart()
            self._n_pauses += 1
            self._pause = 2 * self._n_pauses
            return best
        if length <= self._reference:
            self._reference, self._best = length, image
        if self._has_last:
            self._remember(residual - self._last_residual, image.ravel() - self._last_image)
        self._has_last, self._last_residual, self._last_image = True, residual, image.ravel()
        n_kept = min(self._n_steps, self._memory)
        if n_kept == 0:
            return image
        steps, inner = self._residual_steps[:n_kept], self._inner[:n_kept, :n_kept].copy()
        jitter = JITTER * float(np.trace(inner)) + JITTER_OF_POINTS * self._squares[:n_kept].sum()
        if not jitter > 0:
            return image
        inner[np.diag_indices(n_kept)] += jitter / n_kept
        shares = np.linalg.solve(inner, steps @ residual)
        return image - (shares @ self._image_steps[:n_kept]).reshape(image.shape)

    def _restart(self) -> None:
        self._n_steps, self._pause, self._reference = 0, 0, np.inf
        self._has_last = False

    def _remember(
        self, residual_step: "NDArray[np.float64]", image_step: "NDArray[np.float64]"
    ) -> None:
        row = self._n_steps % self._memory
        self._n_steps += 1
        self._residual_steps[row], self._image_steps[row] = residual_step, image_step
        self._squares[row] = image_step @ image_step
        n_kept = min(self._n_steps, self._memory)
        products = self._residual_steps[:n_kept] @ residual_step
        self._inner[row, :n_kept] = products
        self._inner[:n_kept, row] = products
