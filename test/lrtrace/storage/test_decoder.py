"""Decoded messages are those that ROS serialised; for bytes that do not fit nothing is invented."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from timely_llm_ros.msg import TaskEvent

from lrtrace.storage.decoder import Decoder
from lrtrace.storage.definitions import find_definition

TEXT = """\
# a comment
uint8 LEVEL=3
string NAME = "a=b"
bool flag
float64 far 1.5
string<=20 said "a # b"
int16[] few
int64[<=4] bounded
uint8[3] three
bool[2] pair
b/msg/Inner[2] inners
c/action/Nothing none
===
MSG: b/Inner
uint32 a
Time at
===
MSG: b/Time
int8 t
===
MSG: c/action/Nothing
"""


def packed(order: str) -> bytes:
    kind = b'\0\1\0\0' if order == '<' else b'\0\0\0\0'
    return kind + struct.pack(
        f'{order}?7xdI3sxI2hI4xq3s??3xIb3xIbB',
        True, 2.5, 3, b'hi\0', 2, -1, 7, 1, -5, b'abc', True, False, 9, -1, 10, 2, 0,
    )  # fmt: skip


@pytest.mark.parametrize('order', ['<', '>'])
def test_every_kind_of_field_is_read_in_both_byte_orders(order: str) -> None:
    found = Decoder('a/msg/All', TEXT)(packed(order))
    assert (found.flag, found.far, found.said, found.three) == (True, 2.5, 'hi', b'abc')
    assert ([*found.few], [*found.bounded], found.pair) == ([-1, 7], [-5], [True, False])
    assert [(inner.a, inner.at.t) for inner in found.inners] == [(9, -1), (10, 2)]
    assert found.none is not None
    assert not hasattr(found, 'LEVEL')


@given(length=st.integers(0, len(packed('<')) - 1))
def test_a_message_that_ends_early_is_an_error(length: int) -> None:
    with pytest.raises(ValueError, match='bytes: expected'):
        Decoder('a/msg/All', TEXT)(packed('<')[:length])


def test_messages_of_this_package_are_read() -> None:
    sent = TaskEvent(robot='drone_1', event=4, achieved_utility=0.5, calls=['land', 'scan'])
    sent.header.stamp.sec = -5
    read = Decoder(
        'timely_llm_ros/msg/TaskEvent', find_definition('timely_llm_ros/msg/TaskEvent').text
    )
    found = read(serialize_message(sent))
    assert (found.robot, found.event, found.achieved_utility) == ('drone_1', 4, 0.5)
    assert (found.calls, found.header.stamp.sec) == (['land', 'scan'], -5)


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('uint8 a\nuint8 a', 'each field once'),
        ('what?', 'expected a field'),
        ('uint8[0] a', 'expected a field'),
        ('\n'.join(f'bool x{n}' for n in range(30_000)), 'fields: expected fewer'),
    ],
)
def test_definitions_that_cannot_be_used_are_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Decoder('a/msg/A', text)


@pytest.mark.parametrize('kind', ['wstring', 'b/Unknown'])
def test_a_type_that_is_not_known_is_named(kind: str) -> None:
    with pytest.raises(ValueError, match=kind):
        Decoder('a/msg/A', f'{kind} a')(b'\0\1\0\0' + bytes(8))
