"""How long an executor lets things take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLimits:
    """How long things may take.

    Attributes:
        timeout_factor: A call may take this times its expected time,
        timeout_margin_s: or its expected time plus this (s), whichever is more.
        idle_limit_s: If a plan's next segment is not there this long after the last (s), the
            robot is brought to its safe action; the plan may go on afterwards.
        safe_limit_s: How long the driver may take to stop a call and to issue the safe action (s).
        progress_period_s: Progress is repeated this often (s) during a long call; None: only at
            the start of calls.
    """

    timeout_factor: float = 2.0
    timeout_margin_s: float = 5.0
    idle_limit_s: float = 30.0
    safe_limit_s: float = 2.0
    progress_period_s: float | None = 1.0

    def call_s(self, expected_s: float) -> float:
        """Return how long a call may take that is expected to take ``expected_s`` (s)."""
        return max(self.timeout_factor * expected_s, expected_s + self.timeout_margin_s)
