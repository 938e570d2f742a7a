"""Text that is no plan and is therefore never cut into segments.

vLLM serves such requests too, for instance those of a server's other clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills import ConstantDuration, Skill, SkillSet, TextSegmenter

if TYPE_CHECKING:
    from timely_llm_ros.skills import Segment

UNCUT_TEXT = SkillSet(
    'uncut',
    'Text that is no plan and is never cut.',
    {'wait': Skill('wait', 'does nothing', (), ConstantDuration(0.0))},
    'wait',
)
"""The skill set of requests that are no plans."""


class UncutText(TextSegmenter):
    """A segmenter that finds no segments."""

    marks = ''
    stops = False

    def finish(self) -> list[Segment]:
        """Return no segment."""
        return []

    def _scan(self, text: str, segments: list[Segment]) -> None:
        """Find no segment."""
