"""How long an executor lets things take."""

from __future__ import annotations

from dataclasses import dataclass

from timely_llm_ros.options import option

SAFE_ATTEMPTS = 3
"""How often the safe action is tried before giving up, where nobody else goes on trying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLimits:
    """How long things may take; those with a description are parameters of the executor node too.

    Attributes:
        safe_limit_s: How long the driver may take to stop a call and to issue the safe action (s).
        progress_period_s: How often progress is repeated during a long call (s); None: it comes
            only at the start of calls.
    """

    idle_limit_s: float = option(
        30.0,
        "How long a robot may wait for its plan's next segment before it is brought to its safe "
        'action (s).',
        minimum=0.1,
        maximum=3600.0,
    )
    timeout_factor: float = option(
        2.0, 'A call may take this times its expected duration,', minimum=1.0, maximum=1000.0
    )
    timeout_margin_s: float = option(
        5.0,
        'or its expected duration plus this (s), whichever is more.',
        minimum=0.0,
        maximum=3600.0,
    )
    safe_limit_s: float = 2.0
    progress_period_s: float | None = 1.0

    def call_s(self, expected_s: float) -> float:
        """Return how long a call may take (s)."""
        return max(self.timeout_factor * expected_s, expected_s + self.timeout_margin_s)
