"""Jobs of the queueing analysis: exponential sizes of mean 1 and what a predictor says of them.

TRAIL (appendix D) has two predictors: a perfect one, and one whose prediction ``r`` of a job of
size ``x`` is exponential with mean ``x``. The latter's joint density is ``exp(-x - r / x) / x``;
the ``exp(-(x - r) / x)`` that is printed grows with ``r`` and is no density.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.special import k0, kn

from benchmarks.trail.theory.quadrature import panels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_FAR = 45.0
"""Where exp(-x) no longer counts."""

_LAYER = np.array([0, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1, 2, 3, 5, 8, 12, 18, 27, _FAR])
"""Panels for what decays like exp(-x), finest near 0, where predictions of small jobs matter."""


class JobModel(Protocol):
    """Sizes and predictions of jobs: what the analysis integrates over."""

    def load_below(self, predicted: ArrayLike) -> Floats:
        """Return E[x; prediction <= r], same shape."""
        ...

    def square_below(self, predicted: ArrayLike) -> Floats:
        """Return E[x^2; prediction <= r], the I0 of lemma 1, same shape."""
        ...

    def recycled_square(self, predicted: ArrayLike, share: float) -> Floats:
        """Return I1 of lemma 1, corrected, same shape.

        It is E[((x - s)^+)^2; prediction t > r] with ``s = min(t - r, c t)``: a job of a longer
        prediction outranks one of prediction ``r`` from the age on at which it has only ``r``
        left or can no longer be preempted. Printed is the tagged job's own limit ``c r``.

        Args:
            predicted: r.
            share: c.
        """
        ...

    def predictions(self) -> tuple[Floats, Floats]:
        """Return predictions ``[n]`` and weights ``[n]`` that average over all jobs."""
        ...

    def jobs(self, share: float) -> tuple[Floats, Floats, Floats]:
        """Return sizes, predictions and weights, each ``[n]``, that average over all jobs.

        Args:
            share: c; there may be a kink at ``x = c r``.
        """
        ...


class PerfectPredictor:
    """Predicts every size exactly."""

    def load_below(self, predicted: ArrayLike) -> Floats:
        """Return E[x; prediction <= r], same shape."""
        r = np.asarray(predicted, np.float64)
        load: Floats = 1 - (1 + r) * np.exp(-r)
        return load

    def square_below(self, predicted: ArrayLike) -> Floats:
        """Return E[x^2; prediction <= r], same shape."""
        r = np.asarray(predicted, np.float64)
        square: Floats = 2 - (r * r + 2 * r + 2) * np.exp(-r)
        return square

    def recycled_square(self, predicted: ArrayLike, share: float) -> Floats:
        """Return I1: from age ``z = r / (1 - c)`` on, the limit ``c t`` is reached first."""
        r = np.asarray(predicted, np.float64)
        if share == 1:
            return np.asarray(r * r * np.exp(-r))
        z = r / (1 - share)
        late = (1 - share) ** 2 * (z * z + 2 * z + 2) * np.exp(-z)
        return np.asarray(r * r * (np.exp(-r) - np.exp(-z)) + late)

    def predictions(self) -> tuple[Floats, Floats]:
        """Return predictions and weights, each ``[n]``."""
        r, weights = panels(_LAYER)
        return r, weights * np.exp(-r)

    def jobs(self, _share: float) -> tuple[Floats, Floats, Floats]:
        """Return sizes, predictions and weights, each ``[n]``."""
        r, weights = self.predictions()
        return r, r, weights


class ExponentialPredictor:
    """Predicts a job of size ``x`` by an exponential variable of mean ``x``."""

    def density(self, size: ArrayLike, predicted: ArrayLike) -> Floats:
        """Return the joint density ``exp(-x - r / x) / x`` (appendix D, corrected)."""
        x, r = np.asarray(size, np.float64), np.asarray(predicted, np.float64)
        return np.asarray(np.exp(-x - r / x) / x)

    def prediction_density(self, predicted: ArrayLike) -> Floats:
        """Return the density of predictions, ``2 K0(2 sqrt r)``, same shape."""
        return np.asarray(2 * k0(2 * np.sqrt(np.asarray(predicted, np.float64))))

    def load_below(self, predicted: ArrayLike) -> Floats:
        """Return E[x; prediction <= r], same shape."""
        r = np.maximum(np.asarray(predicted, np.float64), 1e-16)
        load: Floats = 1 - 2 * r * kn(2, 2 * np.sqrt(r))
        return load

    def square_below(self, predicted: ArrayLike) -> Floats:
        """Return E[x^2; prediction <= r], same shape."""
        r = np.maximum(np.asarray(predicted, np.float64), 1e-12)
        square: Floats = 2 - 2 * r**1.5 * kn(3, 2 * np.sqrt(r))
        return square

    def recycled_square(self, predicted: ArrayLike, share: float) -> Floats:
        """Return I1; the integral over predictions is solved, the one over sizes is summed."""
        r = np.asarray(predicted, np.float64)[..., None]
        if share == 0:
            return 2 - self.square_below(predicted)
        # Sizes below the kink never reach their own limit c t with more than r left.
        kink = share * r / (1 - share) if share < 1 else np.full_like(r, np.inf)
        unit, weights = panels(np.array([0, 0.02, 0.1, 0.25, 0.5, 0.75, 1.0]))
        below = np.minimum(kink, _FAR)
        x = below * unit
        near = np.exp(-r / x) - 2 * np.exp(-1 - r / x)
        total = (below * weights * np.exp(-x) * x * x * near).sum(axis=-1)
        if share < 1:
            offset, weights = panels(_LAYER)
            x = kink + offset
            z = r / (1 - share)
            left = 1 - share * z / x
            late = 2 * (1 - share) * (1 + share - left) * np.exp(-z / x)
            part = np.exp(-r / x) - late - 2 * share * share * np.exp(-1 / share)
            total += (weights * np.exp(-x) * x * x * part).sum(axis=-1)
        return np.asarray(total)

    def predictions(self) -> tuple[Floats, Floats]:
        """Return predictions and weights, each ``[n]``; their density has a pole at 0."""
        root, weights = panels(np.linspace(0.0, 4.6, 41))
        r = root**4
        return r, weights * 4 * root**3 * self.prediction_density(r)

    def jobs(self, share: float) -> tuple[Floats, Floats, Floats]:
        """Return sizes, predictions and weights, each ``[n]``; panels meet at ``x = c r``."""
        x, x_weights = panels(_LAYER)
        limit = 1 / share if share > 0 else np.inf
        edges = np.unique(np.concatenate((_LAYER, [min(limit, _FAR)])))
        ratio, r_weights = panels(edges)
        weights = np.outer(x_weights * np.exp(-x), r_weights * np.exp(-ratio))
        sizes = np.repeat(x, len(ratio))
        return sizes, np.outer(x, ratio).ravel(), weights.ravel()
