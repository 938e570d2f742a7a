"""How long statements of a plan are expected to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills.statements import Call, If, Repeat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.skills.scene import Scene
    from timely_llm_ros.skills.skill_types import SkillSet
    from timely_llm_ros.skills.statements import Statement


def expected_execution_s(
    statements: Iterable[Statement], skill_set: SkillSet, scene: Scene
) -> float:
    """Return how long statements are expected to run (s).

    A repeat counts as often as it says. A conditional takes its condition's time plus the mean of
    its two branches; a missing branch takes no time.
    """
    total_s = 0.0
    for statement in statements:
        match statement:
            case Call():
                total_s += skill_set.skills[statement.skill].duration.expected_s(statement, scene)
            case Repeat():
                total_s += statement.count * expected_execution_s(statement.body, skill_set, scene)
            case If():
                total_s += expected_execution_s((statement.condition,), skill_set, scene) + 0.5 * (
                    expected_execution_s(statement.then, skill_set, scene)
                    + expected_execution_s(statement.otherwise, skill_set, scene)
                )
    return total_s
