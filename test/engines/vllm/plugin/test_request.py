"""The plug-in's extra argument: what a request says at the border, and what is wrong with one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.vllm.plugin.request import decode_request, encode_request
from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import URGENT

TELLO = find_skill_set('tello')
SCENE = Scene((SceneObject('cat_1', 'cat', x_m=1.5), SceneObject('cup_2', 'cup', relation='under')))


def test_a_request_survives_the_border_as_json() -> None:
    request = GenerationRequest(
        'a', Prompt('x', 'y'), TELLO, SCENE, URGENT, 7.0, max_tokens=99, scene_of='robot'
    )
    for named in (True, False):
        payload = json.dumps(encode_request(request, 7.5, named=named))
        found = decode_request(
            payload, name='b', max_tokens=99, skill_sets={'tello': TELLO}, now_s=107.5
        )
        assert found == replace(
            request,
            generation_id='a' if named else 'b',
            prompt=Prompt('', ''),
            arrival_s=107.0,
        )


@pytest.mark.parametrize(
    ('payload', 'expected'),
    [
        ('{', 'expected a mapping'),
        ('[1]', 'expected a mapping'),
        ({'skill_set': 'os', 'scene': []}, "skill set 'os': expected one of"),
        ({'skill_set': 'tello'}, 'expected a mapping with skill_set, scene'),
        ({'skill_set': 'tello', 'scene': [['Cat!', 'cat']]}, "object name 'Cat!'"),
        ({'skill_set': 'tello', 'scene': [[1, 2]]}, 'TypeError'),
        ({'skill_set': 'tello', 'scene': [], 'age_s': -1}, 'age_s -1.0: expected a finite'),
        ({'skill_set': 'tello', 'scene': [], 'utility': [1, 2, 3]}, 'utility slope 2.0'),
        ({'skill_set': 'tello', 'scene': [], 'utility': [1]}, 'TypeError'),
    ],
)
def test_a_bad_request_says_what_was_expected(payload: object, expected: str) -> None:
    with pytest.raises(InvalidTaskError) as caught:
        decode_request(payload, name='b', max_tokens=9, skill_sets={'tello': TELLO}, now_s=0.0)
    assert str(caught.value).startswith("extra argument 'timely': ")
    assert expected in str(caught.value)
