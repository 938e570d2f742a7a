"""How many tokens the next micro-batch of a pipeline may have: prefill spread evenly.

This is Dynamic Token-Budget Estimation (preprints 202512.0788, algorithm 1) with two corrections.
Shares are taken from the front: ``pop()`` as printed takes back the zeros that were just appended,
and prefill starves. A redistribution leaves exactly as many shares as there are micro-batches: as
printed, tokens count twice after their number has fallen.

Beyond the paper: urgent prefill goes before all other, a limit holds, and what did not fit comes
back.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from timely_llm_ros.errors import ConfigurationError


class Budget(NamedTuple):
    """What one micro-batch may hold, in tokens."""

    decode: int
    """One for each generation that may decode."""
    urgent: int
    """Prefill of urgent generations."""
    prefill: int
    """Prefill of all others."""

    @property
    def total(self) -> int:
        """The sum of the three."""
        return self.decode + self.urgent + self.prefill


class TokenBudget:
    """Spreads prefill over the coming micro-batches. Pure state: no clock.

    Every prefill token that is announced is issued in exactly one budget: what was issued and what
    is :attr:`waiting` add up to what was announced. Announce again what was issued and not used,
    for example for want of memory.

    Args:
        most: The most tokens in a micro-batch (``max_num_batched_tokens``); None for no limit.

    Raises:
        ConfigurationError: ``most`` is below 1.
    """

    def __init__(self, most: int | None = None) -> None:
        if most is not None and most < 1:
            raise ConfigurationError(f'most {most}: expected at least 1 token, or None')
        self._most = math.inf if most is None else most
        self._shares: deque[int] = deque()
        self._urgent = 0
        self._returned = 0

    @property
    def waiting(self) -> int:
        """Prefill tokens that were announced and are not issued yet."""
        return sum(self._shares) + self._returned + self._urgent

    @property
    def urgent_waiting(self) -> int:
        """Urgent prefill tokens that are not issued yet."""
        return self._urgent

    @property
    def shares(self) -> tuple[int, ...]:
        """The even shares of the coming micro-batches, the next one first."""
        return tuple(self._shares)

    def issue(
        self,
        micro_batches: int,
        decode_tokens: int,
        new_prefill_tokens: int = 0,
        new_urgent_tokens: int = 0,
    ) -> Budget:
        """Return the next micro-batch's budget.

        A micro-batch has at most one share of the prefill; new prefill is redistributed over all
        shares. Urgent prefill takes the place of other prefill, and goes beyond the share as far as
        the limit allows. Decoding goes before both.

        Args:
            micro_batches: How many are in the pipeline now.
            decode_tokens: Generations that decode, in all micro-batches together.
            new_prefill_tokens: Prefill that was announced since the last call.
            new_urgent_tokens: Urgent prefill that was announced since the last call.

        Raises:
            ConfigurationError: ``micro_batches`` is below 1, or a number of tokens is negative.
        """
        if micro_batches < 1:
            raise ConfigurationError(f'micro_batches {micro_batches}: expected at least 1')
        for name, tokens in (
            ('decode_tokens', decode_tokens),
            ('new_prefill_tokens', new_prefill_tokens),
            ('new_urgent_tokens', new_urgent_tokens),
        ):
            if tokens < 0:
                raise ConfigurationError(f'{name} {tokens}: expected 0 or more')
        self._urgent += new_urgent_tokens
        new = new_prefill_tokens + self._returned
        self._returned = 0
        self._shares.extend([0] * (micro_batches - len(self._shares)))
        if new > 0:
            base, rest = divmod(sum(self._shares) + new, micro_batches)
            self._shares = deque([base + 1] * rest + [base] * (micro_batches - rest))
        share = self._shares.popleft()
        decode = min(-(-decode_tokens // micro_batches), self._most)
        room = self._most - decode
        urgent = min(self._urgent, room)
        prefill = min(max(share - urgent, 0), room - urgent)
        self._urgent -= int(urgent)
        self._returned += share - int(prefill)
        return Budget(int(decode), int(urgent), int(prefill))

    def withdraw(self, tokens: int, *, urgent: bool = False) -> None:
        """Forget announced prefill that will never be done: its generation was cancelled.

        Raises:
            ConfigurationError: That many do not wait.
        """
        there = self._urgent if urgent else self.waiting - self._urgent
        if not 0 <= tokens <= there:
            raise ConfigurationError(f'tokens {tokens}: expected 0 to the {there} that wait')
        if urgent:
            self._urgent -= tokens
            return
        taken = min(tokens, self._returned)
        self._returned -= taken
        left = tokens - taken
        # From the back: what is next keeps its place.
        for place in range(len(self._shares) - 1, -1, -1):
            taken = min(left, self._shares[place])
            self._shares[place] -= taken
            left -= taken
