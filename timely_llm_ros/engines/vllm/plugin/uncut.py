"""Requests that are no plans: whoever else uses the server gets text that is never cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills import ConstantDuration, Skill, SkillSet

if TYPE_CHECKING:
    from timely_llm_ros.errors import PlanError
    from timely_llm_ros.skills import Segment

UNCUT = SkillSet(
    'uncut',
    'Text that is no plan and is never cut.',
    {'wait': Skill('wait', 'does nothing', (), ConstantDuration(0.0))},
    'wait',
)
"""The skill set of requests that are no plans: whoever else uses the server."""


class Uncut:
    """A segmenter that finds no segments."""

    marks = ''
    error: PlanError | None = None

    def may_await(self, text: str) -> bool:  # noqa: ARG002  a segmenter's signature
        """No call is ever awaited."""
        return False

    def push(self, text: str, tokens: int = 1) -> list[Segment]:  # noqa: ARG002  as above
        """No text completes a segment."""
        return []

    def observe(self, value: str) -> str:
        """Refuse a value that nothing asked for."""
        raise RuntimeError(f'value {value!r}: no call awaits one')

    def finish(self) -> list[Segment]:
        """The end of the text is the end of no segment."""
        return []
