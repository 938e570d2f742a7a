"""Requests that are no plans: whoever else uses the server gets text that is never cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills import ConstantDuration, Skill, SkillSet, TextSegmenter

if TYPE_CHECKING:
    from timely_llm_ros.skills import Segment

UNCUT = SkillSet(
    'uncut',
    'Text that is no plan and is never cut.',
    {'wait': Skill('wait', 'does nothing', (), ConstantDuration(0.0))},
    'wait',
)
"""The skill set of requests that are no plans: whoever else uses the server."""


class Uncut(TextSegmenter):
    """A segmenter that finds no segments."""

    marks = ''

    def push(self, text: str, tokens: int = 1) -> list[Segment]:  # noqa: ARG002
        """No text completes a segment."""
        return []

    def finish(self) -> list[Segment]:
        """The end of the text is the end of no segment."""
        return []

    def _scan(self, text: str, segments: list[Segment]) -> None: ...
