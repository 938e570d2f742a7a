"""What an executor knows of the plan that it has in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import Ending, PlanLimitError
from timely_llm_ros.execution.robot_link import SegmentCode
from timely_llm_ros.skills import PlanMeter

if TYPE_CHECKING:
    from timely_llm_ros.skills import Scene, Segment, SkillSet


class PlanInHand:
    """One plan: which of its segments is next, and what they have asked for so far.

    Args:
        plan_id: Its id; empty for no plan at all.
        skill_set: The robot's skills.
    """

    def __init__(self, plan_id: str, skill_set: SkillSet) -> None:
        self.plan_id, self._skill_set = plan_id, skill_set
        self._meter = PlanMeter(skill_set)
        self.next_index = 0
        """Index of the segment that is to run next."""
        self.cut_at: int | None = None
        """Index from which on its segments were cancelled; None if none was."""

    def misplaced(self, index: int) -> Ending | None:
        """Return why no segment with that index may run any more; None if one may."""
        if self.cut_at is not None and index >= self.cut_at:
            return Ending(SegmentCode.CANCELED, f'segment {self.cut_at} of its plan was cancelled')
        if index < self.next_index:
            return came_twice(index)
        return None

    def add(self, segment: Segment, scene: Scene) -> Ending | None:
        """Count what a segment asks for; return why it must not run, None if it may.

        One that must not run is not counted.
        """
        for call in segment.calls:
            if call.skill not in self._skill_set.skills:
                return Ending(
                    SegmentCode.INVALID_SEGMENT,
                    f'skill {call.skill!r}: expected one of skill set {self._skill_set.name!r}',
                )
        try:
            self._meter.add(len(segment.text), segment.statements, scene)
        except PlanLimitError as err:
            return Ending(SegmentCode.INVALID_SEGMENT, str(err))
        return None


def came_twice(index: int) -> Ending:
    """Return the ending of a segment whose index has come before."""
    return Ending(
        SegmentCode.INVALID_SEGMENT, f'segment {index} came twice: expected each index once'
    )
