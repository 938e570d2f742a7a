"""How long plans will be, from everything that was said of them: a Bayesian filter over lengths.

The unknown is the *whole* length L of a plan, which does not change while the plan is written. So
the filter carries nothing from token to token but a product, and what is left after t tokens is
L - t::

    P(L | all) ~ P(L | prompt) * product over answers (answer[bin of L - t] / frequency[bin])^s

and 0 for L <= t. TRAIL smooths over ten bins of what is left instead, and every token moves the
same share of each bin's mass down. That forgets how exactly a prompt may tell a length.

With s = 0 only the prompt counts and that the plan still runs, so an s that is
chosen on plans makes nothing worse. Neither does w, which says how much a prompt counts against the
lengths of training::

    P(L | prompt) ~ P(L) * (said(L) / P(L))^w

Arrays are ``[rows, longest]``: a row per generation, place i for the length i + 1.
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
"""Share of what a prompt says that is spread over the lengths of training, because it may err."""

TAIL = 0.01
"""Share of the lengths of training that is spread over all lengths, longer ones ever thinner."""

FLOOR = 1e-3
"""Share of an answer that is given to the bins as they are in training: none rules a length out."""

REACH = 4
"""Lengths that are told apart, in lengths of all bins; longer ones count as the longest."""


class LengthFilter:
    """Makes predictions of what prompts and a probe's answers say; keeps nothing of a generation.

    Args:
        bins: Of remaining length, in which the probe answers.
        frequencies: How often each occurs over all tokens of the plans of training, ``[bins]``.
        sharpness: s, exponent of an answer. Those of neighbouring tokens depend on each other, so
            1 makes the result surer than it is right.
        divides: Whether answers are divided by the frequencies, which makes likelihoods of them.
        prompt_weight: w, exponent of what a prompt says; 1 believes it, 0 does not hear it.

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

        A token with r tokens to come is in every plan that is longer than r, so how often bins
        occur falls as the share of longer plans does.
        """
        bins = self._bins
        longer = np.minimum.accumulate(often)
        at = np.append(bins.midpoints, bins.longest + bins.width / 2)
        shares = -np.diff(np.interp(np.arange(self.longest + 1), at, np.append(longer, 0.0)))
        tail = np.exp(-self.lengths / bins.longest)
        mixed: Floats = (1 - TAIL) * shares / shares.sum() + TAIL * tail / tail.sum()
        return mixed

    def prior(self, forecast: LengthDistribution) -> Floats:
        """Return what a prompt says, ``[longest]``, above 0 everywhere; longer counts as longest.

        Lengths of a bucket are alike.
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
        """Return one row with what its prompt says in place of what is known without one.

        It may come at any time, because the order in which something is learned does not matter.
        """
        product = shares * (self.prior(forecast) / self.start)
        total = product.sum()
        return product / total if total > 0 else shares

    def learn(self, shares: Floats, ages: ArrayLike, answers: Floats | Singles) -> Floats:
        """Return the rows after one answer each.

        Args:
            shares: The rows before, each summing to 1; :attr:`start` for one of which nothing is
                known.
            ages: How many tokens each generation has; it still runs, so it is longer.
            answers: The probabilities of the bins of what is left of it then, ``[rows, bins]``.
        """
        return self.refine(shares, ages, answers)[0]

    def refine(
        self, shares: Floats, ages: ArrayLike, answers: Floats | Singles
    ) -> tuple[Floats, Floats]:
        """Return what :meth:`learn` does, and what :meth:`left` says of it, ``[rows]``.

        This is what an engine waits for, so it takes as few operations as there may be.
        """
        bounded = self._bounded(ages)
        product, mean = self._product(shares, self._likelihood(answers, bounded))
        mean -= bounded
        return product, mean

    def likelihood(self, ages: ArrayLike, answers: Floats | Singles) -> Floats:
        """Return how much each length is worth after these answers alone, ``[rows, longest]``.

        It is not to scale; 0 for those that are over, and above 0 for all others.
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
        """Return the rows times what each length is worth, and their means."""
        product: Floats = likelihood * shares
        sums = product @ self._sums
        if not sums[:, 0].all():
            # What was left is over: all that is known is this answer.
            over = sums[:, 0] == 0
            product[over] = (self.start * likelihood)[over]
            sums = product @ self._sums
        total = sums[:, :1]
        product /= total
        return product, sums[:, 1] / total[:, 0]

    def _at(self, bounded: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where, in rows of one more than the bins, each length's bin is at these ages."""
        bins = self._places[bounded]
        if len(bins) > len(self._offsets):
            self._offsets = (self._bins.count + 1) * np.arange(len(bins))[:, None]
        if len(bins) > 1:
            bins += self._offsets[: len(bins)]
        return bins

    def _bounded(self, ages: ArrayLike) -> NDArray[np.int64]:
        # Older ones are taken for so old that all bins are still ahead.
        return np.minimum(np.asarray(ages, np.int64), self._oldest)

    def left(self, shares: Floats, ages: ArrayLike) -> Floats:
        """Return how many tokens are left on average, ``[rows]``."""
        mean: Floats = shares @ self.lengths - self._bounded(ages)
        return mean

    def quantile(self, shares: Floats, ages: ArrayLike, share: float) -> Floats:
        """Return how many tokens are left at most with a probability of ``share``, ``[rows]``.

        Raises:
            ConfigurationError: The share is not above 0 and up to 1.
        """
        if not 0 < share <= 1:
            raise ConfigurationError(f'share {share!r}: expected above 0, up to 1')
        below = (np.cumsum(shares, axis=1) < share * (1 - 1e-9)).sum(axis=1)
        left: Floats = self.lengths[np.minimum(below, self.longest - 1)] - self._bounded(ages)
        return left

    def binned(self, shares: Floats, ages: ArrayLike) -> Floats:
        """Return how probable each bin of what is left is, ``[rows, bins]``."""
        places, count = self._at(self._bounded(ages)).ravel(), self._bins.count + 1
        summed = np.bincount(places, weights=shares.ravel(), minlength=len(shares) * count)
        return summed.astype(np.float64).reshape(len(shares), count)[:, :-1]
