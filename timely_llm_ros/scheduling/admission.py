"""Latency-guided batch size (TimelyLLM, section 4.4, corrected).

The paper admits one more generation when the worst case of the most urgent running one still
fits its deadline. Taken literally, a running generation that can no longer make it forbids every
batch, and the queue collapses. Here only a generation that still can make it may veto, and worst
cases come from what was observed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

OVERDUE_LOSS_PER_S = 1e9
"""Loss of those beyond the age bound: more than all others together."""


class Candidate(NamedTuple):
    """A generation that may run in the next step.

    Attributes:
        slack_s: Time left until its segment is due (s); negative when it is late.
        tokens_left: The most tokens that its segment still takes.
        loss_per_s: Utility that its task loses per second of lateness; 0 for a later segment, whose
            task has had its response.
        begins: Whether its prompt must be computed first.
        falls_s: For how long its utility falls once it is late (s); then there is none to lose.
    """

    slack_s: float
    tokens_left: int
    loss_per_s: float
    begins: bool
    falls_s: float = math.inf

    def loss(self, end_s: float) -> float:
        """Return what its task loses if its segment is complete that far from now (s)."""
        late_s = end_s - self.slack_s
        if late_s <= 0.0:
            return 0.0
        # Asked for more often than anything else: min() would take twice as long.
        return self.loss_per_s * (late_s if late_s < self.falls_s else self.falls_s)


Slack = Candidate | tuple[float, int]
"""A candidate, or only its slack (s) and the most tokens that its segment still takes."""


_WEIGHT = 0.1
"""What a new step time counts in the mean."""


class StepTimes:
    """Step duration by batch size, learned as exponentially weighted means."""

    def __init__(self) -> None:
        self._mean_s: dict[int, float] = {}
        self.prefill_s = 0.0
        """Expected time (s) that a generation's beginning adds to a step."""
        self._prefills = 0
        self._too_early: list[tuple[int, int, float]] = []

    @property
    def known(self) -> bool:
        """Whether both a decoding step and what a beginning adds were observed."""
        return bool(self._mean_s) and self._prefills > 0

    def forget(self) -> None:
        """Know nothing again: what serves now is not what was observed."""
        self._mean_s.clear()
        self.prefill_s, self._prefills = 0.0, 0
        self._too_early.clear()

    def observe(self, batch: int, step_s: float) -> None:
        """Learn from one decoding step of ``batch`` generations."""
        mean_s = self._mean_s.get(batch)
        self._mean_s[batch] = step_s if mean_s is None else mean_s + _WEIGHT * (step_s - mean_s)
        early, self._too_early = self._too_early, []
        for seen in early:
            self.observe_prefill(*seen)

    def observe_prefill(self, batch: int, begun: int, step_s: float) -> None:
        """Learn from a step in which ``begun`` generations began and ``batch`` got a token.

        Before the first decoding step nobody knows which part of it was decoding, so it is kept.
        """
        if not begun:
            return
        decode_s = self.expected_s(batch) if batch else 0.0
        if decode_s is None:
            self._too_early = [*self._too_early[-7:], (batch, begun, step_s)]
            return
        prefill_s = max(0.0, step_s - decode_s) / begun
        weight = max(_WEIGHT, 1.0 / (self._prefills + 1))
        self._prefills += 1
        self.prefill_s += weight * (prefill_s - self.prefill_s)

    def row_s(self, full: int) -> float:
        """Return a generation's share of a step of ``full`` generations (s); 0 before any step.

        As long as none was full, a full one lies on the line through the smallest and the largest:
        by half-empty steps plans would seem dear, and those be refused that would fill them.
        """
        shares_s = [mean_s / batch for batch, mean_s in self._mean_s.items()]
        if not shares_s:
            return 0.0
        least, largest = min(self._mean_s), max(self._mean_s)
        if largest < full:
            longer_s = self._mean_s[largest] - self._mean_s[least]
            rise_s = max(0.0, longer_s) / max(1, largest - least)
            shares_s.append((self._mean_s[largest] + rise_s * (full - largest)) / full)
        return min(shares_s)

    def expected_s(self, batch: int) -> float | None:
        """Return the expected step time; None before the first observation.

        A batch size never seen counts as the nearest smaller one: optimism, so that it is tried.
        """
        known = self._mean_s.get(batch)
        if known is not None or not self._mean_s:
            return known
        smaller = [size for size in self._mean_s if size < batch]
        return self._mean_s[max(smaller) if smaller else min(self._mean_s)]


class BatchLimit:
    """Says how many of the best-ranked generations run together, at most ``max_running``.

    Where it may ``veto``, it is fewer if a longer step would make a segment late that can still be
    in time.
    """

    def __init__(self, max_running: int, step_times: StepTimes, *, veto: bool = True) -> None:
        self.max_running = max_running
        self.step_times = step_times
        self.veto = veto

    @property
    def considered(self) -> int:
        """How many of the best-ranked candidates :meth:`choose` wants to see."""
        return self.max_running

    def choose(self, candidates: Sequence[Candidate], running: int = 0) -> Sequence[int]:
        """Return the places of the candidates to run, in order; at least one where there is one.

        Args:
            candidates: Best rank first, ``considered`` at most.
            running: How many of the leading ones run already and will not be interrupted.
        """
        return range(self.count(candidates, running))

    def count(self, candidates: Sequence[Slack], running: int = 0) -> int:  # noqa: ARG002 -- other limits do
        """Return how many leading candidates :meth:`choose` runs."""
        most = min(len(candidates), self.max_running)
        if not self.veto:
            return most
        expected_s = self.step_times.expected_s
        slowest_step_s = math.inf
        for count in range(most):
            step_s = expected_s(count + 1)
            if step_s is None:
                continue
            if step_s > slowest_step_s:
                return count
            item = candidates[count]
            bearable_s = item[0] / max(item[1], 1)
            if step_s <= bearable_s < slowest_step_s:
                slowest_step_s = bearable_s
        return most


class PrintedBatchLimit(BatchLimit):
    """TimelyLLM's rule as printed: one more per step, if the most urgent running one bears it.

    A running generation that is late, or whose deadline is nearer than its worst case, keeps all
    others out until its segment is complete. ``network_s`` is the one-way time to a robot.
    """

    def __init__(self, max_running: int, step_times: StepTimes, *, network_s: float = 0.0) -> None:
        super().__init__(max_running, step_times)
        self._network_s = network_s

    def count(self, candidates: Sequence[Slack], running: int = 0) -> int:
        """Return how many leading candidates to run."""
        if not running or len(candidates) == running:
            return min(len(candidates), max(running, 1))
        slack_s, tokens = min(item[:2] for item in candidates[:running])
        worst_s = max(tokens, 0) * (self.step_times.expected_s(running) or 0.0)
        return min(running + (worst_s <= slack_s - self._network_s), self.max_running)
