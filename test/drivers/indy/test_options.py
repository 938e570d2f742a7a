"""What leaves for an Indy is in its units and within its limits, or it does not leave."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.drivers import create_driver, read_options
from timely_llm_ros.drivers.indy.driver import away_from_base
from timely_llm_ros.drivers.indy.options import IndyOptions
from timely_llm_ros.errors import ConfigurationError, SkillFailedError
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set

metres = st.floats(-3.0, 3.0)
anything = st.floats(allow_nan=True, allow_infinity=True)


@given(metres, metres, metres, st.tuples(*[st.floats(-math.pi, math.pi)] * 3))
def test_points_inside_become_millimetres_and_degrees(
    x_m: float, y_m: float, z_m: float, rotation_rad: tuple[float, float, float]
) -> None:
    options = IndyOptions(tool_rotation_rad=rotation_rad)
    inside = math.hypot(x_m, y_m) <= 0.8 and 0 <= z_m <= 1.1
    if not inside:
        with pytest.raises(SkillFailedError, match=r'point \(.*\) m.*: expected'):
            options.tool_pose(x_m, y_m, z_m)
        return
    pose = options.tool_pose(x_m, y_m, z_m)
    assert pose[:3] == pytest.approx([1000 * x_m, 1000 * y_m, 1000 * z_m])
    assert [math.radians(angle) for angle in pose[3:]] == pytest.approx(list(rotation_rad))


@given(anything, anything, anything)
def test_no_number_leaves_the_workspace(x_m: float, y_m: float, z_m: float) -> None:
    try:
        pose = IndyOptions().tool_pose(x_m, y_m, z_m)
    except SkillFailedError:
        return
    assert all(map(math.isfinite, pose))
    assert math.hypot(*pose[:2]) <= 800.0 + 1e-9
    assert 0.0 <= pose[2] <= 1100.0


@pytest.mark.parametrize(('name', 'most'), [('speed', 100), ('acceleration', 900)])
@given(share=anything)
def test_shares_become_percentages_within_the_sdks_limits(
    name: str, most: int, share: float
) -> None:
    if not 1 <= 100 * share <= most:
        with pytest.raises(ConfigurationError, match=f'{name} {re.escape(repr(share))}: expected'):
            IndyOptions(**{name: share})  # type: ignore[arg-type]
        return
    options = IndyOptions(**{name: share})  # type: ignore[arg-type]
    assert 1 <= round(100 * getattr(options, name)) <= most


@given(metres, metres)
def test_away_is_a_direction(x_m: float, y_m: float) -> None:
    along = away_from_base(x_m, y_m)
    assert math.hypot(*along) == pytest.approx(1.0)
    assert x_m * along[0] + y_m * along[1] == pytest.approx(math.hypot(x_m, y_m), abs=2e-6)


@pytest.mark.parametrize(
    ('options', 'text'),
    [
        ({'index': 2}, 'index 2'),
        ({'speed': 0.0}, 'speed 0.0'),
        ({'speed': 1.01}, 'speed 1.01'),
        ({'speed': 'fast'}, "speed 'fast'"),
        ({'acceleration': 9.5}, 'acceleration 9.5'),
        ({'reach_m': float('nan')}, 'reach_m nan'),
        ({'answer_limit_s': 0}, 'answer_limit_s 0'),
        ({'approach_m': -0.1}, 'approach_m -0.1'),
        ({'floor_m': 2.0}, 'ceiling_m 1.1'),
        ({'tool_rotation_rad': [0.0, 1.0]}, 'tool_rotation_rad'),
        ({'tool_rotation_rad': 'abc'}, 'tool_rotation_rad'),
        ({'gripper_port': 1.5}, r'gripper_port 1\.5: expected a text or a whole number'),
        ({'gripper_port': 'D'}, "gripper_port 'D'"),
        ({'gripper_open': 'on'}, "gripper_open 'on'"),
        ({'gripper_port': 3}, "gripper_open 'LOW_PNP': expected one of off, on"),
        ({'wings': 2}, 'wings'),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read_options('indy', options)


def test_grippers() -> None:
    assert IndyOptions(gripper_port='').gripper is None
    tool = IndyOptions(gripper_port='A').gripper
    assert tool is not None
    assert tool[1]['close'] == {'port': 'A', 'states': [2]}
    box = IndyOptions(gripper_port='12', gripper_open='off', gripper_close='on').gripper
    assert box == (
        'box_output',
        {'open': {'address': 12, 'state': 0}, 'close': {'address': 12, 'state': 1}},
    )


def test_a_skill_that_an_indy_does_not_have_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="skill set 'tello': skill 'takeoff'"):
        create_driver(find_skill_set('tello'), IndyOptions())
    few = parse_skill_set(
        'name: few\ndescription: an arm that only stops\nsafe_action: stop\nskills:\n'
        '  stop: {description: stop, duration: {model: constant, seconds: 0.3}}\n'
    )
    create_driver(few, IndyOptions())
