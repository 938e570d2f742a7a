"""ROS types by name."""

from __future__ import annotations

import sys

import pytest
from support.robots import ros_bench

from timely_llm_ros.drivers.ros.message_types import FieldPath, FieldType, describe, find_type
from timely_llm_ros.errors import ConfigurationError


@pytest.fixture(autouse=True)
def types(monkeypatch: pytest.MonkeyPatch) -> None:
    ros_bench.install(monkeypatch)


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('bot_msgs/Go', r"'bot_msgs/Go': expected package, action, srv or msg, and name"),
        ('bot_msgs/action/Gone', r'expected one of the actions of bot_msgs: Go'),
        ('no_msgs/action/Go', r"package 'no_msgs' with actions: expected it to be installed"),
    ],
)
def test_a_type_that_there_is_not_is_refused(name: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        find_type(name)


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('double', FieldType('double', 'double')),
        ('double[36]', FieldType('double[36]', 'double', True, 36, 36)),
        ('sequence<a_msgs/B>', FieldType('sequence<a_msgs/B>', 'a_msgs/B', True)),
        ('sequence<int8, 5>', FieldType('sequence<int8, 5>', 'int8', True, 0, 5)),
        ('string<9>', FieldType('string<9>', 'string', longest=9)),
        ('sequence<string<9>, 2>', FieldType('sequence<string<9>, 2>', 'string', True, 0, 2, 9)),
    ],
)
def test_field_types_are_read_as_generated_classes_say_them(text: str, expected: FieldType) -> None:
    assert FieldType.of(text) == expected


def test_a_path_goes_through_messages_and_says_what_is_wrong() -> None:
    everything = sys.modules['bot_msgs.msg'].Everything
    made = everything()
    made.pose.header.frame_id = 'odom'
    path = FieldPath.of('pose.header.frame_id', everything)
    assert (path.read(made), path.type.base) == ('odom', 'string')
    with pytest.raises(ConfigurationError, match='std_msgs/Header has no field'):
        FieldPath.of('pose.header.frame', everything)
    with pytest.raises(ConfigurationError, match="'length' is double: expected it to have fields"):
        FieldPath.of('length.x', everything)


def test_a_result_is_described_with_the_names_of_its_codes() -> None:
    result = find_type('bot_msgs/action/Go').Result
    assert describe(result(error_code=7, error_msg='wall')) == (
        "error_code 7 (WALL), error_msg 'wall'"
    )
    assert describe(result()) == ''
    assert describe(find_type('bot_msgs/srv/Ask').Response()) == 'ok False'
