"""How much of the background's work fits into a step that is short enough, learned from steps.

A step takes a time of its own and a time for each token; both are fitted to the latest steps. Where
even the shortest step is longer than it should be, as with a large model, smaller steps would help
nobody; so a step may always be a little longer than the shortest one.
"""

from __future__ import annotations

import math

MORE_THAN_SHORTEST = 1.5
"""A step may last this many times as long as the shortest, whatever the bound."""

_MEMORY = 0.98
"""What an earlier step counts after each later one."""

_OUTLIER = 3.0
"""A step that lasts more than this many times as long as expected counts as that long."""

_FEW = 8
"""Steps after which an outlier is one."""


class StepLine:
    """What a step takes by itself and what each token adds, fitted to the latest steps."""

    def __init__(self) -> None:
        self._seen = 0
        # Sums over the steps seen: of 1, x, y, x^2 and x y, with x tokens and y seconds.
        self._sums = [0.0] * 5

    def observe(self, tokens: int, step_s: float) -> None:
        """Learn from a step of so many tokens."""
        if self._seen >= _FEW:
            base_s, token_s = self.line()
            step_s = min(step_s, _OUTLIER * (base_s + token_s * tokens))
        self._seen += 1
        new = (1.0, tokens, step_s, tokens * tokens, tokens * step_s)
        self._sums = [_MEMORY * old + one for old, one in zip(self._sums, new, strict=True)]

    def line(self) -> tuple[float, float]:
        """Return what a step takes by itself and what each token adds (s); zeros before any.

        Steps of one size do not tell the two apart: then it is half and half.
        """
        count, x, y, xx, xy = self._sums
        if not count:
            return 0.0, 0.0
        spread = xx - x * x / count
        if spread < 1e-3 * xx:
            return y / count / 2, y / x / 2
        token_s = min(max(0.0, (xy - x * y / count) / spread), y / x)
        return (y - token_s * x) / count, token_s


class StepSize(StepLine):
    """The most work of one kind for a step that should last ``bound_s`` at most.

    However quick it is, a step has no more than ``most`` tokens.
    """

    def __init__(self, bound_s: float, most: int) -> None:
        super().__init__()
        self._bound_s, self._most = bound_s, most
        self._largest = 0.5

    def observe(self, tokens: int, step_s: float) -> None:
        """Learn from a step of so many tokens."""
        super().observe(tokens, step_s)
        self._largest = max(float(tokens), _MEMORY * self._largest)

    @property
    def tokens(self) -> int:
        """The most tokens of the next step, at least 1, and at most twice those seen lately."""
        base_s, token_s = self.line()
        most = min(self._most, math.ceil(2 * self._largest))
        if not token_s:
            return most
        limit_s = max(self._bound_s, MORE_THAN_SHORTEST * (base_s + token_s))
        return max(1, min(most, math.floor((limit_s - base_s) / token_s)))
