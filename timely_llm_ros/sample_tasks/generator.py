"""Draws the tasks that the planner is trained and tested on: scene, instruction, right plan.

The eleven kinds are those of TimelyLLM's Table 2. The right plan is a function of scene and
instruction alone; ``oracles.py`` has each kind's convention. Importing it does not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.errors import PlanError
from timely_llm_ros.sample_tasks import oracles
from timely_llm_ros.sample_tasks.scenes import arm_scene, drone_scene, is_held_out
from timely_llm_ros.skills import parse

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from timely_llm_ros.skills import Scene, SkillSet

Wordings = Literal['trained', 'held_out']
"""Which set of instruction templates to draw from."""

Scenes = Literal['any', 'trained', 'held_out']
"""Which part of all scenes to draw from."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """One row of TimelyLLM's Table 2.

    Attributes:
        number: 1 to 11.
        name: Short name.
        skill_set: Name of the robot's skill set.
        urgent: Whether the robot is in danger and must act at once.
        min_objects: The smallest scene in which the task makes sense.
    """

    number: int
    name: str
    skill_set: str
    urgent: bool = False
    min_objects: int = 1


KINDS: dict[int, TaskKind] = {
    kind.number: kind
    for kind in (
        TaskKind(1, 'look_for', 'tello'),
        TaskKind(2, 'check_for', 'tello', min_objects=2),
        TaskKind(3, 'check_on', 'tello'),
        TaskKind(4, 'find_under', 'tello'),
        TaskKind(5, 'find_tool', 'tello'),
        TaskKind(6, 'avoid_injury', 'tello', urgent=True),
        TaskKind(7, 'prevent_collision', 'tello', urgent=True),
        TaskKind(8, 'evade_animal', 'tello', urgent=True),
        TaskKind(9, 'stack', 'arm', min_objects=2),
        TaskKind(10, 'clean', 'arm', min_objects=3),
        TaskKind(11, 'sort', 'arm', min_objects=4),
    )
}
"""Every kind of task, by its number."""

ALSO_OF = {'rover': ('look_for', 'check_on', 'find_tool')}
"""Kinds of task that another skill set is asked for too, where it has what a plan calls."""


def kinds_of(skill_set: str) -> tuple[TaskKind, ...]:
    """Return the kinds of task that a robot with a skill set is asked for."""
    also = ALSO_OF.get(skill_set, ())
    return tuple(
        kind for kind in KINDS.values() if kind.skill_set == skill_set or kind.name in also
    )


@dataclass(frozen=True, slots=True)
class TaskSample:
    """A task and its right plan.

    Attributes:
        skill_set: Name of the skill set.
        scene: What the robot knows of its surroundings.
        instruction: What the user says.
        plan: The right plan in canonical text. Observations in it (``#true ``) stand for values
            that the robot returned: whoever replays the plan decides them anew.
        kind: Number of the kind, 1 to 11.
        urgent: Whether the robot is in danger and must act at once.
        danger: Name of the object that an urgent plan moves away from, else empty.
    """

    skill_set: str
    scene: Scene
    instruction: str
    plan: str
    kind: int
    urgent: bool
    danger: str = ''


def sample_scene(rng: random.Random, kinds: Sequence[int], n_objects: int) -> Scene:
    """Return a scene for tasks of the kinds, which must all be of one skill set."""
    names = [KINDS[kind].name for kind in kinds]
    if KINDS[kinds[0]].skill_set == 'tello':
        return drone_scene(rng, n_objects, names)
    return arm_scene(rng, n_objects, names)


def ask(
    rng: random.Random, scene: Scene, kind: int, *, wordings: Wordings = 'trained'
) -> TaskSample | None:
    """Return a task of that kind for the scene, or None where the scene has nothing to ask for."""
    spec = KINDS[kind]
    found = oracles.ORACLES[spec.name](rng, scene, wordings == 'held_out')
    if found is None:
        return None
    instruction, plan, *danger = found
    return TaskSample(spec.skill_set, scene, instruction, plan, kind, spec.urgent, *danger)


def sample_task(
    rng: random.Random,
    kind: int,
    n_objects: int,
    *,
    wordings: Wordings = 'trained',
    scenes: Scenes = 'any',
    skill_set: SkillSet | None = None,
) -> TaskSample:
    """Return one task of that kind in a fresh scene; the same state of ``rng`` gives the same one.

    With a ``skill_set`` of :data:`ALSO_OF`, its right plan calls nothing that this lacks.

    Raises:
        ValueError: The kind is unknown or needs a larger scene.
    """
    if kind not in KINDS or n_objects < KINDS[kind].min_objects:
        least = KINDS[kind].min_objects if kind in KINDS else 1
        raise ValueError(
            f'kind {kind} with {n_objects} objects: expected a kind of 1 to 11 '
            f'and at least {least} objects'
        )
    while True:
        scene = sample_scene(rng, (kind,), n_objects)
        if scenes != 'any' and is_held_out(scene) != (scenes == 'held_out'):
            continue
        task = ask(rng, scene, kind, wordings=wordings)
        if task is not None and skill_set is not None and skill_set.name != task.skill_set:
            task = _as_of(task, skill_set)
        if task is not None:
            return task


def _as_of(task: TaskSample, skill_set: SkillSet) -> TaskSample | None:
    """Return the task for robots with a skill set, or None if they cannot do its right plan."""
    try:
        parse(task.plan, skill_set, task.scene)
    except PlanError:
        return None
    return replace(task, skill_set=skill_set.name)
