"""No call leaves a robot's envelope, whatever is not known of where the robot is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from timely_llm_ros.errors import ConfigurationError, EnvelopeError
from timely_llm_ros.execution import Fence, Pose, Whereabouts, read_envelope
from timely_llm_ros.skills import Call, Scene, SceneObject
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.testing import RecordingDriver

TELLO = find_skill_set('tello')
SCENE = Scene(
    (
        SceneObject('cup_1', 'cup', x_m=3.0, y_m=0.0),
        SceneObject('worker_1', 'worker', x_m=0.0, y_m=3.0),
    )
)
ROOM = {'workspace': {'x': [-2, 2], 'y': [-1, 1], 'z': [0, 2]}}


class KnowingDriver(RecordingDriver):
    """A driver that says whatever a test wants it to know."""

    pose: Pose | None = None
    battery_percent: float | None = None
    speed_m_s = 0.5


def fence(rules: dict[str, Any]) -> Fence:
    return Fence(read_envelope(rules), TELLO, RecordingDriver(TELLO, 'r', lambda _: None))


def knowing_fence(rules: dict[str, Any]) -> tuple[Fence, KnowingDriver]:
    driver = KnowingDriver(TELLO, 'r', lambda _: None)
    return Fence(read_envelope(rules), TELLO, driver), driver


def call(text: str) -> Call:
    (statement,) = parse(f'{text};', TELLO, SCENE)
    assert isinstance(statement, Call)
    return statement


def fly(guarded: Fence, *texts: str) -> None:
    for text in texts:
        guarded.check(call(text), SCENE)
        guarded.done()


def refused(guarded: Fence, text: str) -> str:
    before = guarded.at
    with pytest.raises(EnvelopeError) as caught:
        guarded.check(call(text), SCENE)
    assert guarded.at == before
    assert str(caught.value).startswith(f'{text}: rule {caught.value.rule!r}: ')
    return caught.value.rule


def test_a_robot_stays_in_its_workspace_on_every_side() -> None:
    for turn, text in ((1, 'move_forward'), (1, 'move_right'), (1, 'move_left')):
        guarded = fence(ROOM)
        fly(guarded, 'takeoff', *(['turn_cw(90)'] * (turn - 1)))
        limit = 200 if text == 'move_forward' else 100
        assert refused(guarded, f'{text}({limit + 1})') == 'workspace'
        fly(guarded, f'{text}({limit})')
        assert refused(guarded, f'{text}(20)') == 'workspace'


def test_a_turn_between_moves_counts() -> None:
    guarded = fence(ROOM)
    fly(guarded, 'takeoff', 'move_forward(150)', 'turn_ccw(90)')
    assert refused(guarded, 'move_forward(101)') == 'workspace'
    fly(guarded, 'move_forward(100)', 'turn_cw(180)', 'move_forward(200)')
    assert refused(guarded, 'move_forward(20)') == 'workspace'


def test_heights_are_known_no_better_than_the_skill_set_says() -> None:
    guarded = fence(ROOM)
    fly(guarded, 'takeoff')
    assert (guarded.at.low_m, guarded.at.high_m) == (0.5, 1.2)
    assert refused(guarded, 'move_up(81)') == 'workspace'
    assert refused(guarded, 'move_down(51)') == 'workspace'
    fly(guarded, 'move_up(80)', 'land', 'takeoff', 'takeoff')
    assert guarded.at.high_m == 1.2


def test_a_driver_that_knows_where_the_robot_is_has_the_last_word() -> None:
    guarded, driver = knowing_fence({**ROOM, 'maximum_height_m': 1.5})
    fly(guarded, 'takeoff')
    driver.pose = Pose(1.9, 0.0, 0.8, 0.0)
    assert refused(guarded, 'move_forward(20)') == 'workspace'
    fly(guarded, 'move_up(70)')
    assert refused(guarded, 'move_up(71)') == 'height'
    driver.pose = Pose(0.0, 0.0, 0.8, math.pi / 2)
    assert refused(guarded, 'move_forward(101)') == 'workspace'
    driver.pose = Pose(math.nan, 0.0, 0.8, math.nan)
    # What it had said before still counts.
    assert refused(guarded, 'move_up(81)') == 'height'
    driver.pose = Pose(0.0, 0.0, 0.8, math.nan)
    assert refused(guarded, 'move_forward(101)') == 'workspace'
    fly(guarded, 'move_forward(100)')


def test_a_way_through_a_volume_is_refused_and_one_around_it_is_not() -> None:
    guarded = fence({'no_go': {'pillar': {'x': [0.9, 1.1], 'y': [-0.2, 0.2]}}})
    fly(guarded, 'takeoff')
    assert refused(guarded, 'move_forward(200)') == 'no_go pillar'
    assert refused(guarded, 'goto(cup_1)') == 'no_go pillar'
    fly(guarded, 'move_left(50)', 'move_forward(200)', 'move_right(50)', 'turn_cw(180)')
    assert refused(guarded, 'move_forward(200)') == 'no_go pillar'


def test_a_volume_may_be_flown_over() -> None:
    guarded = fence({'no_go': {'table': {'x': [0.9, 1.1], 'y': [-1, 1], 'z': [0, 0.4]}}})
    fly(guarded, 'takeoff', 'move_forward(100)')
    assert refused(guarded, 'land') == 'no_go table'
    assert refused(guarded, 'move_down(20)') == 'no_go table'
    fly(guarded, 'move_forward(50)', 'land')


def test_nobody_is_come_near_to_over_the_ground() -> None:
    guarded = fence({'people_distance_m': 1.0})
    fly(guarded, 'takeoff', 'move_up(300)', 'move_left(200)')
    assert refused(guarded, 'move_left(20)') == 'people'
    assert refused(guarded, 'goto(worker_1)') == 'people'
    fly(guarded, 'move_forward(200)')


def test_a_robot_that_is_near_to_somebody_may_go_away_and_land_but_not_take_off() -> None:
    guarded = fence({'people_distance_m': 4.0})
    assert refused(guarded, 'takeoff') == 'people'
    fly(guarded, 'move_right(100)', 'takeoff', 'land')
    guarded, driver = knowing_fence({'people_distance_m': 1.0, 'margin_m': 0.3})
    driver.pose = Pose(0.0, 2.5, 1.0, 0.0)
    assert refused(guarded, 'move_left(20)') == 'people'
    # Sideways it may come nearer, if it is not quite where it is taken to be.
    assert refused(guarded, 'move_forward(20)') == 'people'
    fly(guarded, 'move_right(20)', 'turn_cw(90)', 'land')


def test_who_counts_as_people_can_be_said() -> None:
    guarded = fence({'people_distance_m': 1.0, 'people_kinds': ['cup']})
    fly(guarded, 'takeoff', 'move_left(300)', 'move_right(300)')
    assert refused(guarded, 'move_forward(300)') == 'people'


def test_a_margin_is_kept_everywhere() -> None:
    guarded = fence({**ROOM, 'margin_m': 0.25, 'no_go': {'post': {'x': [1, 1.1], 'y': [0.8, 1]}}})
    fly(guarded, 'takeoff')
    assert refused(guarded, 'move_forward(176)') == 'workspace'
    assert refused(guarded, 'move_up(56)') == 'workspace'
    fly(guarded, 'move_left(60)')
    assert refused(guarded, 'move_forward(170)') == 'no_go post'


def test_an_approach_ends_somewhere_around_its_object() -> None:
    guarded = fence({'workspace': {'x': [-5, 3.5], 'y': [-5, 5]}})
    fly(guarded, 'takeoff')
    assert refused(guarded, 'goto(cup_1)') == 'workspace'
    guarded = fence({'workspace': {'x': [-5, 3.7], 'y': [-5, 5]}})
    fly(guarded, 'takeoff', 'goto(cup_1)')
    assert replace(guarded.at, heading_rad=0.0) == Whereabouts(3.0, 0.0, 0.7, 0.5, 1.2)
    # It may look anywhere, so a move may lead anywhere.
    assert refused(guarded, 'move_backward(20)') == 'workspace'
    fly(guarded, 'land')


def test_a_call_that_is_cut_short_leaves_the_robot_anywhere_on_its_way() -> None:
    guarded = fence(ROOM)
    fly(guarded, 'takeoff')
    guarded.check(call('move_forward(200)'), SCENE)
    assert (guarded.at.x_m, guarded.at.radius_m) == pytest.approx((1.0, 1.0))
    assert refused(guarded, 'move_forward(20)') == 'workspace'
    assert refused(guarded, 'move_left(20)') == 'workspace'
    guarded.made_safe()
    assert guarded.at.low_m == 0.0
    fly(guarded, 'land')


def test_a_turn_that_is_cut_short_leaves_the_heading_unknown() -> None:
    for text in ('turn_cw(90)', 'turn_ccw(360)', 'scan'):
        guarded = fence(ROOM)
        fly(guarded, 'takeoff')
        guarded.check(call(text), SCENE)
        assert guarded.at.heading_rad is None
        assert refused(guarded, 'move_forward(101)') == 'workspace'
        fly(guarded, 'move_forward(100)')
        assert guarded.at.radius_m == pytest.approx(1.0)


def test_speeds_are_the_drivers_or_the_motions() -> None:
    fly(fence({'maximum_speed_m_s': 0.5}), 'takeoff', 'move_forward(50)')
    assert refused(fence({'maximum_speed_m_s': 0.49}), 'move_forward(50)') == 'speed'
    guarded, driver = knowing_fence({'maximum_speed_m_s': 0.5})
    driver.speed_m_s = 0.6
    assert refused(guarded, 'move_forward(50)') == 'speed'


def test_a_robot_with_little_charge_only_lands() -> None:
    guarded, driver = knowing_fence({'minimum_battery_percent': 25})
    assert refused(guarded, 'takeoff') == 'battery'
    driver.battery_percent = 25
    fly(guarded, 'takeoff')
    driver.battery_percent = 24.9
    for text in ('move_up(20)', 'turn_cw(1)', 'goto(cup_1)'):
        assert refused(guarded, text) == 'battery'
    fly(guarded, 'take_picture', 'hover', 'land')


@pytest.mark.parametrize(
    ('rules', 'problem'),
    [
        ({}, 'expected a mapping'),
        ({'workspce': {}}, "'workspce': expected one of"),
        ({'workspace': {'w': [0, 1]}}, "workspace: 'w': expected one of x, y, z"),
        ({'workspace': {'x': [1, 1]}}, 'workspace: x from 1 to 1: expected the lesser'),
        ({'workspace': {'x': 3}}, 'workspace: x: 3: expected two numbers'),
        ({'no_go': {'a': {'x': [0, float('nan')]}}}, 'no_go: nan: expected a number'),
        ({'maximum_height_m': 'high'}, "maximum_height_m: 'high': expected a number"),
        ({'maximum_height_m': -1}, 'maximum_height_m'),
        ({'people_kinds': 'worker'}, "people_kinds: 'worker': expected a list of words"),
        ({'start': {'z': 1}}, "start: 'z': expected one of"),
    ],
)
def test_a_wrong_envelope_is_refused_by_name(rules: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_envelope(rules)
    assert problem in str(caught.value)


def test_a_rule_of_which_nobody_can_say_whether_it_is_kept_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='a driver that tells its charge'):
        fence({'minimum_battery_percent': 25})
    with pytest.raises(ConfigurationError, match='the driver says where'):
        knowing_fence({'start': {'x': 1.0}})
    arm = find_skill_set('arm')
    with pytest.raises(ConfigurationError, match=r"skill 'pick' of skill set 'arm'.*a motion"):
        Fence(read_envelope(ROOM), arm, RecordingDriver(arm, 'r', lambda _: None))
    nav2 = find_skill_set('nav2')
    with pytest.raises(ConfigurationError, match=r"skill 'go_to'.*how fast"):
        Fence(
            read_envelope({'maximum_speed_m_s': 1}),
            nav2,
            RecordingDriver(nav2, 'r', lambda _: None),
        )


def test_a_robot_may_start_elsewhere() -> None:
    guarded = fence({**ROOM, 'start': {'x': 1.0, 'heading_deg': 90}})
    fly(guarded, 'takeoff', 'move_right(100)')
    assert refused(guarded, 'move_right(20)') == 'workspace'
