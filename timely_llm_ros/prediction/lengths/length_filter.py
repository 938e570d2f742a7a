"""A Bayesian filter over the lengths of plans: it combines a prompt's forecast and probe answers.

The unknown is the *whole* length L of a plan, which does not change while the plan is written. So
the filter carries only a product from token to token, and after t tokens L - t are left::

    P(L | all) ~ P(L | prompt) * product over answers (answer[bin of L - t] / frequency[bin])^s

and 0 for L <= t. TRAIL instead smooths over ten bins of what is left and moves the same share of
each bin's mass down at every token, which forgets how exactly a prompt may tell a length.

The exponent w says how much a prompt counts against the lengths of training::

    P(L | prompt) ~ P(L) * (said(L) / P(L))^w

With s = 0 answers do not count, with w = 0 prompts do not, so choosing both on plans makes nothing
worse. Arrays are ``[rows, longest]``: a row per generation, place i for the length i + 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from timely_llm_ros.prediction.lengths.length_bins import LengthBins
    from timely_llm_ros.prediction.lengths.response_length import LengthDistribution

    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]

DOUBT = 0.01
"""This share of a prompt's forecast, which may err, is spread over the lengths of training."""

TAIL = 0.01
"""This share of the lengths of training is spread over all lengths, ever thinner."""

FLOOR = 1e-3
"""This share of an answer goes to the bins as in training, so that none rules a length out."""

REACH = 4
"""Lengths up to this many times that of all bins are told apart; longer ones count as that."""


class LengthFilter:
    """Turns forecasts and answers into distributions of length; keeps nothing of a generation.

    Args:
        bins: Of remaining length, in which the probe answers.
        frequencies: How often each occurs over all tokens of the plans of training, ``[bins]``.
        sharpness: s, exponent of an answer. Answers at neighbouring tokens depend on each other,
            so 1 makes the result too sure.
        divides: Whether answers are divided by the frequencies, which makes likelihoods of them.
        prompt_weight: w, exponent of what a prompt says; 1 believes it, 0 ignores it.

    Raises:
        ConfigurationError: An exponent below 0, or frequencies that are not one above 0 per bin.
    """

    def __init__(
        self,
        bins: LengthBins,
        frequencies: ArrayLike,
        sharpness: float,
        *,
        divides: bool,
        prompt_weight: float = 1.0,
    ) -> None:
        often = np.asarray(frequencies, np.float64)
        if often.shape != (bins.count,) or not (often > 0).all():
            raise ConfigurationError(
                f'frequencies {often.tolist()}: expected {bins.count} above 0, one per bin'
            )
        for name, exponent in (('sharpness', sharpness), ('prompt_weight', prompt_weight)):
            if not exponent >= 0:
                raise ConfigurationError(f'{name} {exponent!r}: expected at least 0')
        self._bins = bins
        self._sharpness = sharpness
        self._prompt_weight = prompt_weight
        # An answer's evidence is (answer * scale + floor)^s.
        common = often if divides else np.ones(bins.count)
        self._scale, self._floor = (1 - FLOOR) / common, FLOOR * often / common
        self.longest = REACH * bins.longest
        self._oldest = self.longest - bins.longest
        self.lengths: Floats = np.arange(1.0, self.longest + 1)
        self._sums = np.stack([np.ones(self.longest), self.lengths], axis=1)
        self._offsets = np.arange(0).reshape(0, 1)
        # Row t of the view has the bin of each length at age t, and one more where it is over.
        over = np.full(self.longest, bins.count)
        left = bins.index(np.arange(1, self.longest + 1))
        windows = np.lib.stride_tricks.sliding_window_view(np.append(over, left), self.longest)
        self._places = windows[::-1]
        self.start = self._start(often)

    def _start(self, often: Floats) -> Floats:
        """Return how probable lengths were in training, ``[longest]``.

        Every plan that is longer than r has one token with r to come, so bins become rarer as
        the share of longer plans falls.
        """
        bins = self._bins
        longer = np.minimum.accumulate(often)
        at = np.append(bins.midpoints, bins.longest + bins.width / 2)
        shares = -np.diff(np.interp(np.arange(self.longest + 1), at, np.append(longer, 0.0)))
        tail = np.exp(-self.lengths / bins.longest)
        mixed: Floats = (1 - TAIL) * shares / shares.sum() + TAIL * tail / tail.sum()
        return mixed

    def prior(self, forecast: LengthDistribution) -> Floats:
        """Return what a prompt says, ``[longest]``, above 0 everywhere.

        Lengths of one bucket are equally probable; longer ones than the longest count as that.
        """
        said = np.repeat(np.array(forecast.probabilities) / forecast.size, forecast.size)
        shares = np.zeros(self.longest)
        within = said[: self.longest]
        shares[: len(within)] = within
        shares[-1] += said[self.longest :].sum()
        mixed: Floats = (1 - DOUBT) * shares / shares.sum() + DOUBT * self.start
        if self._prompt_weight != 1.0:
            mixed = self.start * (mixed / self.start) ** self._prompt_weight
            mixed /= mixed.sum()
        return mixed

    def told(self, shares: Floats, forecast: LengthDistribution) -> Floats:
        """Return one row, learned without a prompt so far, with what its prompt says.

        The order in which something is learned does not matter.
        """
        product = shares * (self.prior(forecast) / self.start)
        total = product.sum()
        return product / total if total > 0 else shares

    def refine(
        self, shares: Floats, ages: ArrayLike, answers: Floats | Singles
    ) -> tuple[Floats, Floats]:
        """Return the rows after one answer each, and their means of what is left, ``[rows]``.

        Args:
            shares: The rows before, each summing to 1; :attr:`start` where nothing is known.
            ages: How many tokens each generation has; it still runs, so it is longer.
            answers: The probabilities of the bins of what is left of it then, ``[rows, bins]``.
        """
        # An engine waits for this, so it takes as few operations as possible.
        bounded = self._bounded(ages)
        product, mean = self._product(shares, self._likelihood(answers, bounded))
        mean -= bounded
        return product, mean

    def likelihood(self, ages: ArrayLike, answers: Floats | Singles) -> Floats:
        """Return what these answers say of each length, not to scale, ``[rows, longest]``.

        It is 0 for lengths that are over, and above 0 for all others.
        """
        return self._likelihood(answers, self._bounded(ages))

    def _likelihood(self, answers: Floats | Singles, bounded: NDArray[np.int64]) -> Floats:
        evidence = np.zeros((len(answers), self._bins.count + 1))
        within = evidence[:, :-1]
        np.multiply(answers, self._scale, out=within)
        within += self._floor
        # The operator has short ways for 0.5, 1 and 2 that numpy's function does not take.
        within **= self._sharpness
        found: Floats = evidence.take(self._at(bounded))
        return found

    def running(self, shares: Floats, ages: ArrayLike) -> Floats:
        """Return the rows for generations of these ages that still run, without an answer."""
        return self._product(shares, self.lengths > self._bounded(ages)[:, None])[0]

    def _product(
        self, shares: Floats, likelihood: Floats | NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """Return the rows times the likelihood of each length, normalised, and their means."""
        product: Floats = likelihood * shares
        sums = product @ self._sums
        if not sums[:, 0].all():
            # The generation outlived what was expected: only this answer is known.
            over = sums[:, 0] == 0
            product[over] = (self.start * likelihood)[over]
            sums = product @ self._sums
        total = sums[:, :1]
        product /= total
        return product, sums[:, 1] / total[:, 0]

    def _at(self, bounded: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the flat place of each length's bin at these ages, in rows of ``bins + 1``."""
        bins = self._places[bounded]
        if len(bins) > len(self._offsets):
            self._offsets = (self._bins.count + 1) * np.arange(len(bins))[:, None]
        if len(bins) > 1:
            bins += self._offsets[: len(bins)]
        return bins

    def _bounded(self, ages: ArrayLike) -> NDArray[np.int64]:
        # An older one counts as just so old that all bins are still ahead of it.
        return np.minimum(np.asarray(ages, np.int64), self._oldest)

    def left(self, shares: Floats, ages: ArrayLike) -> Floats:
        """Return how many tokens are left on average, ``[rows]``."""
        mean: Floats = shares @ self.lengths - self._bounded(ages)
        return mean
