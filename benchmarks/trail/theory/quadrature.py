"""Integrals and Bessel functions, as far as the queueing analysis needs them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

ORDER = 16
"""Gauss-Legendre points per panel."""


@lru_cache(maxsize=8)
def _rule(order: int) -> tuple[Floats, Floats]:
    points, weights = np.polynomial.legendre.leggauss(order)
    return (points + 1) / 2, weights / 2


def panels(edges: ArrayLike, order: int = ORDER) -> tuple[Floats, Floats]:
    """Return points and weights that integrate over neighbouring panels, each ``[n]``.

    Args:
        edges: Ascending, ``[panels + 1]``; where the integrand has a kink there belongs an edge.
        order: Points per panel.
    """
    borders = np.asarray(edges, np.float64)
    points, weights = _rule(order)
    widths = np.diff(borders)[:, None]
    return (borders[:-1, None] + widths * points).ravel(), (widths * weights).ravel()


def bessel_k(order: int, values: ArrayLike) -> Floats:
    """Return the modified Bessel function K of an integer order, same shape as ``values`` > 0.

    The integral of ``exp(-z cosh t) cosh(n t)`` over t by the trapezoidal rule, which converges
    faster than any power here. Good to 1e-15 of the larger of the value and 1, for 2e-8 <= z.
    """
    z = np.asarray(values, np.float64)
    step = 0.125
    t = np.arange(0.0, 26.0, step)
    terms = np.exp(-z[..., None] * np.cosh(t)) * np.cosh(order * t)
    terms[..., 0] /= 2
    result: Floats = step * terms.sum(axis=-1)
    return result


class RunningIntegral:
    """The integral of a function from 0 to ``t`` for many ``t``, by cubic Hermite interpolation.

    The grid is even in the root of ``t``, because the functions here bend most near 0. Beyond it
    the function counts as constant.

    Args:
        function: Of an array of ``t`` >= 0.
        longest: Where the grid ends.
        cells: Grid cells.
    """

    def __init__(
        self, function: Callable[[Floats], Floats], longest: float, cells: int = 2400
    ) -> None:
        self._end = longest
        self._last = float(function(np.array([longest]))[0])
        self._step = longest**0.5 / cells
        roots = self._step * np.arange(cells + 1)
        points, weights = panels(roots, 2)
        parts = (2 * points * function(points**2) * weights).reshape(cells, 2).sum(axis=1)
        self._values = np.concatenate(([0.0], np.cumsum(parts)))
        self._slopes = 2 * roots * function(roots**2) * self._step

    def __call__(self, limits: ArrayLike) -> Floats:
        """Return the integrals up to ``limits`` >= 0, same shape."""
        t = np.asarray(limits, np.float64)
        place = np.sqrt(np.minimum(t, self._end)) / self._step
        cell = np.minimum(place.astype(np.int64), len(self._values) - 2)
        x = place - cell
        low, high = self._values[cell], self._values[cell + 1]
        value = (
            low
            + x * x * (3 - 2 * x) * (high - low)
            + x * (1 - x) * ((1 - x) * self._slopes[cell] - x * self._slopes[cell + 1])
        )
        result: Floats = value + self._last * np.maximum(0.0, t - self._end)
        return result
