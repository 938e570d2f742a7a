from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import pytest

from timely_llm_ros.engines import (
    EngineState,
    GenerationEnded,
    GenerationRequest,
    SegmentGenerated,
)
from timely_llm_ros.engines.commands import Resume, RobotIdleAt
from timely_llm_ros.engines.engine import GenerationState
from timely_llm_ros.pickling import pickled_as_call
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.skills import Prompt, Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL

PLAN = 'takeoff;repeat(2){turn_cw(90);};if(!is_visible(cat_1)){goto(cat_1);}else{scan;};'


def test_what_an_engine_sends_arrives_as_it_was() -> None:
    scene = Scene((SceneObject('cat_1', 'cat', x_m=1.0),))
    statements = parse(PLAN, find_skill_set('tello'), scene)
    segment = Segment(0, PLAN, tuple(statements), tokens=9, is_last=True, awaits_value=False)
    for event in (
        SegmentGenerated('g', segment, 1.5, 0.25, 300),
        GenerationEnded('g', 'stop', '', 9, 0.5, (1, 2, 3), 4),
    ):
        data = pickle.dumps(event, protocol=pickle.HIGHEST_PROTOCOL)
        assert pickle.loads(data) == event
        assert b'_dataclass_setstate' not in data


def test_what_an_engine_is_told_and_says_of_itself_arrives_as_it_was() -> None:
    scene = Scene((SceneObject('cat_1', 'cat', x_m=1.0),))
    tello = find_skill_set('tello')
    request = GenerationRequest('g', Prompt('all', 'own'), tello, scene, NORMAL, 1.5, scene_of='r1')
    state = EngineState(1, 2, 3, 4, 5, 6, 0.25, (GenerationState('g', Phase.HELD, 1.0, 2.0, 3, 4),))
    for record in (request, tello, state, Resume('g', 'true'), RobotIdleAt('g', 2.5)):
        arrived = pickle.loads(pickle.dumps(record, protocol=pickle.HIGHEST_PROTOCOL))
        assert repr(arrived) == repr(record)


def test_only_records_whose_fields_are_all_arguments_can_be() -> None:
    @dataclass(frozen=True, slots=True)
    class Single:
        one: int

    @dataclass(frozen=True, slots=True)
    class Hidden:
        one: int
        two: int = field(default=0, init=False)

    for kind in (Single, Hidden):
        with pytest.raises(TypeError, match=kind.__name__):
            pickled_as_call(kind)
