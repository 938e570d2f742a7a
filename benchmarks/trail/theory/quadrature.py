"""Integrals of the queueing analysis."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import roots_legendre

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

ORDER = 16
"""Gauss-Legendre points per panel."""

CELLS = 2400
"""Pieces of the spline that :func:`running_integral` integrates."""


@lru_cache(maxsize=8)
def _rule(order: int) -> tuple[Floats, Floats]:
    points, weights = roots_legendre(order)
    return (points + 1) / 2, weights / 2


def panels(edges: ArrayLike, order: int = ORDER) -> tuple[Floats, Floats]:
    """Return points and weights that integrate over neighbouring panels, each ``[n]``.

    The integrands here are given at many points at once and have kinks at known places, which
    scipy's adaptive rules would have to find anew for each of many integrals.

    Args:
        edges: Ascending, ``[panels + 1]``; where the integrand has a kink there belongs an edge.
        order: Points per panel.
    """
    borders = np.asarray(edges, np.float64)
    points, weights = _rule(order)
    widths = np.diff(borders)[:, None]
    return (borders[:-1, None] + widths * points).ravel(), (widths * weights).ravel()


def running_integral(
    function: Callable[[Floats], Floats], longest: float
) -> Callable[[ArrayLike], Floats]:
    """Return the integral of a function from 0 to ``t`` >= 0, as a function of many ``t``.

    The grid is even in the root of ``t``, because the functions here bend most near 0. Beyond it
    the function counts as constant.

    Args:
        function: Of an array of ``t`` >= 0.
        longest: Where the grid ends.
    """
    roots = np.linspace(0.0, longest**0.5, CELLS + 1)
    values = function(roots**2)
    integral = CubicSpline(roots, 2 * roots * values).antiderivative()

    def up_to(limits: ArrayLike) -> Floats:
        t = np.asarray(limits, np.float64)
        inside = integral(np.sqrt(np.minimum(t, longest)))
        return np.asarray(inside + values[-1] * np.maximum(0.0, t - longest))

    return up_to
