"""How much a plan may ask of its robot; ``plan_meter.py`` adds it up."""

from __future__ import annotations

from dataclasses import dataclass

from timely_llm_ros.options import check_options, option

MAX_PLAN_LENGTH = 16_384
"""Characters that a plan may have."""

_MOST_CALLS = 1_000_000
_MOST_S = 10_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """How much a plan may ask of its robot; the keys of a skill set's ``limits``.

    A repeat counts as often as it says, a conditional with its longer branch. Times are those that
    the skills' durations expect. A plan that is generated as a whole is one segment.

    Raises:
        ConfigurationError: A limit is out of range.
    """

    segment_calls: int = option(
        256, 'calls that a segment may make', minimum=1, maximum=_MOST_CALLS
    )
    segment_s: float = option(
        1800.0, 'expected time of a segment (s)', minimum=0.1, maximum=_MOST_S
    )
    segment_length: int = option(
        4096, "characters of a segment's text", minimum=1, maximum=MAX_PLAN_LENGTH
    )
    plan_calls: int = option(1024, 'calls that a plan may make', minimum=1, maximum=_MOST_CALLS)
    plan_s: float = option(7200.0, 'expected time of a plan (s)', minimum=0.1, maximum=_MOST_S)
    queued_segments: int = option(
        64, 'segments that may wait on a robot', minimum=1, maximum=10_000
    )

    def __post_init__(self) -> None:
        check_options(self)
