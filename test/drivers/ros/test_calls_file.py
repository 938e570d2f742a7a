"""The file that says what each skill calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.robots import ros_bench
from support.robots.ros_robot import CALLS, SKILLS

from timely_llm_ros.drivers.ros import RosOptions, find_calls_file, read_calls
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.drivers.ros import Calls


@pytest.fixture(autouse=True)
def types(monkeypatch: pytest.MonkeyPatch) -> None:
    ros_bench.install(monkeypatch)


def read(folder: Path, text: str) -> Calls:
    file = folder / 'calls.yaml'
    file.write_text(text, encoding='utf-8')
    return read_calls(SKILLS, RosOptions(calls_file=str(file), prefix='bot_1/'))


def test_endpoints_have_the_robots_prefix_and_come_once(tmp_path: Path) -> None:
    calls = read(tmp_path, CALLS)
    assert [(one.kind, one.name) for one in calls.endpoints] == [
        ('action', 'bot_1/go'),
        ('service', 'bot_1/ask'),
        ('topic', '/cmd_vel'),
        ('service', 'bot_1/halt'),
    ]
    assert [one.name for one in calls.actions] == ['bot_1/go']
    assert calls.endpoints[0].where.endswith('calls.yaml:4')


@pytest.mark.parametrize(
    ('old', 'new', 'expected'),
    [
        ('  stop:', '  stopp:', "expected what skill 'stop' of 'bot' calls"),
        ('  stop:', '  fly: {cancel_all: true}\n  stop:', 'skills.fly: expected a skill of skill'),
        ('bot_msgs/action/Go', 'bot_msgs/action/Gone', r'calls.yaml:5: .*actions of bot_msgs: Go'),
        ('bot_msgs/action/Go', 'geometry_msgs/msg/Pose', 'expected the type of a action'),
        ('pose: $target', 'poses: $target', r'calls.yaml:6: .*Go_Goal has no field .poses.'),
        ('{error_code: 0}', '{code: 0}', 'Go_Result has no field .code.: its fields are error_co'),
        ('remaining: left', 'remaining: rest', 'Go_Feedback has no field .rest.'),
        ('value: ok', 'value: text', 'the field is string, the skill returns bool'),
        ('value: ok', 'success: {ok: true}', 'returns bool: expected its last call to say'),
        ('look: target', 'cancel_all: true', 'returns bool: expected its last call to say'),
        ('for: $time', 'for: $level', "argument 'level' is in '': expected it in one"),
        ('wait: $time', 'wait: $distance', "argument 'distance' is in 'cm': expected it in"),
        ('wait: 0.5', 'wait: -1', 'expected 0.001 to 3600|0.001'),
        ('off_m: -$distance', 'off_m: $time', "argument 'time' is in 'ms': expected it in"),
        ('take_picture: true', 'take_picture: false', 'take_picture: expected true'),
        ('- cancel_all: true', '- wait: 1', 'the safe action takes at once'),
        ('action: go', 'action: go\n    rate: 3', 'unknown key: expected one of action, type'),
        ('action: go', 'actions: go', 'expected one of action, service, topic, cancel_all, look'),
        ('cancel_all: true', 'cancel_all: false', 'cancel_all: expected true'),
        ('- cancel_all: true', '- look: target', "look 'target': expected an object"),
        (
            'type: bot_msgs/srv/Ask, request: {what: halt}',
            'type: bot_msgs/srv/Ask, request: {what: halt}, value: ok',
            'returns none: expected no value',
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    assert old in CALLS
    with pytest.raises(ConfigurationError, match=expected) as caught:
        read(tmp_path, CALLS.replace(old, new, 1))
    assert 'calls.yaml:' in str(caught.value)


def test_one_name_has_one_type(tmp_path: Path) -> None:
    text = CALLS.replace('service: ask', 'service: /cmd_vel')
    read(tmp_path, text)
    text = CALLS + '    - {topic: /cmd_vel, type: geometry_msgs/msg/Pose}\n'
    with pytest.raises(ConfigurationError, match='expected geometry_msgs/msg/Twist, as in'):
        read(tmp_path, text)


def test_the_safe_action_takes_at_once(tmp_path: Path) -> None:
    text = CALLS + '    - {topic: /cmd_vel, type: geometry_msgs/msg/Twist, for: 2}\n'
    with pytest.raises(ConfigurationError, match=r'skills.stop: the safe action takes at once'):
        read(tmp_path, text)


def test_a_file_ships_under_its_name_or_is_a_path() -> None:
    assert find_calls_file('nav2').name == 'nav2.yaml'
    with pytest.raises(ConfigurationError, match="calls file 'nav3': expected a path or one of"):
        find_calls_file('nav3')
