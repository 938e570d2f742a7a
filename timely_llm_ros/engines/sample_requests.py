"""Requests that an engine serves to measure itself: an arm clears a table into a box."""

from __future__ import annotations

from functools import cache

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.skills import Scene, SceneObject, SkillSet, build_prompt
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

_KINDS = ('cup', 'book', 'pen', 'bottle', 'apple', 'plate')


def sample_request(name: str, objects: int, *, max_tokens: int) -> GenerationRequest:
    """Return a request whose plan waits for none of its robot's values.

    Of the scene's ``objects``, at least 3, one is the table and one is the box. A model that knows
    the task uses up ``max_tokens``.
    """
    things = [
        SceneObject(
            f'{kind}_{number}', kind, 'plain', 'on', 'table', x_m=0.1 + 0.01 * number, y_m=0.2
        )
        for number in range(1, objects - 1)
        for kind in [_KINDS[number % len(_KINDS)]]
    ]
    scene = Scene(
        (
            SceneObject('table_1', 'table', x_m=0.4),
            SceneObject('box_1', 'box', 'plain', 'near', 'table', x_m=0.5),
            *things,
        )
    )
    skill_set = _arm()
    prompt = build_prompt(skill_set, scene, 'clear the table into the box')
    return GenerationRequest(name, prompt, skill_set, scene, NORMAL, 0.0, max_tokens=max_tokens)


@cache
def _arm() -> SkillSet:
    return find_skill_set('arm')
