"""What every segmenter does, and which one cuts a generation's text: its skill set decides.

So one engine serves robots, whose plans are statements, and chats, whose answers are plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.segments.free_text_segmenter import FreeTextSegmenter
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter

if TYPE_CHECKING:
    from collections.abc import Container

    from timely_llm_ros.errors import PlanError
    from timely_llm_ros.skills.segments.segment import Segment
    from timely_llm_ros.skills.skill_types import SkillSet
    from timely_llm_ros.skills.statements import Statement


class TextSegmenter(Protocol):
    """Cuts one generation's text into segments, the same ones whatever pieces it comes in."""

    @property
    def marks(self) -> str | None:
        """Characters without which text completes no segment and, if short, is not wrong.

        Where it awaits no value. None where any character may.
        """
        ...

    @property
    def error(self) -> PlanError | None:
        """What made it fail, known as soon as the text was pushed."""
        ...

    def may_await(self, text: str, /) -> bool:
        """Whether a segment that ends in this further text may await a value.

        Cheap, and takes nothing: False only where it is certain.
        """
        ...

    def push(self, text: str, tokens: int = 1) -> list[Segment]:
        """Take newly generated text of so many tokens; return the segments that it completes.

        Raises:
            PlanError: The text must not reach a robot. If it completes segments before, they are
                returned, ``error`` has it at once and the next call raises it.
        """
        ...

    def observe(self, value: str) -> str:
        """Take the value of the blocking call that the last segment ends with.

        Returns:
            The text to append to the generation's context.

        Raises:
            TimelyError: The value is not what the skill returns, or text went wrong before.
            RuntimeError: No value is awaited.
        """
        ...

    def finish(self) -> list[Segment]:
        """Take the end of the generation and return what is left.

        Raises:
            PlanError: The text must not end here, or went wrong before.
        """
        ...


def segmenter_for(
    skill_set: SkillSet, object_names: Container[str], *, whole_plan: bool = False
) -> TextSegmenter:
    """Return a new segmenter for one generation.

    Args:
        skill_set: The robot's skills.
        object_names: The scene, or another container of the names that plans may use.
        whole_plan: Whether everything is one single segment, which ``finish`` returns.
    """
    if skill_set.free_text is not None:
        return FreeTextSegmenter(skill_set, whole_plan=whole_plan)
    return PlanSegmenter(skill_set, object_names, whole_plan=whole_plan)


def read_statements(
    text: str, skill_set: SkillSet, object_names: Container[str]
) -> tuple[Statement, ...]:
    """Return the statements of a segment's text, which was received and is not trusted.

    Raises:
        PlanError: It must not reach a robot.
    """
    if skill_set.free_text is None:
        return parse(text, skill_set, object_names)
    segmenter = FreeTextSegmenter(skill_set, whole_plan=True)
    segmenter.push(text, 0)
    return tuple(statement for segment in segmenter.finish() for statement in segment.statements)
