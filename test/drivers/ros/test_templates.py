"""Messages out of YAML: what they become, and what is refused before a robot moves."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from support.robots import ros_bench

from timely_llm_ros.drivers.ros.message_types import FieldType
from timely_llm_ros.drivers.ros.templates import Filling, Templates
from timely_llm_ros.errors import SkillFailedError, SkillSetError
from timely_llm_ros.skills import Call, parse
from timely_llm_ros.skills.loading import compose, parse_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject

SKILLS = parse_skill_set("""
name: bot
description: a robot
safe_action: stop
skills:
  do:
    description: do all
    arguments:
      target: {kind: object}
      distance: {kind: int, unit: cm, minimum: -50, maximum: 300}
      angle: {kind: number, unit: deg, minimum: 0, maximum: 360}
      time: {kind: int, unit: ms, minimum: 0, maximum: 90000}
      gait: {kind: choice, choices: [slow, fast]}
      text: {kind: string, max_length: 20}
    duration: {model: constant, seconds: 1}
  stop: {description: stop, duration: {model: constant, seconds: 1}}
""")
SCENE = Scene((SceneObject('cup_1', 'cup', 'red', x_m=3.0, y_m=4.0, z_m=1.0),))
CONSTANTS = """
home: [0.0, 0.5, 1]
speeds: {slow: 0.1, fast: 2}
places: {cup_1: [1, 2, 3]}
itself: $itself
"""


@pytest.fixture(autouse=True)
def types(monkeypatch: pytest.MonkeyPatch) -> None:
    ros_bench.install(monkeypatch)


def templates(stand_off_m: float = 0.0) -> Templates:
    arguments = {spec.name: spec for spec in SKILLS.skills['do'].arguments}
    constants = compose(CONSTANTS, 'constants.yaml').mapping(any_key=True)
    frames = {'frame': 'map', 'body_frame': 'bot_1/base_link'}
    return Templates(arguments, constants, frames, stand_off_m=lambda _: stand_off_m)


def fill(text: str, scene: Scene = SCENE, stand_off_m: float = 0.0) -> Any:
    made = templates(stand_off_m).message(
        compose(text, 'bot.yaml'), sys.modules['bot_msgs.msg'].Everything
    )
    (call,) = parse('do(cup_1,150,90,1500,fast,"hi there");', SKILLS, SCENE)
    assert isinstance(call, Call)
    return made(Filling(call, scene))


@pytest.mark.parametrize(
    ('text', 'field', 'expected'),
    [
        ('flag: true', 'flag', True),
        ('small: 255', 'small', 255),
        ('length: 1e-3', 'length', 0.001),
        ('word: two words', 'word', 'two words'),
        ('many: [1, -2.5]', 'many', [1.0, -2.5]),
        ('three: [$distance, -$distance, $target.z]', 'three', [1.5, -1.5, 1.0]),
        ('few: [$target, $gait]', 'few', ['cup_1', 'fast']),
        ('length: $distance', 'length', 1.5),
        ('length: -$distance as mm', 'length', -1500.0),
        ('small: $time as ms', 'small', None),
        ('large: $time as ms', 'large', 1500),
        ('length: $angle', 'length', math.pi / 2),
        ('length: $angle as deg', 'length', 90.0),
        ('word: $text', 'word', 'hi there'),
        ('word: $target.kind', 'word', 'cup'),
        ('word: $frame', 'word', 'map'),
        ('word: $body_frame', 'word', 'bot_1/base_link'),
        ('length: $target.distance', 'length', math.sqrt(26)),
        ('length: $target.yaw', 'length', math.atan2(4, 3)),
        ('length: "$speeds[gait]"', 'length', 2.0),
        ('three: $home', 'three', [0.0, 0.5, 1.0]),
        ('three: "$places[target]"', 'three', [1.0, 2.0, 3.0]),
    ],
)
def test_a_field_is_what_the_file_and_the_call_say(text: str, field: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(SkillSetError, match='may be 90000: uint8 holds 0 to 255'):
            fill(text)
        return
    value = getattr(fill(text), field)
    assert value == (expected if isinstance(expected, str) else pytest.approx(expected))


def test_seconds_and_times_become_durations() -> None:
    for text, seconds in (('time: 2.25', 2.25), ('time: $time', 1.5), ('time: -0.5', -0.5)):
        time = fill(text).time
        assert time.sec + 1e-9 * time.nanosec == seconds
        assert 0 <= time.nanosec < 1e9
    assert fill('time: {sec: 3}').time.sec == 3


def test_an_object_is_a_pose_before_it_that_faces_it() -> None:
    pose = fill('pose: $target', stand_off_m=1.0).pose
    assert pose.header.frame_id == 'map'
    position = pose.pose.position
    assert (position.x, position.y, position.z) == pytest.approx((2.4, 3.2, 1.0))
    yaw = 2 * math.atan2(pose.pose.orientation.z, pose.pose.orientation.w)
    assert yaw == pytest.approx(math.atan2(4, 3))
    # An object may have a frame of its own.
    scene = Scene((SceneObject('cup_1', 'cup', x_m=3.0, frame='camera'),))
    assert fill('pose: $target', scene).pose.header.frame_id == 'camera'
    # Never behind the start.
    assert fill('point: $target', stand_off_m=9.0).point.x == 0.0
    # Behind the object.
    assert fill('point: $target', stand_off_m=-5.0).point.x == pytest.approx(6.0)
    assert fill('turned: {yaw: $angle}').turned.z == pytest.approx(math.sin(math.pi / 4))


def test_an_object_that_is_gone_or_unknown_fails_the_skill() -> None:
    with pytest.raises(SkillFailedError, match="'cup_1': expected an object of the scene"):
        fill('point: $target', Scene())
    made = templates().value(compose('"$places[target]"', 'f'), FieldType.of('double[3]'))
    scene = Scene((SceneObject('cup_2', 'cup'),))
    (call,) = parse('do(cup_2,0,0,0,slow,"x");', SKILLS, scene)
    assert isinstance(call, Call)
    with pytest.raises(SkillFailedError, match=r"'cup_2': expected one of constants.places in con"):
        made(Filling(call, scene))


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('lenght: 1', r'bot.yaml:1: lenght: bot_msgs/Everything has no field .*length \(double\)'),
        ('pose: {pose: {positon: 1}}', r'pose.pose.positon: geometry_msgs/Pose has no field'),
        ('small: 256', 'expected an integer from 0 to 255'),
        ('small: 1.5', 'expected an integer'),
        ('flag: 1', 'expected true or false'),
        ('length: fast', 'expected a number'),
        ('word: 5', 'quote it to mean text'),
        ('short: hello', 'at most|1 to 4'),
        ('short: $text', r"argument 'text' has up to 20 characters: string<4>"),
        ('raw: 1', 'the field is octet'),
        ('three: [1, 2]', r'2 values: expected 3, as double\[3\] says'),
        ('few: [a, b, c]', '3 values: expected 1 to 2'),
        ('many: 1', 'expected a list'),
        ('many: $distance', 'expected a list'),
        ('length: $distanse', 'expected an argument or a constant: target, distance, angle'),
        ('length: $distance as kg', "argument 'distance' is in cm: 'kg' is another kind"),
        ('length: $distance.x', "argument 'distance' is no object"),
        ('length: $target', r'\$target is an object, the field is double'),
        ('length: $target.size', 'expected one of x, y, z, yaw'),
        ('length: $target.kind', 'is a text, the field is double'),
        ('word: $target.x', 'is a number, the field is string'),
        ('word: $distance', 'is a number, the field is string'),
        ('length: $text', 'is a text, the field is double'),
        ('length: $frame', 'is a text, the field is double'),
        ('point: -$target', 'is an object'),
        ('time: $distance', "argument 'distance' is in cm: expected a time"),
        ('time: soon', 'expected a number'),
        ('length: $', r"'\$': expected \$ and the name"),
        ('length: -$home', 'expected an argument'),
        ('length: $itself', 'expected an argument or a constant'),
        ('length: "$speeds[text]"', r'\$speeds\[text\]: expected an argument that is an object'),
        ('length: "$places[gait]"', "constants.yaml:4: places|expected an entry 'slow'"),
        ('length: $home', 'constants.yaml:2: home: a list: expected a number'),
    ],
)
def test_what_the_type_does_not_have_is_refused_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(SkillSetError, match=expected):
        fill(text)
