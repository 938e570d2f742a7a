"""Which segmenter cuts a generation's text: its skill set decides.

So one engine serves robots, whose plans are statements, and chats, whose answers are plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.plan_meter import require_length
from timely_llm_ros.skills.segments.free_text_segmenter import FreeTextSegmenter
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter

if TYPE_CHECKING:
    from collections.abc import Container

    from timely_llm_ros.skills.segments.text_segmenter import TextSegmenter
    from timely_llm_ros.skills.skill_types import SkillSet
    from timely_llm_ros.skills.statements import Statement


def segmenter_for(
    skill_set: SkillSet, object_names: Container[str], *, whole_plan: bool = False
) -> TextSegmenter:
    """Return a new segmenter for one generation.

    Plans may name the objects of ``object_names``, which is a scene or any container of names.
    With ``whole_plan`` everything is one single segment, which ``finish`` returns.
    """
    if skill_set.free_text is not None:
        return FreeTextSegmenter(skill_set, whole_plan=whole_plan)
    return PlanSegmenter(skill_set, object_names, whole_plan=whole_plan)


def read_statements(
    text: str, skill_set: SkillSet, object_names: Container[str]
) -> tuple[Statement, ...]:
    """Return the statements of a segment's text, which was received and is not trusted.

    A text that is too long is refused before anything of it is read.

    Raises:
        PlanError: It must not reach a robot.
    """
    require_length(text, skill_set)
    if skill_set.free_text is None:
        return parse(text, skill_set, object_names)
    segmenter = FreeTextSegmenter(skill_set, whole_plan=True)
    segmenter.push(text, 0)
    return tuple(statement for segment in segmenter.finish() for statement in segment.statements)
