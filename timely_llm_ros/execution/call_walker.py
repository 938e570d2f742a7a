"""Walks through statements and yields their calls one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import SkillFailedError
from timely_llm_ros.skills import Call, If, Repeat, expected_execution_s

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from timely_llm_ros.execution.driver import CallValue
    from timely_llm_ros.skills import Scene, SkillSet, Statement


@dataclass(frozen=True, slots=True)
class Step:
    """One call to make, and how long it and everything after it should take (s)."""

    call: Call
    expected_s: float
    after_s: float


def steps(
    statements: Sequence[Statement], skill_set: SkillSet, scene: Scene, *, after_s: float = 0.0
) -> Generator[Step, CallValue, None]:
    """Yield the calls that statements make; ``send`` the value that each returned.

    Args:
        statements: The statements to walk.
        skill_set: Has every skill that they call.
        scene: Has every object that they name.
        after_s: Expected time of what follows the statements (s).

    Raises:
        SkillFailedError: The skill of a condition returned no bool.
    """
    rest_s = after_s
    plan: list[tuple[Statement, float, float]] = []
    for statement in reversed(statements):
        whole_s = expected_execution_s((statement,), skill_set, scene)
        plan.append((statement, whole_s, rest_s))
        rest_s += whole_s
    for statement, whole_s, rest_s in reversed(plan):
        match statement:
            case Call():
                yield Step(statement, whole_s, rest_s)
            case Repeat(count=count, body=body):
                once_s = expected_execution_s(body, skill_set, scene)
                for left in reversed(range(count)):
                    yield from steps(body, skill_set, scene, after_s=left * once_s + rest_s)
            case If(condition=condition):
                expected_s = expected_execution_s((condition,), skill_set, scene)
                value = yield Step(condition, expected_s, whole_s - expected_s + rest_s)
                if not isinstance(value, bool):
                    raise SkillFailedError(
                        f'{condition.text} returned {value!r}: expected true or false'
                    )
                branch = statement.then if value != statement.negated else statement.otherwise
                yield from steps(branch, skill_set, scene, after_s=rest_s)
