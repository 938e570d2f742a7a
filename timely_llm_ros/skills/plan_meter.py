"""Adds up what a plan asks of its robot while the plan is being generated.

A short text can ask for days: ``repeat(10){repeat(10){repeat(10){scan;};};};`` is a thousand calls.
The planner's segmenters check each segment before it leaves, the robot's executor once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from timely_llm_ros.errors import PlanLimitError
from timely_llm_ros.skills.statements import Call, If, Repeat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.skills.scene import Scene
    from timely_llm_ros.skills.skill_types import SkillSet
    from timely_llm_ros.skills.statements import Statement


class PlanMeter:
    """Adds up what the segments of one plan ask for and refuses what is too much.

    The work is linear in the length of their text, whatever their loops multiply to.

    Args:
        skill_set: Has the limits, and every skill that is called.
        whole_plan: Whether all that is added is one segment.
    """

    def __init__(self, skill_set: SkillSet, *, whole_plan: bool = False) -> None:
        self._skill_set, self._whole_plan = skill_set, whole_plan
        self._length = self._calls = 0
        self._seconds = 0.0

    def add(
        self, length: int, statements: Iterable[Statement], scene: Scene, *, offset: int = 0
    ) -> None:
        """Add a segment, or a part of the only one.

        Args:
            length: Characters of its text.
            statements: What the text says.
            scene: Where its objects are; one that it lacks is at distance 0.
            offset: Where the text begins in its plan, for errors.

        Raises:
            PlanLimitError: That is more than the skill set allows; nothing was added.
        """
        calls, seconds = most_of(statements, self._skill_set, scene)
        plan = self._length + length, self._calls + calls, self._seconds + seconds
        segment = plan if self._whole_plan else (length, calls, seconds)
        _require(self._skill_set, 'segment_length', segment[0], offset)
        _require(self._skill_set, 'segment_calls', segment[1], offset)
        _require(self._skill_set, 'segment_s', segment[2], offset)
        _require(self._skill_set, 'plan_calls', plan[1], offset)
        _require(self._skill_set, 'plan_s', plan[2], offset)
        self._length, self._calls, self._seconds = plan


def require_length(text: str, skill_set: SkillSet) -> None:
    """Check the length of a segment's text, which costs nothing, before it is read.

    Raises:
        PlanLimitError: It is longer than the skill set allows.
    """
    _require(skill_set, 'segment_length', len(text), 0)


_LimitName = Literal['segment_length', 'segment_calls', 'segment_s', 'plan_calls', 'plan_s']
_WHAT: dict[_LimitName, str] = {
    'segment_length': 'segment of {:.12g} characters',
    'segment_calls': 'segment of {:.12g} calls',
    'segment_s': 'segment that takes {:.12g} s',
    'plan_calls': 'plan of {:.12g} calls',
    'plan_s': 'plan that takes {:.12g} s',
}


def _require(skill_set: SkillSet, name: _LimitName, value: float, offset: int) -> None:
    most = getattr(skill_set.limits, name)
    # An object may be infinitely far away, and no times that is not a number.
    if not value <= most:
        raise PlanLimitError(
            f'{_WHAT[name].format(value)}: expected at most {most:.12g}, '
            f'{name} of skill set {skill_set.name!r}',
            offset,
        )


def most_of(
    statements: Iterable[Statement], skill_set: SkillSet, scene: Scene
) -> tuple[int, float]:
    """Return the most calls that statements may make, and the most time that those should take (s).

    Nothing is unrolled: what a loop holds is added up once and multiplied.
    """
    calls, seconds = 0, 0.0
    for statement in statements:
        match statement:
            case Call():
                calls += 1
                seconds += skill_set.skills[statement.skill].duration.expected_s(statement, scene)
            case Repeat():
                once, once_s = most_of(statement.body, skill_set, scene)
                calls += statement.count * once
                seconds += statement.count * once_s
            case If():
                asked, asked_s = most_of((statement.condition,), skill_set, scene)
                then, then_s = most_of(statement.then, skill_set, scene)
                otherwise, otherwise_s = most_of(statement.otherwise, skill_set, scene)
                calls += asked + max(then, otherwise)
                seconds += asked_s + max(then_s, otherwise_s)
    return calls, seconds
