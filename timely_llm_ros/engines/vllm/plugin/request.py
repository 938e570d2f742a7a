"""A generation's request in plain types, as a part of a vLLM request.

It travels in ``SamplingParams.extra_args['timely']``, over HTTP as JSON text in ``vllm_xargs``, and
the scheduler inside vLLM's engine core reads it. It comes from clients, so names are looked up only
among the skill sets that the server knows. This module imports no vLLM.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.errors import InvalidTaskError, TimelyError
from timely_llm_ros.skills import Prompt, Scene, SceneObject
from timely_llm_ros.utility import NORMAL, TimeUtility

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.skills import SkillSet

KEY = 'timely'
"""The key of ``extra_args``."""


def encode_request(request: GenerationRequest, now_s: float, *, named: bool) -> dict[str, Any]:
    """Return a request for ``extra_args``.

    Args:
        request: The request.
        now_s: The present time on the clock of ``request.arrival_s`` (s).
        named: Whether it keeps its ``generation_id`` in the engine core, where the control channel
            finds it. Only the client that made the engine core may ask for this.
    """
    utility = request.utility
    payload: dict[str, Any] = {
        'skill_set': request.skill_set.name,
        'scene': [
            [o.name, o.kind, o.attribute, o.relation, o.support, o.x_m, o.y_m, o.z_m]
            for o in request.scene.objects
        ],
        'utility': [utility.expected_response_s, utility.slope_per_s, utility.peak],
        'age_s': max(0.0, now_s - request.arrival_s),
    }
    if request.predicted_tokens is not None:
        payload['predicted_tokens'] = request.predicted_tokens
    if request.scene_of:
        payload['scene_of'] = request.scene_of
    if named:
        payload['id'] = request.generation_id
    return payload


def encode_scene(scene_of: str, fixed_tokens: int) -> dict[str, Any]:
    """Return for ``extra_args`` that a request is a robot's scene, see ``Warm``.

    Only the client that made the engine core may send one. Its prompt begins with so many tokens
    that the prompts of all robots of a kind begin with.
    """
    return {'warm': scene_of, 'fixed_tokens': fixed_tokens}


def decode_request(
    payload: object,
    *,
    name: str,
    max_tokens: int,
    skill_sets: Mapping[str, SkillSet],
    now_s: float,
) -> GenerationRequest:
    """Return the request of a payload, a mapping or its JSON text; its prompt is empty.

    Args:
        payload: What :func:`encode_request` returned.
        name: The generation's id where the payload has none.
        max_tokens: Tokens after which the generation ends.
        skill_sets: Those that it may name.
        now_s: The present time (s).

    Raises:
        InvalidTaskError: It is malformed or names an unknown skill set.
    """
    try:
        values = json.loads(payload) if isinstance(payload, str) else payload
        if not isinstance(values, dict):
            raise InvalidTaskError(f'{type(values).__name__}: expected a mapping')
        skill_set = skill_sets.get(str(values['skill_set']))
        if skill_set is None:
            raise InvalidTaskError(
                f'skill set {values["skill_set"]!r}: expected one of {sorted(skill_sets)}'
            )
        objects = tuple(SceneObject(*row[:5], *map(float, row[5:])) for row in values['scene'])
        age_s = float(values.get('age_s', 0.0))
        if not (math.isfinite(age_s) and age_s >= 0):
            raise InvalidTaskError(f'age_s {age_s!r}: expected a finite number >= 0')
        utility = NORMAL
        if 'utility' in values:
            utility = TimeUtility(*map(float, values['utility']))
        predicted = values.get('predicted_tokens')
        return GenerationRequest(
            str(values.get('id', name)),
            Prompt('', ''),
            skill_set,
            Scene(objects),
            utility,
            now_s - age_s,
            max_tokens=max_tokens,
            predicted_tokens=None if predicted is None else float(predicted),
            scene_of=str(values.get('scene_of', '')),
        )
    except TimelyError as err:
        raise InvalidTaskError(f'extra argument {KEY!r}: {err}') from err
    except (KeyError, TypeError, ValueError) as err:
        raise InvalidTaskError(
            f'extra argument {KEY!r}: {type(err).__name__} {err}; expected a mapping with '
            'skill_set, scene (lists of name, kind, attribute, relation, support, x, y, z) and '
            'perhaps utility (expected response, slope, peak) and age_s'
        ) from err
