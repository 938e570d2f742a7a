"""The examples of a skill-set file: tasks with right plans, for the prompts of general models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import InvalidTaskError, PlanError
from timely_llm_ros.skills.messages import instruction_words
from timely_llm_ros.skills.prompt import require_own_names
from timely_llm_ros.skills.scene import RELATIONS, Scene, SceneObject
from timely_llm_ros.skills.segments import read_statements
from timely_llm_ros.skills.skill_types import PlanExample

if TYPE_CHECKING:
    from timely_llm_ros.skills.loading.yaml_nodes import YamlValue
    from timely_llm_ros.skills.skill_types import SkillSet

MAX_EXAMPLES = 32
MAX_OBJECTS = 32
MAX_INSTRUCTION_LENGTH = 400
MAX_PLAN_LENGTH = 1000
MAX_METRES = 1000.0


def read_examples(item: YamlValue, skill_set: SkillSet) -> tuple[PlanExample, ...]:
    """Read the examples of a skill set.

    Raises:
        SkillSetError: One is malformed, or its plan is not valid in its scene.
    """
    return tuple(_example(one, skill_set) for one in item.sequence(MAX_EXAMPLES))


def _example(item: YamlValue, skill_set: SkillSet) -> PlanExample:
    keys = item.mapping(required=('instruction', 'plan'), optional=('objects',))
    instruction = keys['instruction'].line(MAX_INSTRUCTION_LENGTH)
    plan = keys['plan'].line(MAX_PLAN_LENGTH)
    try:
        objects = keys['objects'].sequence(MAX_OBJECTS) if 'objects' in keys else []
        scene = Scene(tuple(map(_object, objects)))
        require_own_names(skill_set, scene)
        if not read_statements(plan, skill_set, scene):
            keys['plan'].refuse(f'{plan!r}: expected at least one statement')
        return PlanExample(instruction_words(instruction), scene, plan)
    except InvalidTaskError as err:
        item.refuse(str(err))
    except PlanError as err:
        keys['plan'].refuse(str(err))


def _object(item: YamlValue) -> SceneObject:
    keys = item.mapping(
        required=('name', 'kind'),
        optional=('attribute', 'relation', 'support', 'x_m', 'y_m', 'z_m'),
    )

    def word(key: str, otherwise: str) -> str:
        return keys[key].word() if key in keys else otherwise

    def metres(key: str) -> float:
        return keys[key].number(-MAX_METRES, MAX_METRES) if key in keys else 0.0

    return SceneObject(
        keys['name'].word(),
        keys['kind'].word(),
        word('attribute', 'plain'),
        keys['relation'].one_of(RELATIONS) if 'relation' in keys else 'on',
        word('support', 'floor'),
        metres('x_m'),
        metres('y_m'),
        metres('z_m'),
    )
