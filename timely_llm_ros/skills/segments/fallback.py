"""The fallback plan of a skill set: what a robot does where no engine answers its task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.skills.segments.by_skill_set import segmenter_for

if TYPE_CHECKING:
    from timely_llm_ros.skills.segments.segment import Segment
    from timely_llm_ros.skills.skill_types import SkillSet

ANY_KIND = 'any'
"""The key of the plan for every kind of task that has none of its own."""


def fallback_segments(skill_set: SkillSet, task_kind: str, first: int = 0) -> tuple[Segment, ...]:
    """Return the fallback plan for a kind of task, its segments counted from ``first``.

    It is cut and checked like the text of a model; () where the skill set has none for that.

    Raises:
        PlanError: It must not reach a robot.
    """
    plans = skill_set.fallback
    text = plans.get(task_kind, plans.get(ANY_KIND, ''))
    segmenter = segmenter_for(skill_set, Scene())
    segments = [*segmenter.push(text, 0), *segmenter.finish()]
    return tuple(replace(one, index=first + one.index) for one in segments)
