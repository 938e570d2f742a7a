"""Held-out tasks, and the plans that a model writes for them."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.sample_tasks import KINDS, kinds_of, sample_task
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.sample_tasks import TaskSample, Wordings
    from timely_llm_ros.skills import Call, SkillSet

SEED = 770_001
"""Of the tasks; the same as of the embedded model's evaluation."""

_OBSERVED = re.compile(r'([^;{}]+);#([^ ]+) ')


@dataclass(frozen=True, slots=True)
class Case:
    """One task of an evaluation.

    Attributes:
        name: Unique in the evaluation.
        task: Scene, instruction and right plan.
        skill_set: What the robot can do.
        objects: Objects in the scene, as asked for.
        values: What the robot says of a call outside of conditions, by the call's text.
    """

    name: str
    task: TaskSample
    skill_set: SkillSet
    objects: int
    values: dict[str, str]

    def value(self, call: Call) -> str:
        """Return what the robot says of a call; it sees what the right plan does not ask for."""
        return self.values.get(call.text, 'true')

    def sees(self, call: Call) -> bool:
        """Return whether a condition holds."""
        return self.value(call) == 'true'


@dataclass(frozen=True, slots=True)
class Written:
    """A plan that a model wrote.

    Attributes:
        text: What was valid of it, with the robot's observations.
        reason: Why it ended, as in ``GenerationEnded``.
        error: What was wrong.
        tokens: Tokens that the model wrote.
    """

    text: str
    reason: str
    error: str
    tokens: int


def draw_cases(
    sizes: Sequence[int], count: int, wordings: Wordings, skill_set: str = ''
) -> list[Case]:
    """Return ``count`` cases for each kind of task and size of scene; the same at every call.

    Kinds are all, or those that robots with a skill set are asked for.
    """
    cases = []
    kinds = kinds_of(skill_set) if skill_set else tuple(KINDS.values())
    found = {name: find_skill_set(name) for name in {skill_set or it.skill_set for it in kinds}}
    for objects in sizes:
        for kind in kinds:
            rng = random.Random(f'{SEED} {kind.number} {objects} {wordings}')
            own = found[skill_set or kind.skill_set]
            for number in range(count):
                task = sample_task(
                    rng, kind.number, objects, wordings=wordings, scenes='held_out', skill_set=own
                )
                values = dict(_OBSERVED.findall(task.plan))
                name = f'{objects}/{kind.number}/{number}'
                cases.append(Case(name, task, own, objects, values))
    return cases
